#include "support/test.h"

#include "queue/layout_keeper.h"
#include "store/record.h"
#include "support/examine.h"
#include "support/model_moves.h"

namespace delayqueue {
namespace {

using store::Layout;
using test::redis;

// A queue whose partitions are on one server, as on several: each can be out of reach.
class Partitions {
 public:
  LayoutKeeper client(store::KeyScheme options = {}) { return {queue, std::move(options), with_connection()}; }

  std::vector<std::optional<store::Examined>> examined() { return test::examine_all(queue, {}, with_connection()); }

  // The layout that a client reads that reads it for the first time.
  Layout fresh() {
    LayoutKeeper keeper = client();
    keeper.read();
    return keeper.known();
  }

  std::string settings(unsigned partition) const { return store::make_keys(queue, {}, partition).settings; }
  std::string partitions_in(unsigned partition) const {
    return redis().cmd({"HGET", settings(partition), "partitions"}).text;
  }
  std::string top_in(unsigned partition) const { return redis().cmd({"HGET", settings(partition), "top"}).text; }
  void lose(unsigned partition) { redis().cmd({"DEL", settings(partition)}); }
  void put_message(unsigned partition) {
    redis().cmd({"LPUSH", store::make_keys(queue, {}, partition).ready, "00000000-0000-7000-8000-000000000000"});
  }

  const std::string queue = test::fresh_queue();
  std::set<unsigned> away;
  int calls = 0;
  std::function<void()> before_call;

 private:
  LayoutKeeper::WithConnection with_connection() {
    return [this](unsigned partition, const auto& call) {
      ++calls;
      if (const auto hook = before_call) hook();
      if (away.count(partition) > 0) throw ConnectionError("partition " + std::to_string(partition) + " is away");
      call(connection_);
    };
  }

  redis::Connection connection_ = test::model::connect();
};

TEST_CASE("layout: a number that one client sets is read by others, from partition 0 or 1") {
  Partitions all;
  CHECK(all.fresh() == Layout());
  LayoutKeeper admin = all.client();
  const Layout set = admin.set(8);
  CHECK(set.partitions == 8);
  CHECK(set.top == 8);
  CHECK(admin.known() == set);
  CHECK(all.fresh() == set);
  for (const unsigned partition : {0U, 1U}) {
    all.away = {partition};
    LayoutKeeper keeper = all.client();
    CHECK_FALSE(keeper.read());
    CHECK(keeper.known() == set);
  }
}

TEST_CASE("layout: fewer partitions are set likewise, and top stays") {
  Partitions all;
  LayoutKeeper admin = all.client();
  admin.set(32);
  CHECK(admin.set(4).partitions == 4);
  CHECK(all.fresh().partitions == 4);
  CHECK(all.fresh().top == 32);
}

TEST_CASE("layout: a queue that was never given partitions needs the server of partition 0 only") {
  Partitions all;
  LayoutKeeper keeper = all.client();
  all.away = {1};
  CHECK_FALSE(keeper.read());
  CHECK(keeper.known() == Layout());
  all.away = {0};
  CHECK(thrown([&] { keeper.read(); }) == "ConnectionError: partition 0 is away");
  all.away = {};
  CHECK(keeper.read());
  CHECK(redis().cmd({"EXISTS", all.settings(0), all.settings(1)}) == 0);
}

TEST_CASE("layout: a copy that was lost is restored from the other one by the next client that reads") {
  for (const unsigned lost : {0U, 1U}) {
    CAPTURE(lost);
    Partitions all;
    const Layout set = all.client().set(16);
    all.lose(lost);
    CHECK(all.fresh() == set);
    CHECK(all.partitions_in(lost) == "16");
    CHECK(all.top_in(lost) == "16");
  }
}

TEST_CASE("layout: a reader that may change nothing knows the whole layout, and restores no copy") {
  for (const unsigned lost : {0U, 1U}) {
    CAPTURE(lost);
    Partitions all;
    const Layout set = all.client().set(16);
    all.lose(lost);
    LayoutKeeper reader = all.client();
    CHECK(reader.read(LostCopies::leave));
    CHECK(reader.known() == set);
    CHECK(redis().cmd({"EXISTS", all.settings(lost)}) == 0);
  }
}

TEST_CASE("layout: both copies are restored by a client that has read one before") {
  Partitions all;
  LayoutKeeper admin = all.client();
  const Layout set = admin.set(16);
  all.lose(0);
  all.lose(1);
  CHECK(admin.read());
  CHECK(admin.known() == set);
  CHECK(all.fresh() == set);
}

TEST_CASE("layout: a number that is set after both copies were lost counts, also for clients that remember another") {
  Partitions all;
  LayoutKeeper old = all.client();
  old.set(16);
  all.lose(0);
  all.lose(1);
  const Layout set = all.client().set(2);
  old.read();
  CHECK(old.known().partitions == 2);
  CHECK(old.known().generation == set.generation);
  CHECK(all.fresh().partitions == 2);
  CHECK(all.fresh().top == 16);
}

TEST_CASE("layout: whenever setting a number ends early, no copy has it before both have its top") {
  Partitions whole;
  whole.client().set(8);
  REQUIRE(whole.calls >= 5);
  for (int last = 0; last < whole.calls; ++last) {
    CAPTURE(last);
    Partitions all;
    LayoutKeeper admin = all.client();
    all.before_call = [&] {
      if (all.calls > last) throw std::runtime_error("the process ends");
    };
    CHECK_THROWS_AS(admin.set(8), std::runtime_error);
    all.before_call = nullptr;
    if (all.partitions_in(0) == "8" || all.partitions_in(1) == "8") {
      CHECK(all.top_in(0) == "8");
      CHECK(all.top_in(1) == "8");
    }
    CHECK(all.client().set(4).partitions == 4);
  }
}

TEST_CASE("layout: setting a number needs the servers of partitions 0 and 1, and changes no number without them") {
  for (const unsigned away : {0U, 1U}) {
    CAPTURE(away);
    Partitions all;
    LayoutKeeper admin = all.client();
    const Layout before = admin.set(4);
    all.away = {away};
    CHECK(has(thrown([&] { admin.set(8); }), "is away"));
    all.away = {};
    CHECK(all.fresh() == before);
  }
}

TEST_CASE("layout: of two operators at once, the later one counts, and both read the same") {
  Partitions alone;
  alone.client().set(8);
  for (const unsigned other : {2U, 32U}) {
    for (int at = 1; at <= alone.calls; ++at) {
      CAPTURE(at);
      Partitions all;
      LayoutKeeper a = all.client();
      LayoutKeeper b = all.client();
      Layout of_b;
      all.before_call = [&] {
        if (all.calls != at) return;
        all.before_call = nullptr;
        of_b = b.set(other);
      };
      const Layout of_a = a.set(8);
      REQUIRE(of_b.partitions == other);
      const bool b_was_later = at == alone.calls;  // a had only the copy in partition 1 left to update
      CHECK(of_a.partitions == (b_was_later ? other : 8));
      CHECK((of_a.generation > of_b.generation) == !b_was_later);
      b.read();
      CHECK(b.known() == of_a);
      CHECK(all.fresh() == of_a);
      CHECK(of_a.top == std::max(8U, other));
    }
  }
}

TEST_CASE("layout: only a power of two up to 256 can be set, and only 1 with bodies under dp:") {
  Partitions all;
  LayoutKeeper admin = all.client();
  for (const unsigned wrong : {0U, 3U, 12U, 257U, 512U}) {
    CHECK(thrown([&] { admin.set(wrong); }) ==
          "invalid_argument: partitions: " + std::to_string(wrong) + "; expected a power of two from 1 to 256");
  }
  LayoutKeeper shared = all.client({"dp", false, true});
  CHECK(has(thrown([&] { shared.set(2); }), "invalid_argument: keys.go.bodies_under_dp"));
  CHECK(all.calls == 0);
  CHECK(shared.set(1).partitions == 1);
  CHECK(shared.read());
  CHECK(redis().cmd({"EXISTS", all.settings(1)}) == 0);
}

TEST_CASE("layout: an id belongs to the partition that it was made for, and every other id to partition 0") {
  Partitions all;
  all.client().set(8);
  LayoutKeeper keeper = all.client();
  const std::uint16_t crc = store::name_crc(all.queue, "dp");
  const std::vector<std::string> ids = {store::new_ids(1, {crc, 5}).front(),    store::new_ids(1, {crc, 0}).front(),
                                        "00000000-0000-0000-0000-000000000000", "0197f3a4-5b6c-4d8e-9f01-23456789abcd",
                                        store::new_ids(1, {crc, 7}).front(),    store::new_ids(1, {crc, 8}).front(),
                                        store::new_ids(1, {crc, 255}).front()};
  CHECK(keeper.partitions_of({ids[1], ids[3]}) == std::vector<unsigned>{0, 0});
  CHECK(keeper.partitions_of({}).empty());
  CHECK(all.calls == 6);  // only those of set()
  CHECK(keeper.partitions_of({ids[0], ids[1]}) == std::vector<unsigned>{5, 0});
  CHECK(all.calls == 8);
  CHECK(keeper.partitions_of(ids) == std::vector<unsigned>{5, 0, 0, 0, 7, 0, 0});
  all.client().set(16);
  CHECK(keeper.partitions_of(ids) == std::vector<unsigned>{5, 0, 0, 0, 7, 8, 0});
}

TEST_CASE("layout: an id of a partition beyond the known ones is no id of partition 0 while a copy cannot be read") {
  Partitions all;
  all.client().set(8);
  all.lose(0);
  LayoutKeeper keeper = all.client();
  const std::uint16_t crc = store::name_crc(all.queue, "dp");
  const std::vector<std::string> ids = store::new_ids(1, {crc, 5});
  all.away = {1};
  CHECK(has(thrown([&] { keeper.partitions_of(ids); }), "ConnectionError: cannot tell the partition of an id"));
  all.away = {};
  CHECK(keeper.partitions_of(ids) == std::vector<unsigned>{5});
  all.away = {0, 1};
  CHECK(keeper.partitions_of(ids) == std::vector<unsigned>{5});
}

TEST_CASE("layout: a partition gets its copy when a client first uses it, and again when the layout changes") {
  Partitions all;
  LayoutKeeper admin = all.client();
  LayoutKeeper keeper = all.client();
  keeper.read();
  keeper.copy_to(0);
  CHECK(redis().cmd({"EXISTS", all.settings(0)}) == 0);  // nothing to copy
  admin.set(8);
  keeper.read();
  keeper.copy_to(5);
  CHECK(all.partitions_in(5) == "8");
  const int calls = all.calls;
  keeper.copy_to(5);
  CHECK(all.calls == calls);
  admin.set(16);
  keeper.read();
  keeper.copy_to(5);
  CHECK(all.partitions_in(5) == "16");
}

TEST_CASE("layout: a partition that both copies have lost is found by its keys, and its copy tells the rest") {
  Partitions all;
  LayoutKeeper admin = all.client();
  const Layout set = admin.set(32);
  admin.copy_to(20);
  all.put_message(20);
  all.lose(0);
  all.lose(1);
  CHECK(all.fresh() == Layout());
  LayoutKeeper other = all.client();
  CHECK(other.probe(all.examined()).empty());
  CHECK(other.known() == set);
  CHECK(other.named() == Layout());
  CHECK(all.fresh() == Layout());
  other.restore();
  CHECK(other.named() == set);
  CHECK(all.fresh() == set);
}

TEST_CASE("layout: keys beyond the partitions of a queue, without a copy, are reported") {
  Partitions all;
  LayoutKeeper admin = all.client();
  CHECK(admin.probe(all.examined()).empty());
  admin.set(4);
  for (const unsigned partition : {0U, 3U, 4U, 200U}) all.put_message(partition);
  CHECK(all.client().probe(all.examined()) == std::vector<unsigned>{4, 200});
  CHECK(all.fresh().top == 4);
}

TEST_CASE(
    "layout: top is raised in both copies for messages of partitions that the queue never had; its number stays") {
  Partitions all;
  const Layout set = all.client().set(4);
  LayoutKeeper keeper = all.client();
  keeper.raise_top(7);
  CHECK(keeper.known().top == 7);
  for (const unsigned partition : {0U, 1U}) {
    CHECK(all.top_in(partition) == "7");
    CHECK(all.partitions_in(partition) == "4");
  }
  keeper.raise_top(5);
  const int calls = all.calls;
  keeper.raise_top(7);
  CHECK(all.calls == calls);
  CHECK(all.fresh().generation == set.generation);
  CHECK(all.fresh().top == 7);
  CHECK(has(thrown([&] { keeper.raise_top(257); }), "invalid_argument: partition: 256"));
  for (const unsigned away : {0U, 1U}) {
    all.away = {away};
    CHECK(has(thrown([&] { keeper.raise_top(9); }), "is away"));
    all.away = {};
  }
}

TEST_CASE("layout: something else under the key of partition 1 does not disturb a queue without partitions") {
  Partitions all;
  redis().cmd({"SET", all.settings(1), "x"});
  LayoutKeeper keeper = all.client();
  CHECK(keeper.read());
  CHECK(keeper.known() == Layout());
  CHECK(has(thrown([&] { keeper.set(2); }), "WRONGTYPE"));
  CHECK(all.fresh().partitions == 1);
  redis().cmd({"SET", all.settings(0), "x"});
  CHECK(has(thrown([&] { keeper.read(); }), "WRONGTYPE"));
}

TEST_CASE("layout: a user without rights to other partitions uses partition 0; setting a number names the right") {
  Partitions all;
  redis().cmd({"ACL", "SETUSER", "narrow", "reset", "on", ">secret", "~" + all.settings(0), "+@all"});
  redis::Address address;
  address.path = test::server().socket();
  redis::Login login;
  login.user = "narrow";
  login.password = "secret";
  redis::Connection connection(address, login, {});
  LayoutKeeper keeper(all.queue, {}, [&](unsigned, const auto& call) { call(connection); });
  CHECK(keeper.read());
  CHECK(keeper.known() == Layout());
  CHECK_THROWS_AS(keeper.set(2), AccessDenied);
  CHECK(all.fresh().partitions == 1);
  const Layout set = all.client().set(4);
  CHECK(keeper.read());
  CHECK(keeper.known() == set);
  redis().cmd({"ACL", "DELUSER", "narrow"});
}

}  // namespace
}  // namespace delayqueue
