// Inspectors of queues with partitions, on one server.
#include "support/test.h"

#include "support/partitioned.h"

namespace delayqueue {
namespace {

using test::Partitioned;
using test::reads_of;
using test::redis;

constexpr State kAllStates[] = {State::pending, State::ready, State::unack, State::retry, State::dead};

std::string payloads_of(const MessagePage& page) {
  std::string all;
  for (const MessageInfo& one : page) all += (all.empty() ? "" : " ") + one.payload;
  return all;
}

TEST_CASE("partitions: counts are the sums of all partitions, with the earliest times and the latest clock") {
  Partitioned queue(4);
  queue.to.send(0);
  queue.to.send(1);
  queue.to.send(3);
  queue.to.send(2, "x", 2h);
  queue.to.send(3, "x", 1h);
  for (const unsigned partition : {1U, 3U}) {
    redis().cmd({"HSET", queue.to.keys(partition).stats, "acked", "5"});
    redis().cmd({"ZADD", queue.to.keys(partition).dead, "1000", queue.to.id(partition)});
    redis().cmd({"ZADD", queue.to.keys(partition).unack, std::to_string(1000 + partition), queue.to.id(partition)});
  }
  const Counts counts = queue.inspector.counts();
  CHECK(counts.ready == 3);
  CHECK(counts.pending == 2);
  CHECK(counts.dead == 2);
  CHECK(counts.unack == 2);
  CHECK(counts.overdue == 2);
  CHECK(counts.totals.sent == 5);
  CHECK(counts.totals.acked == 10);
  REQUIRE(counts.oldest_due);
  CHECK(*counts.oldest_due < counts.now + 61min);
  CHECK(*counts.oldest_due > counts.now + 59min);
  REQUIRE(counts.oldest_lease);
  CHECK(*counts.oldest_lease == std::chrono::system_clock::time_point(1001s));
  CHECK_FALSE(counts.paused);
  CHECK(counts.partitions == 4);
  redis().cmd({"SET", queue.to.keys(2).paused, ""});
  CHECK(queue.inspector.counts().paused);
}

TEST_CASE("partitions: each is reported with its counts, and one of which a key has a wrong type with its error") {
  Partitioned queue(4);
  queue.to.send(2);
  redis().cmd({"SET", queue.to.keys(3).ready, "something else"});
  const std::vector<PartitionInfo> all = queue.inspector.partitions();
  REQUIRE(all.size() == 4);
  for (unsigned partition = 0; partition < 4; ++partition) {
    CAPTURE(partition);
    CHECK(all[partition].partition == partition);
    CHECK_FALSE(all[partition].slot);  // no Cluster
    CHECK(all[partition].counts.ready == (partition == 2 ? 1 : 0));
    CHECK(all[partition].error.empty() == (partition != 3));
    if (partition != 3) CHECK(all[partition].server == "unix:" + test::server().socket());
  }
  CHECK(has(all[3].error, "WRONGTYPE"));
  CHECK(has(thrown([&] { return queue.inspector.counts(); }), "WRONGTYPE"));
  CHECK(test::Queue().inspector.partitions().size() == 1);
}

TEST_CASE("partitions: an Inspector notices that there are more, and needs no restart") {
  test::Queue queue;
  queue.send("x");
  CHECK(queue.inspector.counts().ready == 1);
  CHECK(queue.inspector.list(State::ready).size() == 1);
  CHECK(queue.inspector.partitions().size() == 1);
  QueueAdmin(queue.url, queue.name).set_partitions(8);
  test::PartitionSender to(queue.url, queue.name);
  to.send(7);
  CHECK(queue.inspector.counts().ready == 2);
  CHECK(queue.inspector.list(State::ready).size() == 2);
  CHECK(queue.inspector.partitions().size() == 8);
}

TEST_CASE("partitions: those that partition 0 has lost are counted nevertheless, because partition 1 tells of them") {
  Partitioned queue(8);
  queue.to.send(5);
  redis().cmd({"DEL", queue.to.keys(0).settings});
  CHECK(queue.inspector.counts().ready == 1);
  CHECK(Inspector(queue.url, queue.name).counts().ready == 1);
  CHECK(redis().cmd({"EXISTS", queue.to.keys(0).settings}) == 0);  // an Inspector changes nothing
}

TEST_CASE("partitions: upper ones are counted and listed after the number was lowered") {
  Partitioned queue(8);
  queue.to.send(6, "six");
  queue.admin.set_partitions(2);
  CHECK(queue.inspector.counts().ready == 1);
  CHECK(payloads_of(queue.inspector.list(State::ready)) == "six");
  const auto all = queue.inspector.partitions();
  REQUIRE(all.size() == 8);
  for (const PartitionInfo& one : all) CHECK(one.sent_to == (one.partition < 2));
}

TEST_CASE("partitions: all of them take one round trip to their server, and one partition costs what it did before") {
  Partitioned queue(32);
  static_cast<void>(queue.inspector.counts());
  CHECK(reads_of([&] { static_cast<void>(queue.inspector.counts()); }) < 10);
  CHECK(reads_of([&] { static_cast<void>(queue.inspector.paused()); }) < 10);
  test::Queue one;
  one.send("x");
  static_cast<void>(one.inspector.counts());
  static_cast<void>(one.inspector.paused());
  CHECK(reads_of([&] { static_cast<void>(one.inspector.counts()); }) == 1);
  CHECK(reads_of([&] { static_cast<void>(one.inspector.paused()); }) == 1);
  CHECK(reads_of([&] { static_cast<void>(one.inspector.list(State::ready)); }) == 2);
  const Client client(one.url);
  static_cast<void>(Inspector(client, one.name).counts());
  Inspector fresh(client, one.name);
  CHECK(reads_of([&] { static_cast<void>(fresh.counts()); }) <= 3);  // it verifies the queue, and may register it
}

TEST_CASE("partitions: one can be looked at alone, and one that is not there is refused with its number") {
  Partitioned queue(4);
  queue.to.send(0, "zero");
  queue.to.send(2, "two");
  Inspector two(queue.url, queue.name, queue.only(2));
  CHECK(two.counts().ready == 1);
  CHECK(payloads_of(two.list(State::ready)) == "two");
  CHECK(two.partitions().size() == 1);
  CHECK(two.partitions().front().partition == 2);
  CHECK(payloads_of(Inspector(queue.url, queue.name, queue.only(0)).list(State::ready)) == "zero");
  CHECK(thrown([&] { return Inspector(queue.url, queue.name, queue.only(4)).counts(); }) ==
        "invalid_argument: partition: 4; " + queue.name + " has partitions 0 to 3");
  CHECK(thrown([&] {
          return Inspector(queue.url, queue.name, queue.only(9)).list(State::ready);
        }).find("invalid_argument: partition: 9") == 0);
  CHECK(thrown([&] { Inspector(queue.url, queue.name, queue.only(256)); }) ==
        "invalid_argument: partition: 256; expected 0 to 255");
  const test::Queue plain;
  CHECK(thrown([&] { return Inspector(plain.url, plain.name, {1U}).counts(); }) ==
        "invalid_argument: partition: 1; " + plain.name + " has only partition 0");
  Inspector new_one(queue.url, queue.name, queue.only(5));
  queue.admin.set_partitions(8);
  CHECK(new_one.counts().ready == 0);
}

TEST_CASE(
    "partitions: by id, the partition that the id names is asked, also by a client that has read an older layout") {
  test::Queue queue;
  queue.send("x");
  CHECK(queue.inspector.counts().ready == 1);
  QueueAdmin(queue.url, queue.name).set_partitions(16);
  test::PartitionSender to(queue.url, queue.name);
  const std::string at_nine = to.send(9, "nine"), at_three = to.send(3, "three");
  const auto found = queue.inspector.find_all({at_nine, to.id(4), at_three}, 10);
  REQUIRE(found[0]);
  CHECK(found[0]->payload == "nine");
  CHECK(found[0]->partition == 9);
  CHECK_FALSE(found[1]);
  REQUIRE(found[2]);
  CHECK(found[2]->partition == 3);
  CHECK(queue.inspector.find(at_nine)->state == State::ready);
  CHECK_FALSE(Inspector(queue.url, queue.name, {3U}).find(at_nine));
}

TEST_CASE("partitions: ids of callers and of other queues are looked for in partition 0") {
  Partitioned queue(8);
  const std::string own = "0197f3a4-5b6c-4d8e-9f01-23456789abcd";
  const std::string of_other = queue.foreign_id();
  for (const std::string& id : {own, of_other}) {
    queue.to.send(0, id, "own", 1h);
    const auto found = queue.inspector.find(id);
    REQUIRE(found);
    CHECK(found->partition == 0);
  }
}

TEST_CASE("partitions: a message that is not where its id tells is found only by a search of all of them") {
  Partitioned queue(8);
  const std::string id = queue.to.id(5);
  queue.to.send(2, id, "lost", 1h);
  queue.to.send(6, id, "lost twice", 0ms);
  CHECK_FALSE(queue.inspector.find(id));
  const std::vector<MessageInfo> found = queue.inspector.find_everywhere(id);
  REQUIRE(found.size() == 2);
  CHECK(found[0].partition == 2);
  CHECK(found[0].state == State::pending);
  CHECK(found[0].payload == "lost");
  CHECK(found[1].partition == 6);
  CHECK(found[1].state == State::ready);
  CHECK(queue.inspector.find_everywhere(queue.to.id(1)).empty());
}

TEST_CASE("partitions: the first page of a list has the first messages of all of them, by time or by turns") {
  Partitioned queue(4);
  for (const int hours : {1, 2, 3, 4, 5, 6, 7, 8}) {
    queue.to.send(static_cast<unsigned>(hours * 3 % 4), std::to_string(hours), std::chrono::hours(hours));
  }
  auto five = with(&ListOptions::limit, 5);
  CHECK(payloads_of(queue.inspector.list(State::pending, five)) == "1 2 3 4 5");
  five.merge = false;
  CHECK(payloads_of(queue.inspector.list(State::pending, five)) == "4 8");
  for (const char* payload : {"a", "b", "c"}) queue.to.send(3, payload);
  queue.to.send(1, "d");
  queue.to.send(2, "e");
  queue.to.send(2, "f");
  CHECK(payloads_of(queue.inspector.list(State::ready)) == "d e a f b c");
  const MessagePage page = queue.inspector.list(State::ready);
  CHECK(page.messages[0].partition == 1);
  CHECK(page.messages[2].partition == 3);
  CHECK(page.next.empty());
}

// All pages of a list.
std::vector<std::string> walk_all(Inspector& inspector, State state, std::size_t limit, bool merge) {
  std::vector<std::string> seen;
  ListOptions options;
  options.limit = limit;
  options.merge = merge;
  for (int pages = 0; pages < 1000; ++pages) {
    const MessagePage page = inspector.list(state, options);
    CHECK(page.size() <= limit);
    for (const MessageInfo& one : page) seen.push_back(one.payload);
    if (page.next.empty()) return seen;
    options.cursor = page.next;
  }
  FAIL("the walk never ends");
  return seen;
}

TEST_CASE("partitions: lists go partition by partition with opaque cursors, and each message is in one page") {
  Partitioned queue(8);
  std::multiset<std::string> ready, pending;
  for (int i = 0; i < 120; ++i) {
    const std::string payload = std::to_string(i);
    const auto partition = static_cast<unsigned>(i % 7 * i % 7);  // some have none
    const std::string id = queue.to.send(partition, payload);
    if (i % 3 == 0) {  // its id stays in the list
      CHECK(queue.admin.reschedule({id}, with(&RescheduleOptions::delay, std::chrono::hours(1 + i))).front() ==
            Outcome::done);
      pending.insert(payload);
    } else {
      ready.insert(payload);
    }
  }
  for (const std::size_t limit : {1U, 2U, 7U, 50U, 1000U}) {
    for (const bool merge : {true, false}) {
      CAPTURE(limit);
      CAPTURE(merge);
      const auto seen_ready = walk_all(queue.inspector, State::ready, limit, merge);
      CHECK((std::multiset<std::string>(seen_ready.begin(), seen_ready.end()) == ready));
      const auto seen_pending = walk_all(queue.inspector, State::pending, limit, merge);
      CHECK((std::multiset<std::string>(seen_pending.begin(), seen_pending.end()) == pending));
      Inspector fresh(queue.url, queue.name);  // knows no layout when it gets a cursor
      ListOptions options;
      options.limit = limit;
      options.merge = merge;
      options.cursor = queue.inspector.list(State::ready, options).next;
      if (options.cursor.empty()) continue;
      CHECK(payloads_of(fresh.list(State::ready, options)) == payloads_of(queue.inspector.list(State::ready, options)));
    }
  }
  for (const State state : kAllStates)
    CHECK(walk_all(queue.inspector, state, 10, true).empty() == (state > State::ready));
}

TEST_CASE("partitions: all pages of pending have the messages of all partitions in one order, the newest first, too") {
  Partitioned queue(8);
  std::vector<std::string> all;
  for (int i = 0; i < 150; ++i) {
    all.push_back(std::to_string(i));
    queue.to.send(static_cast<unsigned>(i * i % 7), all.back(), std::chrono::hours(1) + milliseconds(i / 3));
  }
  for (const bool newest : {false, true}) {
    for (const std::size_t limit : {1U, 7U, 149U, 1000U}) {
      CAPTURE(newest);
      CAPTURE(limit);
      ListOptions options;
      options.limit = limit;
      options.newest = newest;
      std::vector<MessageInfo> seen;
      do {
        const MessagePage page = queue.inspector.list(State::pending, options);
        seen.insert(seen.end(), page.begin(), page.end());
        options.cursor = page.next;
      } while (!options.cursor.empty());
      CHECK(seen.size() == all.size());
      const auto is_ordered = [&](const MessageInfo& a, const MessageInfo& b) {
        return newest ? std::tie(*a.at, a.id) > std::tie(*b.at, b.id) : std::tie(*a.at, a.id) < std::tie(*b.at, b.id);
      };
      CHECK(std::is_sorted(seen.begin(), seen.end(), is_ordered));
    }
  }
}

TEST_CASE("partitions: the cursor of the next partition leaves out the rest of this one") {
  Partitioned queue(4);
  for (const unsigned partition : {0U, 0U, 2U, 2U, 3U}) queue.to.send(partition, std::to_string(partition), 1h);
  ListOptions options;
  options.limit = 1;
  options.merge = false;
  std::string seen;
  do {
    const MessagePage page = queue.inspector.list(State::pending, options);
    seen += payloads_of(page) + ";";
    options.cursor = page.next_partition;
  } while (!options.cursor.empty());
  CHECK(seen == "0;2;3;");
  CHECK(test::Queue().inspector.list(State::pending).next_partition.empty());
}

TEST_CASE("partitions: after messages of a page have left the state, the next pages miss none") {
  for (const bool merge : {true, false}) {
    CAPTURE(merge);
    Partitioned queue(4);
    std::set<std::string> all;
    for (int i = 0; i < 60; ++i) {
      all.insert(queue.to.send(static_cast<unsigned>(i % 5 % 4), "x", std::chrono::hours(1 + i)));
    }
    ListOptions options;
    options.limit = 7;
    options.merge = merge;
    std::set<std::string> seen;
    do {
      const MessagePage page = queue.inspector.list(State::pending, options);
      std::vector<std::string> some;
      for (const MessageInfo& one : page) {
        seen.insert(one.id);
        if (seen.size() % 2 == 0) some.push_back(one.id);
      }
      options.cursor = page.next_after(queue.admin.purge_ids(State::pending, some).places);
    } while (!options.cursor.empty());
    CHECK((seen == all));
  }
}

TEST_CASE("partitions: the cursor of a partition that is not there, and one for the whole queue, are refused") {
  Partitioned queue(2);
  for (const unsigned partition : {0U, 1U}) queue.to.send(partition, "x", 1h);
  for (const unsigned partition : {0U, 1U}) queue.to.send(partition, "y", 2h);
  const auto error = [](Inspector& inspector, const std::string& cursor) {
    const auto options = with(&ListOptions::cursor, cursor);
    return thrown([&] { return inspector.list(State::pending, options); });
  };
  const std::string next = queue.inspector.list(State::pending, with(&ListOptions::limit, 1)).next;
  CHECK(error(queue.inspector, next) == "nothing");
  Inspector only(queue.url, queue.name, queue.only(1));
  for (const std::string& cursor :
       {std::string("p2."), std::string("p100."), std::string("p."), std::string("p0"), std::string("p1f4"),
        std::string("p0.2"), std::string("p0.64.2"), std::string("p0.31"), std::string("p0..1"), std::string("pn0."),
        next + ".", next + "0"}) {
    CAPTURE(cursor);
    CHECK(error(queue.inspector, cursor).find("invalid_argument: cursor: ") == 0);
  }
  for (const char* cursor : {"p0.", "pm.", "p1.."}) CHECK(error(only, cursor).find("invalid_argument: cursor: ") == 0);
  CHECK(error(only, "p1.") == "nothing");
  CHECK(error(queue.inspector, "p1.3120") == "nothing");
}

TEST_CASE("partitions: those with messages that the layout has lost are found, with their counts; nothing is changed") {
  Partitioned queue(8);
  CHECK(queue.inspector.find_lost_partitions().empty());
  queue.to.send(5);
  queue.to.send(6, "later", 1h);
  queue.to.send(100);
  redis().cmd({"HSET", queue.to.keys(5).settings, "generation", "1000", "partitions", "8", "top", "8"});
  for (const unsigned partition : {0U, 1U}) redis().cmd({"DEL", queue.to.keys(partition).settings});
  Inspector fresh(queue.url, queue.name);
  CHECK(fresh.counts().ready == 0);
  for (int i = 0; i < 2; ++i) {  // it knows the layout from the first time on
    const std::vector<PartitionInfo> lost = fresh.find_lost_partitions();
    REQUIRE(lost.size() == 3);
    CHECK(lost[0].partition == 5);
    CHECK(lost[0].counts.ready == 1);
    CHECK(lost[0].sent_to);
    CHECK(lost[1].counts.pending == 1);
    CHECK(lost[2].partition == 100);
    CHECK_FALSE(lost[2].sent_to);
  }
  CHECK(redis().cmd({"EXISTS", queue.to.keys(0).settings, queue.to.keys(1).settings}) == 0);
  CHECK(Inspector(queue.url, queue.name, queue.only(0)).find_lost_partitions().empty());
  CHECK(reads_of([&] { static_cast<void>(fresh.find_lost_partitions()); }) < 100);
}

TEST_CASE("partitions: a message that a program older than partitions has sent is found in partition 0") {
  Partitioned queue(4);
  queue.to.send(0);
  queue.to.send(2);
  queue.to.send(0, "0197f3a4-5b6c-4d8e-9f01-23456789abcd", "an id of version 4", 0ms);
  queue.to.send(0, "0191f3a4-5b6c-7d8e-9f01-23456789abcd", "sent before the number was set", 0ms);
  CHECK_FALSE(queue.inspector.find_unpartitioned());
  std::this_thread::sleep_for(2ms);  // the time in an id has no microseconds
  const std::string id = queue.foreign_id();
  queue.to.send(0, id, "old", 0ms);
  const auto found = queue.inspector.find_unpartitioned();
  REQUIRE(found);
  CHECK(found->id == id);
  test::Queue plain;
  plain.send("x");
  CHECK_FALSE(plain.inspector.find_unpartitioned());
}

TEST_CASE("partitions: only partition 0 is in the list of queues, and names like those of partitions are refused") {
  Partitioned queue(4);
  queue.to.send(3);
  static_cast<void>(queue.inspector.counts());
  for (const std::string& member : redis().cmd({"SMEMBERS", "dp:queues"}).strings()) CHECK_FALSE(has(member, "#"));
  CHECK(has(thrown([&] { Inspector(queue.url, queue.name + "#1.88"); }), "#1.88"));
  CHECK(has(thrown([&] { QueueAdmin(queue.url, queue.name + "#1.88"); }), "#1.88"));
}

TEST_CASE("partitions: a queue in a later format is refused in each of them") {
  Partitioned queue(4);
  redis().cmd({"HSET", queue.to.keys(2).settings, "format", "2"});
  CHECK(has(thrown([&] { return queue.inspector.counts(); }), "format \"2\""));
  CHECK(has(thrown([&] { return queue.inspector.find(queue.to.id(2)); }), "format \"2\""));
  CHECK(queue.inspector.partitions()[1].error.empty());
}

TEST_CASE(
    "partitions: a user without rights to them reads a queue that has one, and is told which key he may not read") {
  test::Queue plain;
  plain.send("x");
  redis().cmd({"ACL", "SETUSER", "narrow", "reset", "on", ">secret", "~" + plain.base + ":*", "~dp:queues", "+@all"});
  const std::string url = "unix://narrow:secret@" + test::server().socket();
  CHECK(Inspector(url, plain.name).counts().ready == 1);
  plain.admin.set_partitions(4);
  const std::string error = thrown([&] { return Inspector(url, plain.name).counts(); });
  CHECK(has(error, "NOPERM"));
  const auto all = Inspector(url, plain.name).partitions();
  REQUIRE(all.size() == 4);
  CHECK(all[0].error.empty());
  CHECK(all[0].counts.ready == 1);
  CHECK(has(all[1].error, "NOPERM"));
  redis().cmd({"ACL", "DELUSER", "narrow"});
}

TEST_CASE("partitions: an embedded server has them, too") {
  const std::string queue = test::fresh_queue();
  CHECK(QueueAdmin("embedded:", queue).set_partitions(4).partitions == 4);
  test::PartitionSender to("embedded:", queue);
  const std::string id = to.send(3);
  Inspector inspector("embedded:", queue);
  CHECK(inspector.counts().ready == 1);
  CHECK(inspector.find(id)->partition == 3);
}

}  // namespace
}  // namespace delayqueue
