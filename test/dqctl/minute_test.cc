// The minute: a queue that is sick in every way at once, and one person with dqctl.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "queue.h"
#include "support/process.h"

namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using test::has;
using test::Ran;

constexpr std::size_t kHeld = 500;

struct Sick {
  Sick() {
    dqctl.environment["DELAYQUEUE_URI"] = server.url();
    a_worker_is_killed();
    for (const auto& [count, reason] : {std::pair<std::size_t, const char*>{800, "gateway: 500"},
                                        {700, "no such order"},
                                        {500, "stock service: timeout"}}) {
      const auto ids = test::bury(queue, count, reason, server.url());
      sent.insert(ids.begin(), ids.end());
    }
    delayqueue::Producer producer(server.url(), queue);
    for (const auto& one : producer.send_batch(std::vector<std::string>(100, "waits"))) sent.insert(one.id);
    look.pause(0ms, "back in a minute (says Monday's note)");
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
    CHECK(look.counts().unack == kHeld);
  }

  void bodies_are_deleted() {
    delayqueue::ListOptions some;
    some.limit = 10;
    for (const auto state : {delayqueue::State::ready, delayqueue::State::dead, delayqueue::State::unack}) {
      for (const auto& message : look.list(state, some)) {
        client.cmd({"DEL", base + ":msg:" + message.id});
        lost.insert(message.id);
        sent.erase(message.id);
      }
    }
  }

  Ran run(const std::vector<std::string>& arguments) const { return test::run(arguments, dqctl); }

  json told(std::vector<std::string> arguments, int code) const {
    arguments.insert(arguments.end(), {"-o", "json"});
    const Ran ran = run(arguments);
    CHECK_MESSAGE(ran.code == code, arguments.front() << ": " << ran.out << ran.err);
    return json::parse(ran.out);
  }

  delayqueue::PrivateServer server;
  test::DqctlOptions dqctl;
  const std::string queue = "orders";
  const std::string base = "dp:orders";
  test::Redis client{server.socket()};
  delayqueue::Inspector look{server.url(), queue};
  std::set<std::string> sent;  // and to be handled
  std::set<std::string> lost;  // from the start
};

std::set<std::string> kinds(const json& stuck) {
  std::set<std::string> kinds;
  for (const json& finding : stuck.at("findings")) kinds.insert(finding.at("kind").get<std::string>());
  return kinds;
}

TEST_CASE(
    "the minute: from stuck through ls, show, redrive, doctor, purge and import to a queue where nothing is missing") {
  Sick sick;
  const std::string& queue = sick.queue;
  std::this_thread::sleep_for(1100ms);  // the lease of the killed worker ends

  // What is wrong?
  const json stuck = sick.told({"stuck", queue, "--warn", "1ms"}, 5);
  const auto found = kinds(stuck);
  for (const char* kind : {"paused", "lease_ended", "no_body", "dead"}) CHECK_MESSAGE(found.count(kind) == 1, kind);
  const json held = sick.told({"ls", queue, "--state", "unack", "--limit", "3"}, 0);
  CHECK(held.at("messages").size() == 3);
  const std::string id = held.at("messages")[2].at("id");
  const json shown = sick.told({"show", queue, id}, 0);
  CHECK(shown.at("messages")[0].at("held") == true);
  CHECK(has(sick.run({"show", queue, id}).out, id));

  // The gateway is back: those may go. The pause was forgotten.
  CHECK(has(sick.run({"redrive", queue, "--reason", "gateway*"}).err, "would redrive 800 of 2,000"));
  const json redriven = sick.told({"redrive", queue, "--reason", "gateway*", "--yes"}, 0);
  CHECK(redriven.at("redriven").get<int>() + redriven.at("no_body").get<int>() == 800);
  CHECK(sick.run({"resume", queue}).code == 0);

  // Damage in the keys.
  const json dry = sick.told({"doctor", queue, "--repair"}, 5);
  CHECK(dry.at("check").at("counts").at("count_alone") == 2);
  CHECK(sick.told({"doctor", queue, "--repair", "--yes"}, 0).at("check").at("repaired") >= 2);

  // Orders that do not exist: away with them; or so it seemed.
  char backup[] = "/tmp/dqctl-minute-XXXXXX";
  ::close(::mkstemp(backup));
  const json purged = sick.told(
      {"purge", queue, "--state", "dead", "--reason", "no such*", "--backup", backup, "--append", "--yes"}, 0);
  CHECK(purged.at("purged").get<int>() == 700);
  CHECK(sick.look.counts().dead == 500);
  CHECK(sick.run({"import", queue, backup}).code == 0);
  ::unlink(backup);
  CHECK(sick.look.counts().dead == 1200);
  CHECK(sick.run({"redrive", queue, "--all", "--yes"}).code == 0);

  // A worker that works.
  std::mutex mutex;
  std::set<std::string> handled;
  delayqueue::ConsumerOptions options;
  options.concurrency = 4;
  options.reconnect_grace = 100ms;
  delayqueue::Consumer consumer(
      sick.server.url(), queue,
      [&](const delayqueue::Message& message) {
        const std::lock_guard lock(mutex);
        handled.insert(message.id);
        return true;
      },
      options);
  consumer.start();
  CHECK(sick.run({"drain", queue, "--timeout", "60s"}).code == 0);
  CHECK(consumer.stop());
  std::set<std::string> missing;
  std::set_difference(sick.sent.begin(), sick.sent.end(), handled.begin(), handled.end(),
                      std::inserter(missing, missing.end()));
  CHECK_MESSAGE(missing.empty(), missing.size() << " were lost");
  for (const std::string& one : sick.lost) CHECK(handled.count(one) == 0);

  // And be sure.
  CHECK(sick.told({"stuck", queue}, 0).at("level") == "ok");
  CHECK(sick.told({"doctor", queue}, 0).at("check").at("clean") == true);
  const delayqueue::Counts counts = sick.look.counts();
  CHECK(counts.pending + counts.ready + counts.unack + counts.retry + counts.dead == 0);
}

}  // namespace
