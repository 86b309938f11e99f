// Sandbox: a private server whose clock the test moves.
#include "support/test.h"

#include <delayqueue/testing.h>

#include <signal.h>
#include <sys/stat.h>

#include <filesystem>

#include "support/local.h"
#include "support/process.h"

namespace delayqueue {
namespace {

using testing::Handled;
using testing::Sandbox;
using testing::SandboxOptions;
using testing::Waiting;

using Strings = std::vector<std::string>;

Strings payloads_of(const std::vector<Handled>& handled) {
  Strings payloads;
  for (const Handled& one : handled) payloads.push_back(one.payload);
  return payloads;
}

Verdict not_called(const Message& message) {
  FAIL("handled: " << message.payload());
  return ack();
}
Verdict works(const Message&) { return ack(); }

TEST_CASE("sandbox R36: without a clock that can be moved the constructor says what to change") {
  SandboxOptions options;
  options.server.environment = {"LD_BIND_NOT=1"};  // the environment of the caller stays
  CHECK_NOTHROW(Sandbox{options});
  const test::TempDir folder;
  options.server.program = folder.file("redis-server");
  std::ofstream(options.server.program)
      << "#!/bin/sh\nunset LD_PRELOAD\nexec \"${DELAYQUEUE_REDIS_SERVER:-redis-server}\" \"$@\"\n";
  ::chmod(options.server.program.c_str(), 0700);
  const std::string error = thrown([&] { const Sandbox box(options); });
  CHECK(has(error, "Sandbox: the clock of the server cannot be moved"));
  CHECK(has(error, "set DELAYQUEUE_REDIS_SERVER to such a program"));
  CHECK_THROWS_AS(Sandbox{options}, SetupError);
}

TEST_CASE("sandbox R37: advance() waits until no message is in flight, and names those that stay") {
  Sandbox box;
  Producer orders(box.url(), "orders");
  Gate gate;
  Consumer consumer(box.url(), "orders", [&](const Message&) {
    gate.pass();
    return ack();
  });
  consumer.start();
  const std::string id = orders.send("held").id;
  REQUIRE(eventually([&] { return consumer.metrics().stats.running == 1; }, kPatience));
  const std::string error = thrown([&] { box.advance(90min); });
  CHECK(has(error, "advance(90 min): 1 messages are still in flight after 5 s: " + id + " of queue \"orders\"; "));
  CHECK(has(error, "or call lose_leases() if their process died"));
  const auto before = box.now();
  std::thread opens([&] {
    std::this_thread::sleep_for(50ms);
    gate.open();
  });
  box.advance(90min);
  opens.join();
  CHECK(box.now() - before >= 90min);
  CHECK(Inspector(box.url(), "orders").counts().totals.acked == 1);
}

TEST_CASE("sandbox R37: advance() moves time forward only") {
  Sandbox box;
  CHECK(thrown([&] { box.advance(-5ms); }) == "invalid_argument: by: -5 ms; expected at least 0 ms");
  CHECK(has(thrown([&] { box.advance(24h * 365 * 101); }), "expected at most a hundred years"));
  CHECK(thrown([&] {
          box.play(-1ms, {{"orders", works}});
        }) == "invalid_argument: time: -1 ms; expected at least 0 ms");
  box.advance(0ms);
  const auto before = box.now();
  box.advance(24h * 365);
  CHECK(box.now() - before >= 24h * 365);
  Inspector inspector(box.url(), "orders");
  const auto there = inspector.counts().now;
  CHECK(there > before + 24h * 365);
  CHECK(there <= box.now());
}

TEST_CASE("sandbox R38: lose_leases() ends the leases of a process that died, and delivery 2 follows") {
  Sandbox box;
  Producer(box.url(), "orders").send("die");
  test::Process worker({"consume", box.url(), "orders", "1", "30000", "20"});
  CHECK(worker.wait() == -SIGKILL);
  CHECK(worker.said("begin").size() == 1);
  CHECK(box.drain("orders", not_called).empty());  // it is in flight elsewhere
  box.lose_leases();
  const auto handled = box.drain("orders", works);
  REQUIRE(handled.size() == 1);
  CHECK(handled[0].attempt == 2);
}

TEST_CASE("sandbox R39: drain() runs what is due in the caller's thread, and what is not due waits") {
  Sandbox box;
  Producer orders(box.url(), "orders");
  orders.send("now");
  orders.send("later", delayed(15min));
  const auto caller = std::this_thread::get_id();
  const auto handled = box.drain("orders", [&](const Message& message) {
    CHECK(std::this_thread::get_id() == caller);
    CHECK(message.queue() == "orders");
    return ack();
  });
  REQUIRE((payloads_of(handled) == Strings{"now"}));
  CHECK(handled[0].queue == "orders");
  CHECK(handled[0].attempt == 1);
  CHECK(handled[0].verdict == ack());
  CHECK(box.drain("orders", not_called).empty());
  CHECK(Inspector(box.url(), "orders").counts().pending == 1);
}

TEST_CASE("sandbox R39: an exception of the handler is a nack; one of a test framework leaves drain(), too") {
  struct EndOfTest {};
  Sandbox box;
  Producer orders(box.url(), "orders");
  ConsumerOptions options;
  options.backoff = Backoff::fixed(0ms);
  const std::string id = orders.send("x", with(&SendOptions::retries, 5)).id;
  int calls = 0;
  const auto handler = [&](const Message&) -> Verdict {
    if (++calls == 1) throw std::runtime_error("the bank is closed");
    if (calls == 2) throw EndOfTest();
    return ack();
  };
  CHECK_THROWS_AS(box.drain("orders", handler, options), EndOfTest);
  CHECK(calls == 2);
  CHECK(has(Inspector(box.url(), "orders").find(id)->reason, "EndOfTest"));
  const auto rest = box.drain("orders", handler, options);
  REQUIRE(rest.size() == 1);
  CHECK(rest[0].attempt == 3);
}

TEST_CASE("sandbox R39: drain() ends a queue that never becomes empty with an error") {
  Sandbox box;
  Producer orders(box.url(), "orders");
  orders.send("x");
  std::size_t calls = 0;
  const std::string error = thrown([&] {
    box.drain("orders", [&](const Message& message) {
      ++calls;
      if (calls < 6'000) orders.send_batch({message.payload(), message.payload()});
      return ack();
    });
  });
  CHECK(calls == 10'000);
  CHECK(has(error, "drain: more than 10000 messages; the last one is "));
  CHECK(has(error, " of queue \"orders\": does a handler send to its own queue, or snooze, without a delay?"));
}

TEST_CASE("sandbox R39: handlers that settle a Delivery later, and middleware, work as in a Consumer") {
  Sandbox box;
  Producer orders(box.url(), "orders");
  orders.send_batch({"1", "2", "3"});
  Strings around;
  ConsumerOptions options;
  options.middleware = [&](const Message& message, const NextHandler& next) {
    around.push_back(message.payload());
    if (message.payload() == "2") return std::optional<Verdict>(reject("refused by the middleware"));
    return next();
  };
  std::vector<std::thread> threads;
  const auto handled = box.drain(
      "orders",
      [&](Delivery delivery) {
        threads.emplace_back([delivery = std::move(delivery)]() mutable { std::move(delivery).ack(); });
      },
      options);
  for (std::thread& thread : threads) thread.join();
  CHECK((payloads_of(handled) == Strings{"1", "2", "3"}));
  CHECK((around == payloads_of(handled)));
  CHECK(!handled[0].verdict);
  CHECK(handled[1].verdict == reject("refused by the middleware"));
  const Counts counts = Inspector(box.url(), "orders").counts();
  CHECK(counts.totals.acked == 2);
  CHECK(counts.dead == 1);
}

TEST_CASE("sandbox R39: a Delivery that is never settled is an error with its id") {
  Sandbox box;
  const std::string id = Producer(box.url(), "orders").send("x").id;
  std::optional<Delivery> kept;
  const std::string error =
      thrown([&] { box.drain("orders", [&](Delivery delivery) { kept.emplace(std::move(delivery)); }); });
  CHECK(has(error, "drain: nothing was delivered or settled for 10 s"));
  CHECK(has(error, id + " of queue \"orders\" is in flight"));
}

TEST_CASE("sandbox R39: what a pause or a limit keeps back stays") {
  Sandbox box;
  Producer orders(box.url(), "orders");
  QueueAdmin admin(box.url(), "orders");
  QueueLimits limits;
  limits.rate = Rate{1, 1h, 2};
  REQUIRE(admin.set_limits(limits));
  orders.send_batch({"1", "2", "3"});
  CHECK((payloads_of(box.drain("orders", works)) == Strings{"1", "2"}));
  CHECK(box.drain("orders", not_called).empty());
  box.advance(1h);
  CHECK((payloads_of(box.drain("orders", works)) == Strings{"3"}));
  box.advance(2h);
  orders.send("4");
  admin.pause();
  CHECK(box.drain("orders", not_called).empty());
  admin.resume();
  CHECK((payloads_of(box.drain("orders", works)) == Strings{"4"}));
}

TEST_CASE("sandbox R42: Sandbox::now() is the time of the server, for messages with a fixed time") {
  Sandbox box;
  box.advance(24h);
  Producer orders(box.url(), "orders");
  orders.send("x", with(&SendOptions::at, box.now() + 15min));
  CHECK(box.drain("orders", not_called).empty());
  CHECK(box.sent("orders").front().due_in == 15min);
  box.advance(15min);
  CHECK(box.drain("orders", works).size() == 1);
}

TEST_CASE("sandbox R43: sent() lists what waits, with all that was sent; never what was handled or is in flight") {
  Sandbox box;
  Producer orders(box.url(), "orders");
  SendOptions options;
  options.delay = 15min;
  options.retries = 7;
  options.ttl = 1h;
  options.headers = {{"tenant", "7"}};
  options.unique.key = "order 42";
  const std::string id = orders.send("order 42", options).id;
  const std::string gone = orders.send("cancelled").id;
  orders.send("due");
  orders.send("handled", delayed(1ms));
  REQUIRE(orders.cancel(gone) == State::ready);
  std::vector<Waiting> waiting = box.sent("orders");
  const auto find = [&](const std::string& payload) { return box.find("orders", payload); };
  REQUIRE(waiting.back().id == id);
  CHECK(waiting.back().payload == "order 42");
  CHECK(waiting.back().state == State::pending);
  CHECK(waiting.back().due_in == 15min);
  CHECK(waiting.back().due - box.now() <= 15min);
  CHECK(waiting.back().retries == 7);
  CHECK(waiting.back().ttl == 1h);
  CHECK(*waiting.back().headers.find("tenant") == "7");
  CHECK(waiting.back().key == "order 42");
  CHECK(waiting.size() == 3);
  CHECK(find("due")->state == State::ready);
  CHECK(find("due")->due_in == 0ms);
  CHECK(!find("cancelled"));

  ConsumerOptions consuming;
  consuming.backoff = Backoff::fixed(1min);
  box.advance(1s);
  box.drain(
      "orders", [](const Message& message) { return message.payload() == "due" ? nack("closed") : ack(); }, consuming);
  CHECK(!find("handled"));
  CHECK(find("due")->state == State::unack);
  CHECK(find("due")->due_in == 1min);
  box.drain("orders", [&](const Message&) { return ack(); });
  box.advance(15min);
  CHECK(find("order 42")->ttl.value() <= 1h);
  box.drain("orders", [&](const Message&) {
    if (!find("due")) CHECK(box.sent("orders").size() <= 1);  // not what is in flight
    return reject();
  });
  CHECK(box.sent("orders").empty());
}

TEST_CASE("sandbox R43: queues with another prefix, a hash tag, or several partitions") {
  SandboxOptions options;
  options.keys.prefix = "shop";
  options.keys.hash_tag = HashTag::on;
  Sandbox box(options);
  QueueAdmin(box.client(), "orders").set_partitions(4);
  Producer orders(box.client(), "orders");
  for (const std::string& payload : numbers(20)) orders.send(payload, delayed(1h));
  CHECK(box.sent("orders").size() == 20);
  Ledger ledger;
  ConsumerOptions consuming = quick(4);
  consuming.tuning.poll_interval = 1h;
  consuming.logger = no_log();
  Consumer consumer(box.client(), "orders", ledger.watch(), consuming);
  consumer.start();
  REQUIRE(eventually([&] { return consumer.metrics().stats.connected; }, kPatience));
  box.advance(1h);
  CHECK(ledger.settles(20));  // consumers are woken in all partitions
  CHECK(consumer.stop());
  CHECK(Sandbox().drain("orders", not_called).empty());
  CHECK(box.drain("orders", not_called).empty());
}

TEST_CASE("sandbox R44: several at once, each with its own time") {
  Sandbox first, second;
  Producer(first.url(), "orders").send("x", delayed(1h));
  Producer(second.url(), "orders").send("x", delayed(1h));
  first.advance(1h);
  CHECK(second.drain("orders", not_called).empty());
  CHECK(first.drain("orders", works).size() == 1);
  CHECK(second.sent("orders").front().due_in == 1h);
}

TEST_CASE("sandbox R44: keeps its time and its data when the server is killed and restarted") {
  Sandbox box;
  Producer orders(box.url(), "orders");
  orders.send("x", delayed(2h));
  box.advance(1h);
  box.server().kill();
  CHECK(has(thrown([&] { box.advance(1h); }), "call server().restart()"));
  box.server().restart();
  CHECK(box.sent("orders").front().due_in == 1h);
  box.advance(1h);
  CHECK(box.drain("orders", works).size() == 1);
}

// Also no process that has the folder in its command line.
bool leaves_nothing(const std::string& folder, pid_t server) {
  if (std::filesystem::exists(folder) || !test::ended(server)) return false;
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    if (content_of(process.path().string() + "/cmdline").find(folder) != std::string::npos) return false;
  }
  return true;
}

TEST_CASE("sandbox R44: leaves no process and no folder, also when the test is killed") {
  std::string folder;
  pid_t server = 0;
  {
    Sandbox box;
    folder = box.server().folder();
    server = box.server().pid();
    CHECK(std::filesystem::exists(folder));
  }
  CHECK(leaves_nothing(folder, server));

  test::Process killed({"sandbox"});
  REQUIRE(eventually([&] { return killed.said("sandbox").size() == 1; }, kPatience));
  std::istringstream(killed.said("sandbox").front()) >> server >> folder;
  REQUIRE(std::filesystem::exists(folder));
  killed.kill(SIGKILL);
  CHECK(killed.wait() == -SIGKILL);
  CHECK(eventually([&] { return leaves_nothing(folder, server); }, kPatience));
}

TEST_CASE("sandbox R46: errors of a Sandbox name the call and what is wrong") {
  Sandbox box;
  CHECK(has(thrown([&] { box.play(1h, {}); }), "play: no handlers; expected one for each queue"));
  CHECK(has(thrown([&] { box.drain("", works); }), "invalid_argument: queue: empty"));
  ConsumerOptions options;
  options.lease = 1ms;
  CHECK(has(thrown([&] { box.drain("orders", works, options); }), "invalid_argument: lease: 1 ms"));
}

}  // namespace
}  // namespace delayqueue
