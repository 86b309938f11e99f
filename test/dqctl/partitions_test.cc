// dqctl on queues with partitions.
#include "preamble.h"

#include "support/cluster.h"
#include "support/local.h"
#include "support/partitioned.h"

namespace {

using test::Partitioned;
using test::redis;

json json_of(std::vector<std::string> arguments, int code = 0) {
  arguments.insert(arguments.end(), {"-o", "json"});
  const Ran ran = run(arguments);
  CHECK_MESSAGE(ran.code == code, ran.err);
  return parse_json(ran.out);
}

std::vector<std::string> ids_of(const json& messages) {
  std::vector<std::string> ids;
  for (const json& message : messages) ids.push_back(message.at("id"));
  return ids;
}

TEST_CASE("partitions: a table of each with its master and counts, and the same as JSON") {
  Partitioned queue(4);
  queue.to.send(1);
  queue.to.send(3, "x", 1h);
  redis().cmd({"SET", queue.to.keys(2).paused, ""});
  const Ran table = expect(run({"partitions", queue.name}), 0, {err_is(""), out_has("PARTITION  SLOT  MASTER")});
  CHECK(std::count(table.out.begin(), table.out.end(), '\n') == 5);
  CHECK(has(table.out, "  paused\n"));
  const json all = json_of({"partitions", queue.name});
  CHECK(holds(all, {{"queue", queue.name}, {"count", 4}, {"top", 4}}));
  REQUIRE(all.at("partitions").size() == 4);
  for (unsigned i = 0; i < 4; ++i) {
    const json& one = all.at("partitions")[i];
    CHECK(one.at("partition") == i);
    CHECK(one.at("slot").is_null());  // no Cluster
    CHECK(holds(one, {{"master", "unix:" + test::server().socket()}, {"sent_to", true}}));
    CHECK(one.at("ready") == (i == 1 ? 1 : 0));
    CHECK(one.at("pending") == (i == 3 ? 1 : 0));
    CHECK(one.at("paused") == (i == 2));
    CHECK(one.at("error").is_null());
  }
  redis().cmd({"SET", queue.to.keys(0).unack, "something else"});
  const json broken = json_of({"partitions", queue.name}, 4);
  CHECK(has(broken.at("partitions")[0].at("error"), "WRONGTYPE"));
  CHECK(broken.at("partitions")[0].at("ready").is_null());
  CHECK(broken.at("partitions")[1].at("ready") == 1);
  const test::Queue plain;
  CHECK(run({"partitions", plain.name}).code == 3);
}

TEST_CASE("partitions: --set of a queue that is not there needs --create, and the queue is known then") {
  const std::string name = fresh_queue();
  expect(run({"partitions", name, "--set", "4"}), 3, {err_has("; --create makes it")});
  CHECK(run({"partitions", name, "--create"}).code == 2);
  CHECK(json_of({"partitions", name, "--set", "4", "--create"}).at("count") == 4);
  CHECK(run({"stats", name}).code == 0);
}

TEST_CASE("partitions: --set changes their number, a lower one only with --yes") {
  test::Queue queue;
  queue.send("x");
  CHECK(json_of({"partitions", queue.name}).at("partitions").size() == 1);
  const json set = json_of({"partitions", queue.name, "--set", "8"});
  CHECK(set.at("count") == 8);
  CHECK(set.at("partitions").size() == 8);
  expect(run({"partitions", queue.name, "--set", "2"}), 2,
         {err_has("--set: '2'; " + queue.name + " uses 8 partitions"), err_has("add --yes")});
  CHECK(queue.inspector.layout().partitions == 8);
  const json lower = json_of({"partitions", queue.name, "--set", "2", "--yes"});
  CHECK(holds(lower, {{"count", 2}, {"top", 8}}));
  CHECK(lower.at("partitions")[2].at("sent_to") == false);
  CHECK(has(run({"partitions", queue.name}).out, "only served, not sent to\n"));
  CHECK(run({"partitions", queue.name, "--set", "4"}).code == 0);
  expect(run({"partitions", queue.name, "--set", "1"}), 2,
         {err_has(queue.name + " uses 4 partitions"), err_has("serve all 8;")});
}

TEST_CASE("partitions: wrong numbers and names are exit code 2 with the value, and nothing is changed") {
  test::Queue queue;
  queue.send("x");
  for (const char* wrong : {"0", "3", "512", "x", ""}) {
    CAPTURE(wrong);
    expect(run({"partitions", queue.name, "--set", wrong}), 2, {err_has(std::string("--set: '") + wrong + "'")});
  }
  CHECK(run({"partitions", queue.name, "--yes"}).code == 2);
  CHECK(queue.inspector.layout().top == 1);
  expect(run({"stats", queue.name + "#1.88"}), 2, {err_has("#1.88")});
  for (const char* wrong : {"256", "x"}) {
    expect(run({"stats", queue.name, "--partition", wrong}), 2, {err_has(std::string("--partition: '") + wrong + "'")});
  }
  expect(run({"ls", queue.name, "--state", "ready", "--partition", "1"}), 2,
         {err_has("partition: 1; " + queue.name + " has only partition 0")});
}

TEST_CASE("partitions: what another program has in a new one is exit code 2 with its key") {
  test::Queue queue;
  queue.send("x");
  test::PartitionSender(queue.url, queue.name).send(5);
  expect(run({"partitions", queue.name, "--set", "8"}), 2, {err_has("partitions: 8, but {dp:" + queue.name + "#5.")});
}

TEST_CASE("partitions: each command works on all of them, and with --partition on one") {
  Partitioned queue(4);
  for (unsigned i = 0; i < 12; ++i) queue.to.send(i % 4, std::to_string(i), std::chrono::hours(1 + i));
  CHECK(json_of({"stats", queue.name}).at("queues")[0].at("pending") == 12);
  CHECK(json_of({"stats", queue.name, "--partition", "2"}).at("queues")[0].at("pending") == 3);
  const json first = json_of({"ls", queue.name, "--state", "pending", "--limit", "5"});
  std::string payloads;
  for (const json& message : first.at("messages")) payloads += message.at("payload_start").get<std::string>() + ' ';
  CHECK(payloads == "0 1 2 3 4 ");
  CHECK(first.at("messages")[3].at("partition") == 3);
  CHECK(first.at("messages")[0].count("partition") == 0);
  std::set<std::string> seen;
  std::size_t listed = 0;
  for (json page = first;; page = json_of({"ls", queue.name, "--state", "pending", "--limit", "5", "--cursor",
                                           page.at("next").get<std::string>()})) {
    for (const std::string& id : ids_of(page.at("messages"))) seen.insert(id);
    listed += page.at("messages").size();
    if (page.at("next").is_null()) break;
  }
  CHECK(seen.size() == 12);
  CHECK(listed == 12);
  CHECK(json_of({"ls", queue.name, "--state", "pending", "--partition", "1"}).at("messages").size() == 3);
  CHECK(json_of({"ls", queue.name, "--state", "pending", "--match", "1*", "--limit", "0"}).at("messages").size() == 3);

  const std::string id = first.at("messages")[3].at("id");
  CHECK(has(run({"show", queue.name, id}).out, "\npartition     3\n"));
  CHECK(run({"show", queue.name, id, "--partition", "1"}).code == 3);
  CHECK(run({"cancel", queue.name, id, "--partition", "1"}).code == 3);
  CHECK(run({"bury", queue.name, id}).code == 0);
  CHECK(run({"redrive", queue.name, id}).code == 0);
  CHECK(run({"cancel", queue.name, id}).code == 0);
  CHECK(json_of({"drain", queue.name, "--timeout", "1ms"}).at("drained") == true);
  CHECK(run({"pause", queue.name, "--why", "test"}).code == 0);
  CHECK(json_of({"partitions", queue.name}).at("partitions")[3].at("paused") == true);
  CHECK(run({"resume", queue.name}).code == 0);
  CHECK(queue.inspector.counts().paused == false);
  CHECK(json_of({"purge", queue.name, "--state", "pending", "--all", "--partition", "2", "--yes"}).at("purged") == 3);
  CHECK(json_of({"purge", queue.name, "--state", "pending", "--match", "*", "--yes"}).at("purged") == 8);
  CHECK(run({"forget", queue.name}).code == 0);
}

TEST_CASE("partitions: send uses all of them, and messages are moved where their ids tell") {
  test::empty_server();
  Partitioned queue(4);
  std::set<unsigned> used;
  for (int i = 0; i < 80; ++i) {  // each program begins with any of them
    const Ran sent = expect(run({"send", queue.name, "x", "--delay", "1h"}), 0);
    used.insert(queue.inspector.find(sent.out.substr(0, 36))->partition);
  }
  CHECK(used == std::set<unsigned>{0, 1, 2, 3});
  const json queues = json_of({"queues"}).at("queues");
  REQUIRE(queues.size() == 1);
  CHECK(holds(queues[0], {{"queue", queue.name}, {"pending", 80}}));

  const std::string id = queue.to.send(3, "moved", 1h);
  const auto found = [&] {
    const auto message = queue.inspector.find(id);
    REQUIRE(message);
    CHECK(message->partition == 3);
    return *message;
  };
  CHECK(run({"release", queue.name, id, "--partition", "1"}).code != 0);
  CHECK(run({"release", queue.name, id}).code == 0);
  CHECK(found().state == delayqueue::State::ready);
  CHECK(run({"reschedule", queue.name, id, "--in", "5h"}).code == 0);
  CHECK(found().state == delayqueue::State::pending);
  CHECK(*found().at > queue.inspector.counts().now + 4h);
  CHECK(run({"release", queue.name, id}).code == 0);
  const auto options = with(&delayqueue::ConsumerOptions::backoff, delayqueue::Backoff::fixed(1h));
  const auto consumer = queue.consumer([](const delayqueue::Message&) { return delayqueue::nack(); }, options);
  consumer->start();
  CHECK(eventually([&] { return consumer->metrics().stats.nacked == 1; }, kPatience));
  CHECK(eventually([&] { return json_of({"workers", queue.name}).at("workers").size() == 1; }, kPatience));
  CHECK(consumer->stop(kPatience));
  CHECK(run({"extend", queue.name, id, "--by", "5h"}).code == 0);
  CHECK(*found().at > queue.inspector.counts().now + 4h);
  CHECK(run({"release", queue.name, id}).code == 0);
  CHECK(found().state == delayqueue::State::ready);
}

TEST_CASE("partitions: events shows those of all of them") {
  Partitioned queue(4);
  queue.to.send(0);
  Dqctl events({"events", queue.name, "--limit", "4", "-o", "ndjson"});
  REQUIRE(events.wait_for("listening"));
  delayqueue::Producer producer({queue.url, test::reporting_events()}, queue.name);
  std::set<unsigned> used;
  for (int i = 0; i < 4; ++i) used.insert(queue.inspector.find(producer.send("x").id)->partition);
  CHECK(used.size() == 4);
  const Ran ran = expect(events.wait(), 0);
  CHECK(lines_of(ran.out).size() == 4);
}

TEST_CASE("partitions: --older-than reads each of them up to its first message that is too young") {
  Partitioned queue(4);
  for (const unsigned partition : {0U, 1U, 3U}) {
    for (int i = 0; i < 30; ++i) queue.to.send(partition, "old", 1h);
  }
  test::rewind("dp:" + queue.name, 3h);
  for (const unsigned partition : {1U, 3U}) test::rewind(queue.to.keys(partition).base, 3h);
  for (unsigned partition = 0; partition < 4; ++partition) queue.to.send(partition, "young", 1h);
  const auto old = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"--state", "pending", "--older-than", "1h"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  std::vector<std::string> ls = old({"--limit", "0"});
  ls.insert(ls.begin(), {"ls", queue.name});
  CHECK(json_of(ls).at("messages").size() == 90);
  std::vector<std::string> dry = old({"--match", "*"});
  dry.insert(dry.begin(), {"purge", queue.name});
  CHECK(json_of(dry).at("matching") == 90);
  dry.emplace_back("--yes");
  CHECK(json_of(dry).at("purged") == 90);
  CHECK(queue.inspector.counts().pending == 4);
}

TEST_CASE("partitions: redrive by filter finds dead letters in all of them, and --to takes none of --partition") {
  Partitioned queue(4);
  for (unsigned i = 0; i < 8; ++i) {
    const std::string id = queue.to.send(i % 4, "x", 1h);
    CHECK(queue.admin.bury({id}, {"why " + std::to_string(i % 2), delayqueue::HeldMessages::skip}).front() ==
          delayqueue::Outcome::done);
  }
  CHECK(json_of({"redrive", queue.name, "--reason", "why 1", "--yes"}).at("redriven") == 4);
  CHECK(json_of({"redrive", queue.name, "--all", "--partition", "0", "--yes"}).at("redriven") == 2);
  const std::string other = fresh_queue();
  CHECK(run({"redrive", queue.name, "--all", "--to", other, "--create", "--partition", "2", "--yes"}).code == 2);
  CHECK(json_of({"redrive", queue.name, "--all", "--to", other, "--create", "--yes"}).at("redriven") == 2);
  CHECK(test::counts(other).ready == 2);
}

TEST_CASE("partitions: an export is imported into the same partitions, also where the queue has one") {
  Partitioned queue(8);
  std::vector<std::string> ids;
  for (const unsigned partition : {0U, 2U, 6U}) ids.push_back(queue.to.send(partition, std::to_string(partition), 1h));
  ids.push_back(queue.to.send(5, "ready"));
  const Ran exported = expect(run({"export", queue.name}), 0);
  CHECK(lines_of(exported.out).size() == 4);
  CHECK(json_of({"purge", queue.name, "--state", "pending", "--all", "--yes"}).at("purged") == 3);
  CHECK(run({"import", queue.name, "-"}, with_input(exported.out)).code == 0);
  auto other = test::server_with({});
  DqctlOptions there = at(other.url());
  there.input = exported.out;
  CHECK(run({"import", queue.name, "-"}, there).code == 0);
  for (const std::string& url : {queue.url, other.url()}) {
    delayqueue::Inspector inspector(url, queue.name);
    for (const std::string& id : ids) {
      const auto found = inspector.find(id);
      REQUIRE(found);
      CHECK(std::to_string(found->partition) == (found->payload == "ready" ? "5" : found->payload));
    }
  }
  CHECK(delayqueue::Inspector(other.url(), queue.name).layout().top == 7);
  CHECK(delayqueue::Inspector(other.url(), queue.name).layout().partitions == 1);
  CHECK(
      run({"import", queue.name, "-"}, with_input("{\"id\":\"" + ids[0] + "\",\"state\":\"ready\",\"payload\":\"x\"," +
                                                  "\"retries\":1,\"partition\":256}\n"))
          .code == 1);
}

TEST_CASE("partitions: show --everywhere finds a message that is not where its id tells") {
  Partitioned queue(4);
  const std::string id = queue.to.id(3);
  queue.to.send(1, id, "lost", 1h);
  CHECK(run({"show", queue.name, id}).code == 3);
  const json found = json_of({"show", queue.name, id, "--everywhere"});
  REQUIRE(found.at("messages").size() == 1);
  CHECK(found.at("messages")[0].at("partition") == 1);
  CHECK(run({"show", queue.name, id, "--everywhere", "--payload", "raw"}).out == "lost");
  queue.to.send(2, id, "twice", 1h);
  expect(run({"show", queue.name, id, "--everywhere", "--payload", "raw"}), 2, {err_has("--partition 1")});
  CHECK(run({"show", queue.name, id, "--partition", "2", "--payload", "raw"}).out == "twice");
}

TEST_CASE("partitions: doctor checks each, and says that a program older than partitions is there") {
  Partitioned queue(4);
  queue.to.send(0);
  const std::string stranded = queue.to.send(2, "stranded");
  expect(run({"doctor", queue.name, "--settle", "1ms"}), 0, {out_lacks("\nnote ")});
  redis().cmd({"LREM", queue.to.keys(2).ready, "0", stranded});
  std::this_thread::sleep_for(2ms);  // the time in an id has no microseconds
  const std::string old = queue.foreign_id();
  queue.to.send(0, old, "old", 0ms);
  const Ran damaged = expect(run({"doctor", queue.name, "--settle", "1ms"}), 5);
  CHECK(
      has(damaged.out, "\nnote        partition 0 has messages of a program that knows no partitions, such as " + old));
  CHECK(has(damaged.out, "  such as " + stranded + " in partition 2\n"));
  const json document = json_of({"doctor", queue.name, "--settle", "1ms", "--partition", "2"}, 5);
  CHECK(document.at("check").at("findings")[0].at("partition") == 2);
  REQUIRE(redis().cmd({"LREM", queue.to.keys(0).ready, "0", old}).integer == 1);  // an old consumer took it
  redis().cmd(
      {"ZADD", queue.to.keys(0).unack, std::to_string(std::stoll(redis().cmd({"TIME"}).strings()[0]) + 3600), old});
  redis().cmd({"HSET", queue.to.keys(1).settings, "format", "2"});
  const json partly = json_of({"doctor", queue.name, "--settle", "1ms", "--repair", "--yes"}, 4);
  CHECK(holds(partly, {{"unpartitioned", old}, {"partitions", 4}}));
  CHECK(partly.at("check").at("repaired") == 1);
  REQUIRE(partly.at("check").at("errors").size() == 1);
  CHECK(partly.at("check").at("errors")[0].at("partition") == 1);
  CHECK(run({"doctor", "--partition", "2"}).code == 2);
}

TEST_CASE("partitions: stuck reports one that is not served while others are") {
  Partitioned queue(4);
  queue.to.send(1, "waits");
  queue.to.send(2, "is served");
  std::atomic<bool> ended{false};
  std::thread consumer([&] {  // as the totals of a partition show it
    Redis client;
    while (!ended) {
      client.cmd({"HINCRBY", queue.to.keys(2).stats, "delivered", "1"});
      std::this_thread::sleep_for(20ms);
    }
  });
  const json stuck = json_of({"stuck", queue.name, "--warn", "1ms", "--crit", "1h", "--look", "300ms"}, 5);
  ended = true;
  consumer.join();
  std::string texts;
  for (const json& finding : stuck.at("findings")) texts += finding.at("what").get<std::string>() + '\n';
  CHECK(has(texts, "partition 1: 1 message waits in ready and retry"));
  CHECK_FALSE(has(texts, "partition 2: "));
}

TEST_CASE("partitions: stuck and doctor report those that the layout has lost, and only doctor --repair --yes writes") {
  Partitioned queue(8);
  queue.to.send(0);
  queue.to.send(3, "x", 1h);
  const std::string id = queue.to.send(5);
  redis().cmd({"HSET", queue.to.keys(5).settings, "generation", "1000", "partitions", "8", "top", "8"});
  for (const unsigned partition : {0U, 1U}) redis().cmd({"DEL", queue.to.keys(partition).settings});
  const auto changes = [] { return test::info("persistence", "rdb_changes_since_last_save"); };
  const std::string before = changes();
  const json stuck = json_of({"stuck", queue.name, "--look", "1ms"}, 5);
  REQUIRE(stuck.at("findings").size() == 1);
  CHECK(holds(stuck.at("findings")[0], {{"kind", "lost_partitions"}, {"count", 2}}));
  CHECK(stuck.at("level") == "critical");
  CHECK(has(run({"stuck", "--look", "1ms"}).out, "2 messages are in 2 partitions, from 3 to 5"));
  for (const std::vector<std::string>& read :
       std::vector<std::vector<std::string>>{{"stats", queue.name},
                                             {"ls", queue.name, "--state", "ready"},
                                             {"partitions", queue.name},
                                             {"find", "no such text"},
                                             {"show", queue.name, id},
                                             {"reasons", queue.name},
                                             {"workers", queue.name},
                                             {"metrics"},
                                             {"queues"},
                                             {"actions", queue.name},
                                             {"export", queue.name},
                                             {"purge", queue.name, "--state", "pending", "--all"},
                                             {"redrive", queue.name, "--all"},
                                             {"doctor", queue.name, "--settle", "1ms"},
                                             {"doctor", queue.name, "--settle", "1ms", "--repair"}}) {
    const Ran ran = run(read);
    CHECK_MESSAGE(changes() == before, read.front() << ran.err);
    CHECK_MESSAGE(ran.code != 2, read.front() << ran.err);
  }
  expect(run({"doctor", queue.name, "--settle", "1ms"}), 5,
         {out_has("1x lost_layout\n  what    partitions 0 and 1 have lost the layout")});
  CHECK(run({"doctor", queue.name, "--settle", "1ms", "--repair", "--yes"}).code == 0);
  CHECK(delayqueue::Inspector(queue.url, queue.name).counts().ready == 2);
  CHECK(run({"stuck", queue.name, "--look", "1ms"}).code == 0);
  CHECK(run({"doctor", queue.name, "--settle", "1ms"}).code == 0);
}

TEST_CASE("partitions: in a Cluster doctor and --set warn that one master that is away stops all of them") {
  test::ClusterOptions options;
  options.node.arguments = {"--appendonly", "yes"};
  test::Cluster cluster(options);
  const DqctlOptions there = at(cluster.url());
  const std::string queue = fresh_queue();
  delayqueue::Producer(cluster.url(), queue).send("x");
  const std::string warning = "cluster-require-full-coverage yes: while one master is away";
  CHECK(run({"doctor", queue, "--settle", "1ms"}, there).code == 0);  // it has one partition
  const Ran set = expect(run({"partitions", queue, "--set", "8"}, there), 0, {err_has("warning: "), err_has(warning)});
  CHECK(run({"doctor"}, there).code == 0);
  expect(run({"doctor", queue, "--settle", "1ms"}, there), 5, {out_has(warning)});
  for (const std::size_t i : {0, 1, 2}) {
    REQUIRE(cluster.node(i).cmd({"ACL", "SETUSER", "default", "-config|get"}) == "OK");
  }
  CHECK(has(run({"partitions", queue, "--set", "8"}, there).err, "cannot tell whether all partitions"));
  for (const std::size_t i : {0, 1, 2}) {
    REQUIRE(cluster.node(i).cmd({"ACL", "SETUSER", "default", "+config|get"}) == "OK");
  }
  CHECK(run({"doctor", queue, "--settle", "1ms", "--accept", "coverage"}, there).code == 0);
  for (const std::size_t i : {0, 1, 2}) {
    REQUIRE(cluster.node(i).cmd({"CONFIG", "SET", "cluster-require-full-coverage", "no"}) == "OK");
  }
  CHECK(run({"doctor", queue, "--settle", "1ms"}, there).code == 0);
  const json well = parse_json(run({"partitions", queue, "-o", "json"}, there).out);
  const test::PartitionSender to(cluster.url(), queue);
  std::set<std::string> addresses;
  for (const json& one : well.at("partitions")) {
    CHECK(one.at("slot") == test::slot_of(to.keys(one.at("partition")).base));
    addresses.insert(one.at("master"));
  }
  CHECK(addresses.size() == 3);

  test::Node& other = cluster.owner(to.keys(1).base);
  cluster.replica_of(other).kill();
  other.kill();
  const Ran away = expect(run({"partitions", queue, "-o", "json"}, there), 4);
  std::size_t failed = 0;
  const json rows = parse_json(away.out);
  for (const json& one : rows.at("partitions")) {
    CHECK(one.at("error").is_null() ==
          (well.at("partitions")[one.at("partition").get<std::size_t>()].at("master") != other.address()));
    failed += one.at("error").is_null() ? 0 : 1;
  }
  CHECK(failed >= 2);
  CHECK(run({"stats", queue}, there).code == 1);
  CHECK(run({"stats", queue, "--partition", "0"}, there).code == 0);
  expect(run({"doctor", queue, "--settle", "1ms"}, there), 4, {out_has("partition 1 not examined: ")});
}

TEST_CASE("partitions: a queue that has one is shown as before") {
  test::Queue queue;
  const std::string id = queue.send("x");
  CHECK_FALSE(has(run({"show", queue.name, id}).out, "partition"));
  CHECK_FALSE(has(run({"export", queue.name}).out, "partition"));
  CHECK_FALSE(has(run({"doctor", queue.name, "--settle", "1ms"}).out, "partition"));
  CHECK_FALSE(has(run({"doctor", queue.name, "--settle", "1ms", "-o", "json"}).out, "partition"));
  CHECK_FALSE(has(run({"stuck", queue.name}).out, "partition"));
}

}  // namespace
