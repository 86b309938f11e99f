// Crashes of worker processes and of Redis.
#include "support/test.h"

#include <signal.h>

#include "support/process.h"

namespace delayqueue {
namespace {

using test::begun;
using test::words;
using test::worker;

TEST_CASE("kill -9 of a worker: its in-flight and prefetched messages are delivered again after the lease") {
  Queue queue;
  std::set<std::string> all;
  const auto send = [&](const std::vector<std::string>& payloads) {
    for (const Sent& sent : queue.producer.send_batch(payloads)) all.insert(sent.id);
  };
  send(words(3000, "quick"));  // fast handlers, so that it prefetches many messages
  send(words(2, "hang"));
  send(words(3000, "behind"));
  test::Process process(worker(queue, 2, "1800000"));
  const auto both_hang = [&] { return process.said("end").size() == 3000 && process.said("begin").size() == 3002; };
  REQUIRE(eventually(both_hang, kPatience));
  process.kill(SIGKILL);
  CHECK(process.wait() == -SIGKILL);

  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), quick(4));
  consumer->start();
  const auto all_handled = [&] { return queue.inspector.counts().ready == 0 && ledger.running() == 0; };
  REQUIRE(eventually(all_handled, kPatience));
  CHECK(consumer->stop(kPatience));
  const std::uint64_t held = queue.inspector.counts().unack;  // by the killed worker: their leases have not ended
  CHECK(held > 2);
  test::rewind(queue.base, 1h);
  const auto next = queue.consumer(ledger.watch(), quick(4));
  next->start();
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(next->stop());

  std::set<std::string> seen = begun(process);
  for (const Ledger::Entry& entry : ledger.entries()) seen.insert(entry.message.id());
  CHECK((seen == all));
  const Totals totals = queue.inspector.counts().totals;
  CHECK(totals.acked == 6002);
  CHECK(totals.retried == held);
  CHECK(totals.dead_lettered == 0);
}

TEST_CASE("SIGTERM: running handlers finish, and prefetched messages are ready again at once") {
  Queue queue;
  queue.producer.send_batch(words(2000, "quick"));
  queue.producer.send_batch(words(3, "slow"));
  queue.producer.send_batch(words(2000, "slow"));
  test::Process process(worker(queue, 3));
  REQUIRE(eventually([&] { return process.said("begin").size() - process.said("end").size() == 3; }, kPatience));
  process.kill(SIGTERM);
  CHECK(process.wait() == 0);
  CHECK(process.said("stopped") == std::vector<std::string>{"1"});
  CHECK(process.said("begin").size() == process.said("end").size());
  const Counts counts = queue.inspector.counts();
  CHECK(counts.unack == 0);
  CHECK(counts.retry == 0);
  CHECK(counts.totals.retried == 0);
  CHECK(counts.totals.acked == process.said("end").size());
  CHECK(counts.ready == 4003 - counts.totals.acked);
}

TEST_CASE("a message that kills its worker each time ends in dead with its reason; its neighbours are handled") {
  for (const int concurrency : {1, 3}) {
    CAPTURE(concurrency);
    Queue queue;
    std::size_t neighbours = 0;
    const auto send = [&](std::size_t count) {
      queue.producer.send_batch(words(count, "neighbour"));
      neighbours += count;
    };
    send(50);
    const std::string poison = queue.send("die");
    int deaths = 0;
    for (int round = 0; round < 20 && queue.state(poison) != State::dead; ++round) {
      send(50);
      test::Process process(worker(queue, concurrency));
      const auto settled = [&] {
        const State state = queue.state(poison);
        return state == State::dead || begun(process).count(poison) == 1;
      };
      REQUIRE(eventually(settled, kPatience));
      if (queue.state(poison) == State::dead) break;
      CHECK(process.wait() == -SIGKILL);
      ++deaths;
      test::rewind(queue.base, 1h);
    }
    CHECK(deaths == 4);  // once, and 3 retries
    const auto dead = queue.inspector.find(poison);
    REQUIRE(dead);
    CHECK(dead->state == State::dead);
    CHECK(dead->reason == "lease ended 4 times");
    CHECK(dead->deliveries == 4);
    CHECK(dead->payload == "die");
    test::rewind(queue.base, 1h);
    Ledger ledger;
    const auto consumer = queue.consumer(ledger.watch());
    consumer->start();
    CHECK(eventually([&] { return queue.inspector.counts().totals.acked == neighbours; }, kPatience));
    CHECK(queue.inspector.counts().dead == 1);
    CHECK(consumer->stop());
  }
}

TEST_CASE("kill -9 again and again: every message is handled at least once, none is lost") {
  Queue queue;
  const auto patient = with(&SendOptions::retries, 1000);
  std::set<std::string> all;
  for (const Sent& sent : queue.producer.send_batch(words(4000, "quick"), patient)) all.insert(sent.id);
  std::set<std::string> seen;
  for (int round = 0; round < 6; ++round) {
    test::Process one(worker(queue, 2)), two(worker(queue, 2));
    const std::size_t goal = 50 * static_cast<std::size_t>(round + 1);
    const auto far_enough = [&] {
      const bool all_done = queue.inspector.counts().totals.acked == 4000;
      return all_done || one.said("begin").size() + two.said("begin").size() > goal;
    };
    CHECK(eventually(far_enough, kPatience));
    one.kill(SIGKILL);
    two.kill(SIGKILL);
    one.wait();
    two.wait();
    for (const test::Process* process : {&one, &two}) seen.merge(begun(*process));
    test::rewind(queue.base, 1h);
  }
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), quick(4));
  consumer->start();
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(consumer->stop());
  for (const Ledger::Entry& entry : ledger.entries()) seen.insert(entry.message.id());
  CHECK((seen == all));
  const Totals totals = queue.inspector.counts().totals;
  CHECK(totals.acked == 4000);
  CHECK(totals.dead_lettered == 0);
}

TEST_CASE("Redis killed and restarted under a producer and two workers: all continue, no acknowledged send is lost") {
  PrivateServerOptions always;
  always.arguments = {"--appendfsync", "always"};  // everysec may answer before it has written
  PrivateServer own(always);
  Queue queue(own.url());
  Redis client(own.socket());
  test::Process one(worker(queue, 2, "2000")), two(worker(queue, 2, "2000"));
  test::Process producer({"produce", queue.url, queue.name, "2000"});
  for (const std::size_t goal : {300U, 800U, 1300U}) {
    REQUIRE(eventually([&] { return producer.said("sent").size() > goal; }, kPatience));
    goal == 800 ? own.stop() : own.kill();
    const std::size_t before = producer.said("sent").size();
    own.restart();
    CHECK(eventually([&] { return producer.said("sent").size() > before + 5; }, kPatience));
  }
  CHECK(producer.wait() == 0);
  CHECK(producer.said("done").size() == 1);
  CHECK(eventually([&] { return queue.empty(client); }, kPatience));
  for (test::Process* process : {&one, &two}) {
    process->kill(SIGTERM);
    CHECK(process->wait() == 0);
  }
  std::set<std::string> handled = begun(one);
  handled.merge(begun(two));
  const std::vector<std::string> sent = producer.said("sent");
  CHECK(sent.size() == 2000);
  CHECK(std::all_of(sent.begin(), sent.end(), [&](const std::string& id) { return handled.count(id) == 1; }));
  CHECK(handled.size() == 2000);  // no repeated send has made a second message
  CHECK(queue.inspector.counts().totals.dead_lettered == 0);
}

}  // namespace
}  // namespace delayqueue
