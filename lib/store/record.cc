#include "store/record.h"

#include "redis/slot.h"

#include <delayqueue/error.h>

#include <unistd.h>
#include <uuid/uuid.h>
#ifdef __APPLE__
#include <sys/random.h>
#endif

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <limits>
#include <system_error>

namespace delayqueue::store {
namespace {

void set_time(IdBytes& bytes, WallClock::time_point now) {
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now.time_since_epoch()).count();
  const std::uint64_t ms = static_cast<std::uint64_t>(ns / 1'000'000);
  const std::uint64_t fraction = static_cast<std::uint64_t>(ns % 1'000'000) * 4096 / 1'000'000;
  for (std::size_t i = 0; i < 6; ++i) bytes[i] = static_cast<unsigned char>(ms >> (40 - 8 * i));
  bytes[6] = static_cast<unsigned char>(0x70 | (fraction >> 8));
  bytes[7] = static_cast<unsigned char>(fraction);
}

// The partition is byte 9. Its check has the lower four bits of byte 8 and the eight of byte 10. It covers the time,
// the partition and the rest of byte 8, but not the bytes that count up: so the ids of one call ascend.
constexpr std::size_t kPartition = 9;
constexpr std::size_t kCounter = 11;  // the first byte that counts up

unsigned check_of(IdBytes bytes, std::uint16_t name_crc) {
  bytes[8] &= 0xf0;
  std::array<char, kPartition + 1> covered{};
  std::copy_n(bytes.begin(), covered.size(), covered.begin());
  return redis::crc16({covered.data(), covered.size()}, name_crc) & 0xfffU;
}

void set_owner(IdBytes& bytes, IdOwner owner) {
  bytes[kPartition] = owner.partition;
  const unsigned check = check_of(bytes, owner.name_crc);
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0xf0U) | check >> 8);
  bytes[10] = static_cast<unsigned char>(check);
}

void increment(IdBytes& bytes) {
  for (std::size_t i = 15; i >= kCounter && ++bytes[i] == 0; --i) {
  }
}

// Makes the ids of one thread. One system call fetches the random bytes for many calls of new_ids().
class IdMaker {
 public:
  // Goes on to ids of the time `now`. In the same 244 ns, which have the same prefix, the ids go on counting up, those
  // of all owners together.
  void begin(WallClock::time_point now, IdOwner owner) {
    if (const pid_t process = ::getpid(); process_ != process) {
      *this = IdMaker();
      process_ = process;
    }
    IdBytes first{};
    set_time(first, now);
    if (!std::equal(first.begin(), first.begin() + kPrefix, next_.begin())) {
      if (left_ == 0) fetch_random();
      std::copy_n(random_.end() - left_, kTail, first.begin() + kPrefix);
      left_ -= kTail;
      first[8] = static_cast<unsigned char>(0x80 | (first[8] & 0x30));
      first[kCounter] &= 0x7f;  // so that counting up cannot overflow
      next_ = first;
    }
    set_owner(next_, owner);
  }

  std::string next() {
    std::string id = text_of(next_);
    increment(next_);
    return id;
  }

 private:
  static constexpr std::ptrdiff_t kPrefix = 8;  // bytes of an id: version and time
  static constexpr std::ptrdiff_t kTail = 8;    // the other bytes; two get the partition and most of its check

  void fetch_random() {
    while (::getentropy(random_.data(), random_.size()) != 0) {
      if (errno == EINTR) continue;
      throw SetupError("cannot make a unique id: the system provides no random bytes (" +
                       std::generic_category().message(errno) +
                       "); allow the system call getrandom in the seccomp profile of this process, or use Linux 3.17 "
                       "or later");
    }
    left_ = static_cast<std::ptrdiff_t>(random_.size());
  }

  std::array<unsigned char, 256> random_{};  // 256 is the most that getentropy() provides
  std::ptrdiff_t left_ = 0;                  // bytes at the end of random_ that no id has
  pid_t process_ = 0;                        // that uses this object; a child must not use the bytes of its parent
  IdBytes next_{};
};

constexpr std::size_t kVersionDigit = 14;  // in an id as text

constexpr bool is_dash_at(std::size_t i) { return i == 8 || i == 13 || i == 18 || i == 23; }

}  // namespace

std::vector<std::string> new_ids(std::size_t count, IdOwner owner) {
  thread_local IdMaker maker;
  std::vector<std::string> ids;
  ids.reserve(count);
  if (count > 0) maker.begin(WallClock::now(), owner);
  while (ids.size() < count) ids.push_back(maker.next());
  return ids;
}

std::optional<unsigned> partition_of(std::string_view id, std::uint16_t name_crc) {
  const auto bytes = id.size() == kIdLength && id[kVersionDigit] == '7' ? bytes_of(id) : std::nullopt;
  if (!bytes || ::uuid_variant(bytes->data()) != UUID_VARIANT_DCE) return std::nullopt;
  const unsigned check = ((*bytes)[8] & 0x0fU) << 8 | (*bytes)[10];
  if (check != check_of(*bytes, name_crc)) return std::nullopt;
  return (*bytes)[kPartition];
}

std::optional<IdBytes> bytes_of(std::string_view id) {
  if (id.size() != kIdLength) return std::nullopt;
  std::array<char, kIdLength + 1> text{};  // ends with a zero, unlike `id`
  std::copy(id.begin(), id.end(), text.begin());
  IdBytes bytes{};
  return ::uuid_parse(text.data(), bytes.data()) == 0 ? std::optional(bytes) : std::nullopt;
}

std::string text_of(const IdBytes& bytes) {
  std::array<char, UUID_STR_LEN> text{};
  ::uuid_unparse_lower(bytes.data(), text.data());
  return {text.data(), kIdLength};
}

std::string id_of_name(const IdBytes& name_space, std::string_view name) {
  IdBytes bytes{};
  ::uuid_generate_sha1(bytes.data(), name_space.data(), name.data(), name.size());
  return text_of(bytes);
}

std::optional<std::string> canonical_id(std::string_view id) {
  const auto bytes = bytes_of(id);
  return bytes ? std::optional(text_of(*bytes)) : std::nullopt;
}

// By a loop, because uuid_parse() also takes upper case, and every message that is delivered comes here.
bool is_id(std::string_view text) {
  if (text.size() != kIdLength) return false;
  for (std::size_t i = 0; i < kIdLength; ++i) {
    const char c = text[i];
    if (is_dash_at(i) ? c != '-' : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
  }
  return true;
}

std::optional<WallClock::time_point> time_of_id(std::string_view id) {
  const auto parsed = bytes_of(id);
  if (!parsed || ::uuid_type(parsed->data()) != 7) return std::nullopt;
  const IdBytes& bytes = *parsed;
  std::int64_t ms = 0;
  for (std::size_t i = 0; i < 6; ++i) ms = ms << 8 | bytes[i];
  return from_us(ms * 1000);
}

WallClock::time_point from_us(std::int64_t us) {
  using std::chrono::duration_cast;
  using std::chrono::microseconds;
  constexpr auto kFirst = duration_cast<microseconds>(WallClock::duration::min());
  constexpr auto kLast = duration_cast<microseconds>(WallClock::duration::max());
  return WallClock::time_point(duration_cast<WallClock::duration>(std::clamp(microseconds(us), kFirst, kLast)));
}

std::optional<WallClock::time_point> from_us(std::optional<std::int64_t> us) {
  return us ? std::optional(from_us(*us)) : std::nullopt;
}

std::int64_t to_us(WallClock::time_point time) {
  return std::chrono::floor<std::chrono::microseconds>(time.time_since_epoch()).count();
}

std::int64_t time_of_score(std::string_view us) {
  const bool negative = !us.empty() && us.front() == '-';
  std::int64_t number = 0;
  const std::errc error = std::from_chars(us.data(), us.data() + us.size(), number).ec;
  if (error != std::errc()) number = negative ? 0 : kLatestUs;  // more digits than fit, or "inf"
  return std::clamp<std::int64_t>(number, 0, kLatestUs);
}

int number_at_start(std::string_view text) {
  int number = 0;
  const std::errc error = std::from_chars(text.data(), text.data() + text.size(), number).ec;
  const bool negative = !text.empty() && text.front() == '-';
  if (error == std::errc::result_out_of_range) number = negative ? 0 : std::numeric_limits<int>::max();
  return std::max(number, 0);
}

int deliveries_of(std::string_view attempts) { return number_at_start(attempts); }

bool is_lease(std::int64_t end_us) { return end_us % 1000 != 0 || end_us % 1'000'000 == 0; }

}  // namespace delayqueue::store
