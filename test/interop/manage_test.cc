// Canceling and moving messages that the other library sent or holds.
#include <doctest/doctest.h>

#include <atomic>

#include "interop/both_sides.h"

using namespace delayqueue;
using namespace std::chrono_literals;
using test::eventually;
using test::go;
using test::GoProgram;

TEST_CASE("C++ finds a pending message of Go and cancels it") {
  const auto queue = test::fresh_queue();
  const auto id = go("send", queue, {"-payload", "order 7", "-delay", "1h", "-retries", "2"}).front();
  Inspector inspector(test::server().url(), queue);
  const auto found = inspector.find(id);
  REQUIRE(found);
  CHECK(found->state == State::pending);
  CHECK(found->payload == "order 7");
  CHECK(found->retries == 2);
  CHECK_FALSE(found->sent);
  REQUIRE(found->at);
  CHECK(std::chrono::abs(*found->at - inspector.counts().now - 1h) < 10s);

  Producer producer(test::server().url(), queue);
  CHECK(producer.cancel(id) == State::pending);
  CHECK(test::leftovers("dp:" + queue).empty());
  CHECK(producer.cancel(id) == State::unknown);
}

TEST_CASE("C++ cancels a ready message of Go: it is not delivered") {
  const auto queue = test::fresh_queue();
  const auto ids = go("send", queue, {"-n", "3"});
  GoProgram busy("work", queue, {"-limit", "1", "-hold", "2s"});  // moves all to ready and takes one
  REQUIRE(eventually([&] { return go("counts", queue) == std::vector<std::string>{"0 2 1"}; }));
  const auto ready = test::redis().cmd({"LRANGE", "dp:" + queue + ":ready", "0", "-1"}).strings();

  Producer producer(test::server().url(), queue);
  CHECK(producer.cancel(ready.front()) == State::ready);
  test::Deliveries handled;
  Consumer worker(test::server().url(), queue, test::record(handled), test::quick());
  worker.start();
  CHECK(eventually([&] { return busy.count_starting("ack ") == 1; }));
  CHECK(test::nothing_left("dp:" + queue));
  REQUIRE(handled.size() == 1);
  CHECK(handled.all().front().id() == ready.back());
  CHECK(worker.metrics().stats.expired == 0);  // the id in the list was not even taken
}

TEST_CASE("with remove_from_lists a cancelled id does not use up the fetch limit of a Go worker") {
  const auto queue = test::fresh_queue();
  Producer producer({test::server().url(), {.keys = {.go = {.remove_from_lists = true}}}}, queue);
  const auto sent = producer.send_batch({"first", "second", "third"});
  GoProgram worker("work", queue, {"-limit", "1", "-hold", "1s"});
  REQUIRE(eventually([&] { return worker.count("take first") == 1; }));
  CHECK(producer.cancel(sent[1].id) == State::ready);
  CHECK(eventually([&] { return worker.count("ack third") == 1; }));
  CHECK(worker.count("take second") == 0);
  CHECK(test::nothing_left("dp:" + queue));
}

TEST_CASE("C++ cancels a message that a Go worker holds: if that fails it is not delivered again") {
  const auto queue = test::fresh_queue();
  const auto id = go("send", queue, {"-payload", "held"}).front();
  GoProgram holds("work", queue, {"-hold", "1s", "-fail-every", "1"});
  REQUIRE(eventually([&] { return holds.count("take held") == 1; }));
  Producer producer(test::server().url(), queue);
  CHECK(producer.cancel(id) == State::unack);
  CHECK(eventually([&] { return holds.count("nack held") == 1; }));
  CHECK(test::nothing_left("dp:" + queue));
  CHECK(holds.count("take held") == 1);
}

TEST_CASE("Go intercepts a message that a C++ handler holds: if that fails it is not delivered again") {
  const auto queue = test::fresh_queue();
  test::Deliveries handled;
  std::atomic<bool> go_on{false};
  Consumer worker(
      test::server().url(), queue,
      [&](const Message& message) {
        handled.add(message);
        eventually([&] { return go_on.load(); }, 20s);
        return nack(0ms, "no");
      },
      test::quick());
  worker.start();
  GoProgram sender("send", queue, {"-cancel", "-payload", "held"});
  REQUIRE(eventually([&] { return handled.size() == 1; }));
  sender.write("now");
  REQUIRE(eventually([&] { return sender.lines().size() == 2; }));
  CHECK(sender.lines()[1] == "unknown false");
  go_on = true;
  CHECK(test::nothing_left("dp:" + queue));
  CHECK(handled.size() == 1);
}

TEST_CASE("Go intercepts a message that C++ moved to ready: no C++ consumer gets it") {
  const auto queue = test::fresh_queue();
  GoProgram sender("send", queue, {"-cancel", "-delay", "1h"});
  REQUIRE(eventually([&] { return sender.lines().size() == 1; }));
  QueueAdmin admin(test::server().url(), queue);
  CHECK(admin.release({sender.lines()[0]}).front() == Outcome::done);
  sender.write("now");
  REQUIRE(eventually([&] { return sender.lines().size() == 2; }));
  CHECK(sender.lines()[1] == "ready true");

  test::Deliveries handled;
  Consumer worker(test::server().url(), queue, test::record(handled), test::quick());
  worker.start();
  go("send", queue, {"-payload", "after"});
  CHECK(eventually([&] { return handled.size() == 1; }));
  CHECK(handled.all().front().payload() == "after");
  CHECK(test::nothing_left("dp:" + queue));
}

TEST_CASE("C++ reschedules a message of Go and the TTL of its body moves along") {
  const auto queue = test::fresh_queue();
  const auto id = go("send", queue, {"-delay", "1m"}).front();  // its body lives for 1 h and 1 min
  Producer producer(test::server().url(), queue);
  CHECK(producer.reschedule(id, {.delay = 5h}) == Outcome::done);
  CHECK(go("counts", queue) == std::vector<std::string>{"1 0 0"});
  const auto life = std::chrono::milliseconds(test::redis().cmd({"PTTL", "dp:" + queue + ":msg:" + id}).integer);
  CHECK(life > 5h + 59min);
  CHECK(life < 6h + 1min);

  CHECK(producer.reschedule(id, {}) == Outcome::done);
  GoProgram worker("work", queue);
  CHECK(eventually([&] { return worker.count("ack go-0") == 1; }));
  CHECK(test::nothing_left("dp:" + queue));
}

TEST_CASE("a Go message whose body has expired is counted as expired and removed") {
  const auto queue = test::fresh_queue();
  const auto ids = go("send", queue, {"-n", "2"});
  const auto body = "dp:" + queue + ":msg:" + ids[0];
  REQUIRE(test::redis().cmd({"PEXPIRE", body, "1"}) == 1);
  REQUIRE(eventually([&] { return test::redis().cmd({"EXISTS", body}) == 0; }));
  test::Deliveries handled;
  Consumer worker(test::server().url(), queue, test::record(handled), test::quick());
  worker.start();
  CHECK(test::nothing_left("dp:" + queue));
  REQUIRE(handled.size() == 1);
  CHECK(handled.all().front().id() == ids[1]);
  CHECK(worker.metrics().stats.expired == 1);
  CHECK(Inspector(test::server().url(), queue).counts().totals.expired == 1);
}
