// Leases and backoffs of one library bind the other.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "interop/both_sides.h"

using namespace delayqueue;
using namespace std::chrono_literals;
using std::chrono::steady_clock;
using test::eventually;
using test::go;
using test::GoProgram;

TEST_CASE("a message that Go holds beyond its lease is delivered by C++ and a late ack of Go changes nothing") {
  const auto queue = test::fresh_queue();
  go("send", queue, {"-payload", "slow"});
  GoProgram slow("work", queue, {"-limit", "1", "-lease", "1h", "-hold", "3s"});
  REQUIRE(eventually([&] { return slow.count("take slow") == 1; }));
  test::rewind("dp:" + queue, 1h);

  test::Deliveries handled;
  Consumer worker(test::server().url(), queue, test::record(handled), test::quick());
  worker.start();
  REQUIRE(eventually([&] { return worker.metrics().stats.acked == 1; }));
  CHECK(handled.all().front().attempt() == 2);
  CHECK(slow.count("ack slow") == 0);
  CHECK(eventually([&] { return slow.count("ack slow") == 1; }));
  CHECK(test::nothing_left("dp:" + queue));
  CHECK(handled.size() == 1);
}

TEST_CASE("a late nack of a Go worker does not bring back a message that C++ has acked") {
  const auto queue = test::fresh_queue();
  Inspector inspector(test::server().url(), queue);
  CHECK_FALSE(inspector.next_event(1ms));  // subscribes
  Producer(test::server().url(), queue).send("slow");
  GoProgram slow("work", queue, {"-limit", "1", "-lease", "1h", "-hold", "3s", "-fail-every", "1", "-report"});
  REQUIRE(eventually([&] { return slow.count("take slow") == 1; }));
  test::rewind("dp:" + queue, 1h);

  test::Deliveries handled;
  Consumer worker(test::server().url(), queue, test::record(handled), test::quick());
  worker.start();
  REQUIRE(eventually([&] { return worker.metrics().stats.acked == 1; }));
  CHECK(slow.count("nack slow") == 0);
  CHECK(eventually([&] {
    const auto event = inspector.next_event(100ms);  // Go reports a nack after it is in Redis
    return event && event->kind == EventKind::nacked;
  }));
  CHECK(test::nothing_left("dp:" + queue));
  CHECK(handled.size() == 1);
  CHECK(worker.metrics().stats.expired == 0);
  CHECK(slow.count("take slow") == 1);
}

TEST_CASE("messages of a killed Go worker are delivered by C++") {
  const auto queue = test::fresh_queue();
  const auto ids = go("send", queue, {"-n", "5"});
  GoProgram killed("work", queue, {"-lease", "1h", "-hold", "1h"});
  REQUIRE(eventually([&] { return go("counts", queue) == std::vector<std::string>{"0 0 5"}; }));
  killed.kill();
  CHECK(killed.finish() == 128 + 9);
  test::rewind("dp:" + queue, 1h);

  test::Deliveries handled;
  Consumer worker(test::server().url(), queue, test::record(handled), test::quick());
  worker.start();
  CHECK(eventually([&] { return handled.size() >= ids.size(); }));
  CHECK(test::nothing_left("dp:" + queue));
  std::vector<std::string> seen;
  for (const auto& message : handled.all()) {
    seen.push_back(message.id());
    CHECK(message.attempt() == 2);
  }
  CHECK(test::sorted(seen) == test::sorted(ids));
}

TEST_CASE("a Go message whose last delivery died with its worker becomes a dead letter that is kept") {
  const auto queue = test::fresh_queue();
  const auto base = "dp:" + queue;
  const auto id = go("send", queue, {"-payload", "last", "-retries", "0"}).front();
  GoProgram killed("work", queue, {"-lease", "1h", "-hold", "1h"});
  REQUIRE(eventually([&] { return killed.count("take last") == 1; }));
  killed.kill();
  killed.finish();
  test::rewind(base, 1h);

  test::Deliveries handled;
  Consumer worker(test::server().url(), queue, test::record(handled), test::quick());
  worker.start();
  CHECK(eventually([&] { return test::redis().cmd({"TTL", base + ":msg:" + id}) == -1; }));
  Inspector inspector(test::server().url(), queue);
  const auto dead = inspector.list(State::dead);
  REQUIRE(dead.size() == 1);
  CHECK(dead.messages[0].payload == "last");
  CHECK(handled.size() == 0);
}

TEST_CASE("a Go worker does not take a message that a running C++ consumer holds beyond its first lease") {
  const auto queue = test::fresh_queue();
  std::atomic<bool> done{false};
  std::atomic<int> holders{0};
  auto options = test::quick();
  options.concurrency = 1;
  options.lease = 2s;
  Consumer holds(
      test::server().url(), queue,
      [&](const Message& message) {
        ++holders;
        eventually([&] { return done.load() || message.lease_lost(); }, 20s);
        return message.lease_lost() ? nack() : ack();
      },
      options);
  holds.start();
  go("send", queue, {"-payload", "long"});
  REQUIRE(eventually([&] { return holders == 1; }));
  GoProgram worker("work", queue);
  // The message that is due after six seconds is delivered after the end of the first lease.
  go("send", queue, {"-payload", "later", "-delay", "6s"});
  CHECK(eventually([&] { return worker.count("take later") == 1; }));
  CHECK(worker.count("take long") == 0);
  done = true;
  CHECK(test::nothing_left("dp:" + queue));
  CHECK(holds.metrics().stats.stale == 0);
}

TEST_CASE("a Go worker waits for the end of a backoff that C++ set") {
  const auto queue = test::fresh_queue();
  const auto wait = 1500ms;
  Producer(test::server().url(), queue).send("patience");
  std::atomic<steady_clock::rep> refused{0};
  {
    Consumer worker(
        test::server().url(), queue,
        [&](const Message&) {
          refused = steady_clock::now().time_since_epoch().count();
          return nack(wait);
        },
        test::quick());
    worker.start();
    REQUIRE(eventually([&] { return worker.metrics().stats.nacked == 1; }));
  }
  GoProgram worker("work", queue);
  CHECK(eventually([&] { return worker.count("take patience") == 1; }));
  CHECK(steady_clock::now().time_since_epoch() - steady_clock::duration(refused) >= wait);
}

TEST_CASE("messages that a stopping C++ consumer has only prefetched are delivered by Go at once") {
  const auto queue = test::fresh_queue();
  Producer producer(test::server().url(), queue);
  std::vector<std::string> payloads;
  for (int i = 0; i < 40; ++i) payloads.push_back("cpp-" + std::to_string(i));
  test::Deliveries handled;
  std::atomic<bool> go_on{false};
  auto options = test::quick();
  options.concurrency = 1;
  options.lease = 1h;
  Consumer stops(
      test::server().url(), queue,
      [&](const Message& message) {
        handled.add(message);
        // The first handlers return at once, so that more messages are prefetched before one hangs.
        return handled.size() < 20 || eventually([&] { return go_on.load(); }, 20s) ? ack() : nack();
      },
      options);
  stops.start();
  producer.send_batch(payloads);
  REQUIRE(eventually([&] { return handled.size() == 20; }));
  GoProgram worker("work", queue);
  std::thread stopper([&] { CHECK(stops.stop(20s)); });
  CHECK(eventually([&] { return worker.count_starting("ack ") == 20; }));
  go_on = true;
  stopper.join();
  CHECK(handled.size() == 20);
  CHECK(test::nothing_left("dp:" + queue));
}
