#include "support/test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#include "os/resources.h"
#include "redis/slot.h"
#include "store/keys.h"
#include "store/record.h"
#include "support/entropy.h"
#include "support/forked.h"

namespace delayqueue::store {
namespace {

// Runs `call` in a new thread, which has made no id yet.
template <class Call>
auto in_new_thread(Call call) {
  return std::async(std::launch::async, call).get();
}

// The last 10 digits, all of them random, of ids made by as many calls.
std::vector<std::string> random_digits(int calls) {
  std::vector<std::string> digits;
  for (int i = 0; i < calls; ++i) digits.push_back(new_ids(1).front().substr(26));
  return digits;
}

TEST_CASE("ids: are UUIDs of version 7 in lower case") {
  for (const auto& id : new_ids(1000)) {
    REQUIRE(id.size() == 36);
    for (std::size_t i = 0; i < id.size(); ++i) {
      const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
      CHECK((dash ? id[i] == '-' : std::string("0123456789abcdef").find(id[i]) != std::string::npos));
    }
    CHECK(id[14] == '7');
    CHECK(std::string("89ab").find(id[19]) != std::string::npos);
    CHECK(canonical_id(id) == id);
  }
  CHECK(new_ids(0).empty());
}

TEST_CASE("ids: contain their creation time, to the millisecond") {
  const auto before = std::chrono::floor<std::chrono::milliseconds>(WallClock::now());
  const auto ids = new_ids(100);
  const auto after = WallClock::now();
  for (const auto& id : ids) {
    REQUIRE(time_of_id(id));
    CHECK(*time_of_id(id) >= before);
    CHECK(*time_of_id(id) <= after);
  }
}

TEST_CASE("ids: ascend within one call, even over many, and from one call to a later one") {
  std::vector<std::string> all;
  for (const std::size_t count : {70'000U, 1U, 300U}) {
    const auto ids = new_ids(count);
    all.insert(all.end(), ids.begin(), ids.end());
    std::this_thread::sleep_for(1ms);
  }
  CHECK(std::is_sorted(all.begin(), all.end()));
  CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
}

TEST_CASE("ids: those of one thread ascend, also if calls follow each other at once") {
  std::vector<std::string> all;
  for (int i = 0; i < 100'000; ++i) all.push_back(new_ids(1).front());
  CHECK(std::is_sorted(all.begin(), all.end()));
  CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
}

TEST_CASE("ids: all random bits and those of the check vary, and the variant and the partition do not") {
  IdBytes ones{};
  IdBytes zeros{};
  for (int i = 0; i < 1000; ++i) {
    const auto bytes = bytes_of(new_ids(1).front());
    REQUIRE(bytes);
    for (std::size_t k = 8; k < 16; ++k) {
      ones[k] = static_cast<unsigned char>(ones[k] | (*bytes)[k]);
      zeros[k] = static_cast<unsigned char>(zeros[k] | ~(*bytes)[k]);
    }
  }
  CHECK(int{ones[8]} == 0xbf);
  CHECK(int{zeros[8]} == 0x7f);
  CHECK(int{ones[9]} == 0);      // the partition
  CHECK(int{ones[11]} == 0x7f);  // its first bit leaves room for counting up
  for (std::size_t k = 9; k < 16; ++k) CHECK(int{zeros[k]} == 0xff);
  for (const std::size_t k : {10U, 12U, 13U, 14U, 15U}) CHECK(int{ones[k]} == 0xff);
}

// ---- The partition in an id ----

const std::uint16_t kOrders = name_crc("orders", "dp");

TEST_CASE("ids: carry the partition that they were made for, and are recognized for this queue only") {
  for (unsigned partition = 0; partition < kMostPartitions; ++partition) {
    const IdOwner owner = {kOrders, static_cast<std::uint8_t>(partition)};
    for (const std::string& id : new_ids(300, owner)) {
      CAPTURE(id);
      CHECK(is_id(id));
      CHECK(id[14] == '7');
      CHECK(partition_of(id, kOrders) == partition);
      CHECK_FALSE(partition_of(id, name_crc("mails", "dp")));
      CHECK_FALSE(partition_of(id, name_crc("orders", "shop")));
    }
  }
}

TEST_CASE("ids: have the check that the protocol describes") {
  const std::string covered = {'\x01', '\x97', '\xf3', '\xa4', '\x5b', '\x6c', '\x7d', '\x8e', '\xb0', '\x06'};
  const unsigned check = redis::crc16("dp:orders" + covered) & 0xfffU;
  CHECK(check == 0xc71);
  CHECK(partition_of("0197f3a4-5b6c-7d8e-bc06-7112345678ab", kOrders) == 6U);
  CHECK(partition_of("0197F3A4-5B6C-7D8E-BC06-7112345678AB", kOrders) == 6U);
}

TEST_CASE("ids: one in which any bit before the counter is another is not recognized; the counter is not checked") {
  const auto made = bytes_of(new_ids(1, {kOrders, 37}).front());
  REQUIRE(made);
  for (std::size_t bit = 0; bit < 128; ++bit) {
    CAPTURE(bit);
    IdBytes bytes = *made;
    bytes[bit / 8] = static_cast<unsigned char>(bytes[bit / 8] ^ 0x80U >> bit % 8);
    CHECK(partition_of(text_of(bytes), kOrders).has_value() == (bit >= 88));
  }
}

TEST_CASE("ids: of other programs are taken for those of the library at most by chance, and only if they are UUIDv7") {
  std::mt19937_64 random(1);
  constexpr int kIds = 500'000;  // 122 by chance, with a deviation of 11
  int drawn = 0, of_time = 0, others = 0;
  for (int i = 0; i < kIds; ++i) {
    IdBytes bytes{};
    for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
    bytes[8] = static_cast<unsigned char>(0x80 | (bytes[8] & 0x3f));
    bytes[6] = static_cast<unsigned char>(0x40 | (bytes[6] & 0x0f));
    if (partition_of(text_of(bytes), kOrders)) ++others;
    bytes[6] = static_cast<unsigned char>(0x70 | (bytes[6] & 0x0f));
    if (partition_of(text_of(bytes), kOrders)) ++drawn;
    // An id with nothing but a time and a number that counts up.
    const std::uint64_t ms = 1'790'000'000'000U + static_cast<std::uint64_t>(i) / 3;
    bytes = {};
    for (std::size_t k = 0; k < 6; ++k) bytes[k] = static_cast<unsigned char>(ms >> (40 - 8 * k));
    bytes[6] = 0x70;
    bytes[8] = 0x80;
    bytes[9] = static_cast<unsigned char>(i >> 8);
    bytes[10] = static_cast<unsigned char>(i);
    if (partition_of(text_of(bytes), kOrders)) ++of_time;
  }
  CHECK(others == 0);
  CHECK(drawn > 66);
  CHECK(drawn < 178);
  CHECK(of_time < 178);
  for (const char* id : {"", "hello", "00000000-0000-7000-0000-000000000000", "ffffffff-ffff-7fff-ffff-ffffffffffff"}) {
    CHECK_FALSE(partition_of(id, kOrders));
  }
}

TEST_CASE("ids: of one thread ascend in each partition and are all different, in any order of the partitions") {
  std::map<unsigned, std::vector<std::string>> made;
  std::set<std::string> counters;  // the rest of an id without its partition and check
  for (std::size_t i = 0; i < 60'000; ++i) {
    const std::uint8_t partition = i % 7 == 0 ? 200 : i % 2 == 0 ? 3 : 8;
    for (std::string& id : new_ids(1 + i % 3, {kOrders, partition})) {
      counters.insert(id.substr(0, 18) + id.substr(26));
      made[partition].push_back(std::move(id));
    }
  }
  std::size_t all = 0;
  for (const auto& [partition, ids] : made) {
    CHECK(std::is_sorted(ids.begin(), ids.end()));
    all += ids.size();
  }
  CHECK(counters.size() == all);
}

// How a process forks: with the function of the C library, or past its handlers of forks.
enum class Fork { normal, raw };

// Runs `call` in a forked process. Returns 0 if it returned true.
int in_child(Fork fork, const std::function<bool()>& call) {
#ifdef __linux__
  if (fork == Fork::raw) {
    const auto child = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    REQUIRE(child >= 0);
    if (child == 0) {
      ::alarm(20);
      ::_exit(call() ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    return status;
  }
#endif
  static_cast<void>(fork);
  return test::in_child(call);
}

TEST_CASE("ids: a forked process and its parent use different random bytes") {
  for (const Fork fork : {Fork::normal, Fork::raw, Fork::normal, Fork::raw}) {
    CAPTURE(fork);
    static_cast<void>(random_digits(5));  // some bytes are left that no id has
    const auto ends = make_pipe();
    const auto write_digits = [&] {
      std::string text;
      for (const auto& digits : random_digits(40)) text += digits;
      return ::write(ends.second.get(), text.data(), text.size()) == 400;
    };
    CHECK(in_child(fork, write_digits) == 0);
    const auto mine = random_digits(40);
    char text[400];
    REQUIRE(::read(ends.first.get(), text, sizeof text) == 400);
    for (std::size_t i = 0; i < 40; ++i) {
      CHECK(std::count(mine.begin(), mine.end(), std::string(text + 10 * i, 10)) == 0);
    }
  }
}

#ifdef __linux__
TEST_CASE("ids: one system call fetches the random bytes for 32 calls") {
  const int used = in_new_thread([] {
    const int before = test::entropy_calls;
    static_cast<void>(random_digits(320));
    return test::entropy_calls - before;
  });
  CHECK(used >= 1);
  CHECK(used <= 10);
}

TEST_CASE("ids: without random bytes a call throws SetupError; a later call may succeed; a signal does no harm") {
  const std::string text = in_new_thread([] {
    test::fail_next_entropy(ENOSYS);
    try {
      return new_ids(1).front();
    } catch (const SetupError& e) {
      return std::string(e.what()) + (new_ids(1).size() == 1 ? ", then an id" : "");
    }
  });
  CHECK(text == "cannot make a unique id: the system provides no random bytes (" +
                    std::generic_category().message(ENOSYS) +
                    "); allow the system call getrandom in the seccomp profile of this process, or use Linux 3.17 or "
                    "later, then an id");
  CHECK(in_new_thread([] {
          test::fail_next_entropy(EINTR);
          return new_ids(1).size();
        }) == 1);
}
#endif

TEST_CASE("ids: made by many threads at once are all different") {
  std::vector<std::vector<std::string>> made(4);
  std::vector<std::thread> threads;
  for (auto& mine : made) {
    threads.emplace_back([&mine] {
      for (int i = 0; i < 500; ++i) {
        const auto ids = new_ids(20);
        mine.insert(mine.end(), ids.begin(), ids.end());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  std::vector<std::string> all;
  for (const auto& mine : made) all.insert(all.end(), mine.begin(), mine.end());
  std::sort(all.begin(), all.end());
  CHECK(all.size() == 40'000);
  CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
}

TEST_CASE("ids: of a caller may be in any case, and are stored in lower case") {
  CHECK(canonical_id("0190A2B3-C4D5-7E6F-8A9B-0C1D2E3F4A5B") == "0190a2b3-c4d5-7e6f-8a9b-0c1d2e3f4a5b");
  CHECK(canonical_id("00000000-0000-0000-0000-000000000000") == "00000000-0000-0000-0000-000000000000");
}

TEST_CASE("ids: only a UUID in its form of 36 characters is valid") {
  const std::vector<std::string> wrong = {"",
                                          "hello",
                                          "0190a2b3c4d57e6f8a9b0c1d2e3f4a5b",
                                          "{0190a2b3-c4d5-7e6f-8a9b-0c1d2e3f4a5b}",
                                          "0190a2b3-c4d5-7e6f-8a9b-0c1d2e3f4a5b ",
                                          "0190a2b3-c4d5-7e6f-8a9b-0c1d2e3f4a5",
                                          "0190a2b3-c4d5-7e6f-8a9b-0c1d2e3f4a5g",
                                          "0190a2b3-c4d57-e6f-8a9b-0c1d2e3f4a5b",
                                          " 190a2b3-c4d5-7e6f-8a9b-0c1d2e3f4a5b",
                                          "0190a2b3-c4d5-7e6f-8a9b-0c1d2e3f+a5b",
                                          std::string(36, '-'),
                                          std::string(36, '\0'),
                                          "0190a2b3-c4d5-7e6f-8a9b-0c1d2e3f4a5" + std::string(1, '\0'),
                                          std::string(1'000'000, 'a')};
  for (const auto& id : wrong) {
    CAPTURE(id.substr(0, 50));
    CHECK_FALSE(canonical_id(id));
    CHECK_FALSE(time_of_id(id));
  }
}

TEST_CASE("ids: only version 7 contains a time") {
  CHECK_FALSE(time_of_id("0190a2b3-c4d5-4e6f-8a9b-0c1d2e3f4a5b"));
  CHECK_FALSE(time_of_id("0190a2b3-c4d5-1e6f-8a9b-0c1d2e3f4a5b"));
  REQUIRE(time_of_id("018bcfe5-687b-7000-8000-000000000000"));
  CHECK(*time_of_id("018BCFE5-687B-7000-8000-000000000000") == from_us(1'700'000'000'123'000));
  CHECK(*time_of_id("ffffffff-ffff-7000-8000-000000000000") > from_us(9'000'000'000'000'000));
}

TEST_CASE("times: microseconds since 1970") {
  CHECK(from_us(0) == WallClock::time_point());
  CHECK(from_us(1'700'000'000'123'456) - from_us(1'700'000'000'000'000) == 123'456us);
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  CHECK(from_us(kMost) > from_us(9'000'000'000'000'000));
  CHECK(from_us(-kMost) < from_us(-9'000'000'000'000'000));
}

TEST_CASE("attempts: the number of deliveries comes first; anything else counts as 0") {
  CHECK(deliveries_of("3 1700000000123457") == 3);
  CHECK(deliveries_of("12") == 12);
  for (const char* text : {"", " ", "abc", " 3", "+3", "-3", "-99999999999999999999"}) CHECK(deliveries_of(text) == 0);
  CHECK(deliveries_of("99999999999999999999") == std::numeric_limits<int>::max());
}

TEST_CASE("scores: are read as the nearest time from 1970 to 2199, with any number of digits, and inf") {
  CHECK(time_of_score("1700000000123456") == 1'700'000'000'123'456);
  for (const std::string& text : {std::string("inf"), std::string("7258118400000000"),
                                  std::string("9223372036854775808"), std::string("nan"), std::string(307, '9')}) {
    CHECK(time_of_score(text) == kLatestUs);
  }
  for (const char* text : {"-inf", "-1", "0", "-99999999999999999999"}) CHECK(time_of_score(text) == 0);
}

TEST_CASE("ids: is_id accepts the stored form, and nothing else") {
  CHECK(is_id("0190a2b3-c4d5-7e6f-8a9b-0c1d2e3f4a5b"));
  for (const auto& id : new_ids(100)) CHECK(is_id(id));
  for (const char* text : {"", "x", "0190A2B3-C4D5-7E6F-8A9B-0C1D2E3F4A5B", "0190a2b3-c4d5-7e6f-8a9b-0c1d2e3f4a5",
                           "0190a2b3-c4d5-7e6f-8a9b-0c1d2e3f4a5g", "0190a2b3_c4d5-7e6f-8a9b-0c1d2e3f4a5b",
                           "0190a2b3-c4d5-7e6f-8a9b-0c1d2e3f4a5b "}) {
    CHECK_FALSE(is_id(text));
  }
}

TEST_CASE("lease ends: of this library are no whole milliseconds, of Go workers whole seconds, of backoffs neither") {
  CHECK(is_lease(1'700'000'000'123'457));
  CHECK(is_lease(1'700'000'000'000'001));
  CHECK(is_lease(1'700'000'000'000'000));
  CHECK_FALSE(is_lease(1'700'000'000'001'000));
  CHECK_FALSE(is_lease(1'700'000'000'999'000));
}

}  // namespace
}  // namespace delayqueue::store
