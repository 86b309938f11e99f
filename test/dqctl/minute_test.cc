// An incident: a queue with every kind of fault at once, cured with dqctl alone.
#include "preamble.h"

#include <unistd.h>

#include "support/process.h"

namespace {

constexpr std::size_t kHeld = 500;

struct BrokenQueue {
  BrokenQueue() {
    dqctl.environment["DELAYQUEUE_URI"] = server.url();
    a_worker_is_killed();
    for (const auto& [count, reason] : {std::pair<std::size_t, const char*>{800, "gateway: 500"},
                                        {700, "no such order"},
                                        {500, "stock service: timeout"}}) {
      const auto ids = test::make_dead(queue, count, reason, server.url());
      sent.insert(ids.begin(), ids.end());
    }
    delayqueue::Producer producer(server.url(), queue);
    for (const auto& one : producer.send_batch(std::vector<std::string>(100, "waits"))) sent.insert(one.id);
    delayqueue::QueueAdmin(server.url(), queue).pause({std::nullopt, "back in a minute (a note of Monday)"});
    bodies_are_deleted();
    for (const char* id : {"0197f3a4-5b6c-7d8e-9f01-23456789abcd", "0197f3a4-5b6c-7d8e-9f01-23456789abce"}) {
      client.cmd({"HSET", base + ":retry:cnt", id, "3"});
    }
  }

  void a_worker_is_killed() {
    delayqueue::Producer producer(server.url(), queue);
    for (const auto& one : producer.send_batch(std::vector<std::string>(kHeld, "hang"))) sent.insert(one.id);
    test::Process worker({"consume", server.url(), queue, std::to_string(kHeld), "1000", "20"});
    while (worker.said("begin").size() < kHeld) std::this_thread::sleep_for(5ms);
    worker.kill(SIGKILL);
    CHECK(worker.wait() == -SIGKILL);
    CHECK(inspector.counts().unack == kHeld);
  }

  void bodies_are_deleted() {
    const auto some = with(&delayqueue::ListOptions::limit, 10);
    for (const auto state : {delayqueue::State::ready, delayqueue::State::dead, delayqueue::State::unack}) {
      for (const auto& message : inspector.list(state, some)) {
        client.cmd({"DEL", base + ":msg:" + message.id});
        lost.insert(message.id);
        sent.erase(message.id);
      }
    }
  }

  Ran run(const std::vector<std::string>& arguments) const { return test::run(arguments, dqctl); }

  json json_of(std::vector<std::string> arguments, int code) const {
    arguments.insert(arguments.end(), {"-o", "json"});
    const Ran ran = run(arguments);
    CHECK_MESSAGE(ran.code == code, arguments.front() << ": " << ran.out << ran.err);
    return parse_json(ran.out);
  }

  delayqueue::PrivateServer server;
  DqctlOptions dqctl;
  const std::string queue = "orders";
  const std::string base = "dp:orders";
  Redis client{server.socket()};
  delayqueue::Inspector inspector{server.url(), queue};
  std::set<std::string> sent;  // must be handled
  std::set<std::string> lost;  // have no body from the start
};

std::set<std::string> kinds_found(const json& stuck) {
  std::set<std::string> kinds;
  for (const json& finding : stuck.at("findings")) kinds.insert(finding.at("kind").get<std::string>());
  return kinds;
}

TEST_CASE("incident: stuck, ls, show, redrive, doctor, purge and import restore a queue without losing a message") {
  BrokenQueue broken;
  const std::string& queue = broken.queue;
  std::this_thread::sleep_for(1100ms);  // the lease of the killed worker ends

  // Find the faults.
  const json stuck = broken.json_of({"stuck", queue, "--warn", "1ms"}, 5);
  const auto found = kinds_found(stuck);
  for (const char* kind : {"paused", "lease_ended", "no_body", "dead"}) CHECK_MESSAGE(found.count(kind) == 1, kind);
  const json held = broken.json_of({"ls", queue, "--state", "unack", "--limit", "3"}, 0);
  CHECK(held.at("messages").size() == 3);
  const std::string id = held.at("messages")[2].at("id");
  const json shown = broken.json_of({"show", queue, id}, 0);
  CHECK(shown.at("messages")[0].at("held") == true);
  CHECK(has(broken.run({"show", queue, id}).out, id));

  // The gateway works again: redrive its messages, and end the forgotten pause.
  CHECK(has(broken.run({"redrive", queue, "--reason", "gateway*"}).err, "would redrive 800 of 2,000"));
  const json redriven = broken.json_of({"redrive", queue, "--reason", "gateway*", "--yes"}, 0);
  CHECK(redriven.at("redriven").get<int>() + redriven.at("no_body").get<int>() == 800);
  CHECK(broken.run({"resume", queue}).code == 0);

  // Repair the damage in the keys.
  const json dry = broken.json_of({"doctor", queue, "--repair"}, 5);
  CHECK(dry.at("check").at("counts").at("orphaned_retries") == 2);
  CHECK(broken.json_of({"doctor", queue, "--repair", "--yes"}, 0).at("check").at("repaired") >= 2);

  // Purge the messages of missing orders with a backup, then import them again.
  char backup[] = "/tmp/dqctl-minute-XXXXXX";
  ::close(::mkstemp(backup));
  const json purged = broken.json_of(
      {"purge", queue, "--state", "dead", "--reason", "no such*", "--backup", backup, "--append", "--yes"}, 0);
  CHECK(purged.at("purged").get<int>() == 700);
  CHECK(broken.inspector.counts().dead == 500);
  CHECK(broken.run({"import", queue, backup}).code == 0);
  ::unlink(backup);
  CHECK(broken.inspector.counts().dead == 1200);
  CHECK(broken.run({"redrive", queue, "--all", "--yes"}).code == 0);

  // Handle everything.
  std::mutex mutex;
  std::set<std::string> handled;
  delayqueue::ConsumerOptions options;
  options.concurrency = 4;
  options.tuning.reconnect_grace = 100ms;
  delayqueue::Consumer consumer(
      broken.server.url(), queue,
      [&](const delayqueue::Message& message) {
        const std::lock_guard lock(mutex);
        handled.insert(message.id());
        return delayqueue::ack();
      },
      options);
  consumer.start();
  CHECK(broken.run({"drain", queue, "--timeout", "60s"}).code == 0);
  CHECK(consumer.stop());
  std::set<std::string> missing;
  std::set_difference(broken.sent.begin(), broken.sent.end(), handled.begin(), handled.end(),
                      std::inserter(missing, missing.end()));
  CHECK_MESSAGE(missing.empty(), missing.size() << " were lost");
  for (const std::string& one : broken.lost) CHECK(handled.count(one) == 0);

  // Confirm that nothing is left.
  CHECK(broken.json_of({"stuck", queue}, 0).at("level") == "ok");
  CHECK(broken.json_of({"doctor", queue}, 0).at("check").at("clean") == true);
  const delayqueue::Counts counts = broken.inspector.counts();
  CHECK(counts.pending + counts.ready + counts.unack + counts.retry + counts.dead == 0);
}

}  // namespace
