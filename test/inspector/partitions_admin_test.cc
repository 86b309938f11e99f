// QueueAdmins of queues with partitions, on one server.
#include "support/test.h"

#include "support/partitioned.h"

namespace delayqueue {
namespace {

using test::Partitioned;
using test::redis;

std::string hash_field(const std::string& key, const std::string& name) {
  return redis().cmd({"HGET", key, name}).text;
}

// The partitions for which a consumer was woken.
std::set<std::string> woken(const Partitioned& queue) {
  const auto members = redis().cmd({"ZRANGE", queue.to.keys(0).wakes, "0", "-1"}).strings();
  redis().cmd({"DEL", queue.to.keys(0).wakes});
  return {members.begin(), members.end()};
}

std::string make_dead_in(Partitioned& queue, unsigned partition) {
  const std::string id = queue.to.send(partition, "dead", 1h);
  CHECK(queue.admin.bury({id}, {"why", HeldMessages::skip}).front() == Outcome::done);
  return id;
}

TEST_CASE(
    "partitions: calls by id go to the partition that each id names, and return results in the order of the ids") {
  Partitioned queue(8);
  std::vector<std::string> ids;
  for (const unsigned partition : {5U, 0U, 5U, 2U, 7U}) ids.push_back(queue.to.send(partition, "x", 1h));
  ids.insert(ids.begin() + 2, queue.to.id(3));  // no such message
  using States = std::vector<State>;
  CHECK(queue.admin.bury(ids) == std::vector<Outcome>{Outcome::done, Outcome::done, Outcome::unknown, Outcome::done,
                                                      Outcome::done, Outcome::done});
  for (const unsigned partition : {0U, 2U, 5U, 7U}) {
    CHECK(redis().cmd({"ZCARD", queue.to.keys(partition).dead}) == (partition == 5 ? 2 : 1));
  }
  CHECK(queue.admin.redrive(ids)[2] == Outcome::unknown);
  CHECK(queue.inspector.counts().ready == 5);
  CHECK(woken(queue) == std::set<std::string>{"2", "3", "5", "7"});
  CHECK(queue.admin.reschedule({ids[3], ids[4]}, with(&RescheduleOptions::delay, 1h)) ==
        std::vector<Outcome>(2, Outcome::done));
  CHECK(queue.admin.release({ids[4], ids[3]}) == std::vector<Outcome>(2, Outcome::done));
  CHECK(woken(queue) == std::set<std::string>{"2", "5"});
  CHECK(queue.admin.reschedule({ids[0], ids[1]}, {}) == std::vector<Outcome>(2, Outcome::done));
  CHECK(woken(queue) == std::set<std::string>{"5"});
  CHECK(queue.admin.extend({ids[5]}, 1h).front() == Outcome::unknown);
  const Purged removed = queue.admin.purge_ids(State::ready, {ids[1], ids[2], ids[5]});
  CHECK(removed.messages == 2);
  CHECK(removed.purged == std::vector<bool>{true, false, true});
  CHECK(queue.admin.cancel(ids) ==
        States{State::ready, State::unknown, State::unknown, State::ready, State::ready, State::unknown});
}

TEST_CASE("partitions: purge deletes messages of a state in all of them, and up to a limit") {
  Partitioned queue(4);
  for (unsigned i = 0; i < 40; ++i) queue.to.send(i % 4, "x", 1h);
  for (const unsigned partition : {1U, 3U}) queue.to.send(partition);
  CHECK(queue.admin.purge(State::pending, with(&PurgeOptions::limit, 15)) == 15);
  CHECK(queue.inspector.counts().pending == 25);
  CHECK(queue.admin.purge(State::pending) == 25);
  CHECK(queue.admin.purge(State::ready) == 2);
  CHECK(queue.inspector.counts().totals.purged == 42);
  queue.to.send(2, "x", 1h);
  redis().cmd({"SET", queue.to.keys(3).ready, "something else"});
  CHECK(has(thrown([&] { queue.admin.purge(State::pending); }), "WRONGTYPE"));
  CHECK(QueueAdmin(queue.url, queue.name, queue.only(2)).purge(State::pending) == 1);
}

TEST_CASE(
    "partitions: an exported message is restored to the partition that its id names, with the layout to find it") {
  Partitioned queue(8);
  std::vector<std::string> ids;
  for (const unsigned partition : {0U, 6U, 3U, 6U}) ids.push_back(queue.to.send(partition, std::to_string(partition)));
  std::vector<MessageInfo> all;
  for (auto& message : queue.inspector.find_all(ids, 100)) all.push_back(*message);
  CHECK(queue.admin.purge(State::ready) == 4);
  const auto sent = queue.admin.restore(all);
  REQUIRE(sent.size() == 4);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    CHECK(sent[i].id == ids[i]);
    CHECK(sent[i].created());
    CHECK(queue.inspector.find(ids[i])->partition == all[i].partition);
  }
  CHECK_FALSE(queue.admin.restore(all)[1].created());
  CHECK(woken(queue) == std::set<std::string>{"3", "6"});
}

TEST_CASE("partitions: restoring messages of a queue with more partitions raises top before it stores them") {
  Partitioned queue(8);
  const std::string id = queue.to.send(6, "x");
  const MessageInfo message = *queue.inspector.find(id);
  auto other_server = test::server_with({});
  const std::string url = other_server.url();
  test::Redis other(other_server.socket());
  other.cmd({"SET", queue.to.keys(1).settings, "something else"});
  CHECK(has(thrown([&] { return QueueAdmin(url, queue.name).restore({message}); }), "is no hash"));
  CHECK(other.cmd({"EXISTS", queue.to.keys(6).bodies + id, queue.to.keys(0).bodies + id}) == 0);
  other.cmd({"DEL", queue.to.keys(1).settings});
  CHECK(QueueAdmin(url, queue.name).restore({message}).front().created());
  const Layout layout = Inspector(url, queue.name).layout();
  CHECK(layout.partitions == 1);
  CHECK(layout.top == 7);
  CHECK(Inspector(url, queue.name).find(id)->partition == 6);
  CHECK(Inspector(url, queue.name).queues() == std::vector<std::string>{queue.name});
  CHECK(other.cmd({"HGET", queue.to.keys(6).settings, "top"}) == "7");
}

TEST_CASE(
    "partitions: restoring a message of partition 0 with an id that names another one by chance adds no partition") {
  Partitioned queue(8);
  MessageInfo message = *queue.inspector.find(queue.to.send(6, "x"));
  message.partition = 0;
  auto other_server = test::server_with({});
  CHECK(QueueAdmin(other_server.url(), queue.name).restore({message}).front().created());
  Inspector inspector(other_server.url(), queue.name);
  CHECK(inspector.layout().top == 1);
  CHECK(inspector.find(message.id)->partition == 0);
}

TEST_CASE("partitions: a pause is that of all of them, with its reason and end, and so is its end") {
  Partitioned queue(4);
  queue.admin.pause({1h, "stock-taking"});
  for (unsigned partition = 0; partition < 4; ++partition) {
    CAPTURE(partition);
    CHECK(redis().cmd({"GET", queue.to.keys(partition).paused}) == "stock-taking");
    CHECK(redis().cmd({"PTTL", queue.to.keys(partition).paused}).integer > 50 * 60'000);
    CHECK(hash_field(queue.to.keys(partition).settings, "pause") == hash_field(queue.to.keys(0).settings, "pause"));
  }
  CHECK(queue.inspector.paused()->reason == "stock-taking");
  queue.admin.resume();
  for (unsigned partition = 0; partition < 4; ++partition) {
    CHECK(redis().cmd({"EXISTS", queue.to.keys(partition).paused}) == 0);
  }
  CHECK(woken(queue) == std::set<std::string>{"1", "2", "3"});
  CHECK_FALSE(queue.inspector.paused());
  redis().cmd({"SET", queue.to.keys(2).paused, "this one only"});
  CHECK(queue.inspector.paused()->reason == "this one only");
  queue.admin.resume();
  CHECK_FALSE(queue.inspector.counts().paused);
}

TEST_CASE("partitions: growth does not open a paused queue, whether the pause has a generation or not") {
  for (const bool old_program : {false, true}) {
    CAPTURE(old_program);
    test::Queue queue;
    const test::PartitionSender to(queue.url, queue.name);
    if (old_program) {
      redis().cmd({"SET", queue.base + ":paused", "maintenance", "PX", "3600000"});
    } else {
      queue.admin.pause({1h, "maintenance"});
    }
    CHECK(QueueAdmin(queue.url, queue.name).set_partitions(4).partitions == 4);
    for (unsigned partition = 0; partition < 4; ++partition) {
      CHECK(redis().cmd({"GET", to.keys(partition).paused}) == "maintenance");
      CHECK(redis().cmd({"PTTL", to.keys(partition).paused}).integer > 50 * 60'000);
      CHECK(hash_field(to.keys(partition).settings, "pause") == hash_field(to.keys(0).settings, "pause"));
    }
    queue.admin.resume();
    CHECK_FALSE(queue.inspector.counts().paused);
    CHECK(queue.admin.set_partitions(16).partitions == 16);
    CHECK_FALSE(queue.inspector.counts().paused);
  }
}

TEST_CASE("partitions: a resume counts even if partition 0 was rolled back to before the pause") {
  Partitioned queue(4);
  queue.admin.pause();
  redis().cmd({"DEL", queue.to.keys(0).paused});
  redis().cmd({"HDEL", queue.to.keys(0).settings, "pause"});
  constexpr const char* kLater = "5000000000000000";  // us; of a clock that was ahead of that of the new master
  for (const unsigned partition : {1U, 3U}) redis().cmd({"HSET", queue.to.keys(partition).settings, "pause", kLater});
  CHECK(queue.inspector.counts().paused);
  queue.admin.resume();
  CHECK_FALSE(queue.inspector.counts().paused);
  CHECK(std::stoll(hash_field(queue.to.keys(0).settings, "pause")) > std::stoll(kLater));
  queue.admin.pause();
  for (const PartitionInfo& one : queue.inspector.partitions()) CHECK(one.counts.paused);
}

TEST_CASE(
    "partitions: forget needs all of them to be empty; it deletes their keys, but not the layout that senders know") {
  Partitioned queue(4);
  const std::string id = queue.to.send(2);
  queue.send("x");
  queue.admin.pause();
  CHECK(queue.admin.purge(State::ready) == 2);
  queue.to.send(3, "x", 1h);
  Remains remains = queue.admin.forget();
  CHECK(remains.pending == 1);
  CHECK(redis().cmd({"EXISTS", queue.to.keys(2).stats}) == 1);
  CHECK(queue.admin.purge(State::pending) == 1);
  remains = queue.admin.forget();
  CHECK(remains.none());
  for (unsigned partition = 0; partition < 4; ++partition) {
    const test::Snapshot left = test::snapshot(queue.to.keys(partition).base);
    for (const auto& key : left) {
      CHECK(key.first == "settings");
      CHECK_FALSE(has(key.second, "pause"));
    }
  }
  const auto known = queue.inspector.queues();
  CHECK(std::count(known.begin(), known.end(), queue.name) == 0);
  CHECK(Inspector(queue.url, queue.name).layout().top == 4);
  queue.to.send(2);
  CHECK(Inspector(queue.url, queue.name).counts().ready == 1);
}

TEST_CASE("partitions: the integrity check finds and repairs damage in each, and says in which") {
  Partitioned queue(4);
  for (const unsigned partition : {0U, 1U, 3U}) {
    const std::string id = queue.to.send(partition, "stranded");
    redis().cmd({"LREM", queue.to.keys(partition).ready, "0", id});
  }
  queue.to.send(2);
  auto options = with(&CheckOptions::recheck_after, 0ms);
  std::uint64_t last = 0, total = 0;
  bool ascends = true;
  options.progress = [&](std::uint64_t done, std::uint64_t all) {
    ascends = ascends && done >= last && all >= done;
    last = done;
    total = all;
  };
  CheckReport report = queue.admin.check(options);
  CHECK(report.counts == std::map<Problem, std::uint64_t>{{Problem::stranded, 3}});
  REQUIRE(report.findings.size() == 3);
  CHECK(report.findings[1].partition == 1);
  CHECK(report.findings[2].partition == 3);
  CHECK(report.errors.empty());
  CHECK(ascends);
  CHECK(last == total);
  options.sample = 2;
  options.repair = true;
  options.progress = nullptr;
  report = queue.admin.check(options);
  CHECK(report.repaired == 3);
  CHECK(report.findings.size() == 2);
  CHECK(queue.inspector.list(State::ready).size() == 4);
  CHECK(woken(queue) == std::set<std::string>{"1", "3"});
  CHECK(QueueAdmin(queue.url, queue.name, queue.only(2)).check(options).counts.empty());
}

TEST_CASE("partitions: the integrity check examines the others when one cannot be, and is not clean then") {
  Partitioned queue(4);
  redis().cmd({"HSET", queue.to.keys(2).settings, "format", "2"});
  const auto options = with(&CheckOptions::recheck_after, 0ms);
  // The format is checked once for each connection and object.
  const CheckReport report = QueueAdmin(queue.url, queue.name).check(options);
  REQUIRE(report.errors.size() == 1);
  CHECK(has(report.errors.at(2), "format \"2\""));
  CHECK_FALSE(report.clean());
  CHECK(has(thrown([&] { return QueueAdmin(queue.url, queue.name, queue.only(2)).check(options); }), "format \"2\""));
}

TEST_CASE("partitions: the integrity check finds nothing in copies of a queue that was never paused") {
  Partitioned queue(4);
  std::atomic<int> handled{0};
  Consumer consumer(queue.url, queue.name, [&](const Message&) {
    ++handled;
    return ack();
  });
  consumer.start();
  for (unsigned partition = 0; partition < 4; ++partition) queue.to.send(partition);
  REQUIRE(test::eventually([&] { return handled == 4; }));
  CHECK(hash_field(queue.to.keys(3).settings, "pause") == "0");
  CHECK(queue.admin.check().findings.empty());
}

// A queue whose layout both copies have lost; partition 20 has a copy, and a message.
struct LostLayout : Partitioned {
  LostLayout() : Partitioned(32) {
    redis().cmd({"HSET", to.keys(20).settings, "generation", "1000", "partitions", "32", "top", "32"});
    lose();
  }

  void lose() {
    for (const unsigned partition : {0U, 1U}) redis().cmd({"DEL", to.keys(partition).settings});
  }
  static std::string changes() { return test::info("persistence", "rdb_changes_since_last_save"); }
  CheckReport check(bool repair) const {
    CheckOptions options;
    options.recheck_after = 0ms;
    options.repair = repair;
    return QueueAdmin(url, name).check(options);
  }

  std::string id = to.send(20);
};

TEST_CASE("partitions: the integrity check reports a layout that both copies have lost, and only a repair writes it") {
  LostLayout queue;
  CHECK(Inspector(queue.url, queue.name).counts().ready == 0);
  const std::string before = queue.changes();
  CheckReport report = queue.check(false);
  CHECK(queue.changes() == before);
  CHECK_FALSE(report.clean());
  CHECK(report.counts == std::map<Problem, std::uint64_t>{{Problem::lost_layout, 1}});
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].id == queue.to.keys(0).settings);
  CHECK(has(report.findings[0].description, "do not name partitions 1 to 31"));
  CHECK_FALSE(report.findings[0].repaired);
  CHECK(Inspector(queue.url, queue.name).counts().ready == 0);
  report = queue.check(true);
  CHECK(report.repaired == 1);
  CHECK(report.findings[0].repaired);
  CHECK(Inspector(queue.url, queue.name).counts().ready == 1);
  CHECK(Inspector(queue.url, queue.name).find(queue.id)->partition == 20);
  CHECK(queue.check(false).counts.empty());
}

TEST_CASE("partitions: the integrity check examines those that the layout has lost, and a QueueAdmin that knows it") {
  LostLayout queue;
  redis().cmd({"LREM", queue.to.keys(20).ready, "0", queue.id});
  CHECK(queue.check(false).counts ==
        std::map<Problem, std::uint64_t>{{Problem::lost_layout, 1}, {Problem::stranded, 1}});
  redis().cmd({"DEL", queue.to.keys(20).settings});
  CHECK(queue.admin.check(with(&CheckOptions::recheck_after, 0ms)).counts.at(Problem::lost_layout) ==
        1);  // it has set the number
  CHECK(queue.check(false).counts.count(Problem::lost_layout) == 0);
}

TEST_CASE("partitions: the integrity check reports an older number in both copies, and no loss of one copy") {
  LostLayout queue;
  for (const unsigned partition : {0U, 1U}) {
    redis().cmd({"HSET", queue.to.keys(partition).settings, "generation", "900", "partitions", "16", "top", "32"});
  }
  const CheckReport report = queue.check(false);
  REQUIRE(report.counts == std::map<Problem, std::uint64_t>{{Problem::lost_layout, 1}});
  CHECK(has(report.findings[0].description, "do not name the last number of partitions that was set, 32"));
  queue.check(true);
  CHECK(hash_field(queue.to.keys(1).settings, "partitions") == "32");
  redis().cmd({"DEL", queue.to.keys(0).settings});
  CHECK(queue.check(false).counts.empty());
  CHECK(redis().cmd({"EXISTS", queue.to.keys(0).settings}) == 0);
  CHECK(QueueAdmin(queue.url, queue.name, queue.only(20)).check({}).clean());
  CHECK(redis().cmd({"EXISTS", queue.to.keys(0).settings}) == 0);
}

TEST_CASE("partitions: the integrity check reports one with messages that no copy names, and leaves it to a person") {
  Partitioned queue(4);
  queue.to.send(9);
  QueueAdmin admin(queue.url, queue.name);
  CheckOptions options;
  options.recheck_after = 0ms;
  options.repair = true;
  const CheckReport report = admin.check(options);
  REQUIRE(report.counts == std::map<Problem, std::uint64_t>{{Problem::lost_partition, 1}});
  CHECK(report.repaired == 0);
  CHECK(report.findings[0].partition == 9);
  CHECK(report.findings[0].id == queue.to.keys(9).base);
  CHECK(has(report.findings[0].repair, "set the field top of " + queue.to.keys(9).settings + " to 10"));
  redis().cmd({"HSET", queue.to.keys(9).settings, "top", "10"});  // as the finding says
  CHECK(admin.check(options).counts == std::map<Problem, std::uint64_t>{{Problem::lost_layout, 1}});
  CHECK(Inspector(queue.url, queue.name).counts().ready == 1);
}

TEST_CASE("partitions: forget finds the messages of those that the layout has lost, and of those that no copy names") {
  LostLayout lost;
  CHECK(QueueAdmin(lost.url, lost.name).forget().ready == 1);
  Partitioned queue(4);
  queue.to.send(9);
  CHECK(QueueAdmin(queue.url, queue.name).forget().ready == 1);
}

TEST_CASE("partitions: a user without rights to them checks a queue that has one") {
  test::Queue plain;
  plain.send("x");
  redis().cmd({"ACL", "SETUSER", "checker", "reset", "on", ">secret", "~" + plain.base + ":*", "~dp:queues", "+@all"});
  redis().cmd({"ACL", "LOG", "RESET"});
  QueueAdmin admin("unix://checker:secret@" + test::server().socket(), plain.name);
  CHECK(admin.check({}).clean());
  CHECK(redis().cmd({"ACL", "LOG", "128"}).array.size() < 20);
  CHECK(has(thrown([&] { admin.set_partitions(2); }), "NOPERM"));
  CHECK(plain.inspector.layout().top == 1);
  redis().cmd({"ACL", "DELUSER", "checker"});
}

TEST_CASE("partitions: to set their number takes few round trips") {
  const test::Queue queue;
  QueueAdmin admin(queue.url, queue.name);
  CHECK(test::reads_of([&] { admin.set_partitions(8); }) < 150);
}

TEST_CASE("partitions: calls that concern the queue as such are refused for one of them; operators have one lock") {
  Partitioned queue(4);
  QueueAdmin two(queue.url, queue.name, queue.only(2));
  const auto refused = [](const std::string& call) {
    return "invalid_argument: partition: 2; expected none for " + call + ", which concerns the whole queue";
  };
  CHECK(thrown([&] { two.pause(); }) == refused("pause"));
  CHECK(thrown([&] { two.resume(); }) == refused("resume"));
  CHECK(thrown([&] { two.set_partitions(8); }) == refused("set_partitions"));
  CHECK(thrown([&] { return two.forget(); }) == refused("forget"));
  CHECK(thrown([&] { return two.restore({}); }) == refused("restore"));
  CHECK(two.lock("one", 1h));
  CHECK_FALSE(queue.admin.lock("other", 1h));
  two.unlock("one");
  CHECK(queue.admin.lock("other", 1h));
  two.record({{}, "anna@host7", 1, "done", "redrive"});
  CHECK(queue.inspector.actions().size() == 1);
  CHECK(redis().cmd({"LLEN", queue.to.keys(0).actions}) == 1);
  const std::string id = make_dead_in(queue, 2);
  CHECK(two.redrive({id}).front() == Outcome::done);
  CHECK(QueueAdmin(queue.url, queue.name, queue.only(3)).cancel({id}).front() == State::unknown);
}

}  // namespace
}  // namespace delayqueue
