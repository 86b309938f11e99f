// The look-up of a host name is part of the connect timeout, may be left behind, and is shared.
#include "support/test.h"

#include "support/forked.h"
#include "support/limits.h"
#include "support/local.h"
#include "support/node.h"
#include "support/slow_names.h"

namespace delayqueue {
namespace {

using Clock = std::chrono::steady_clock;

// Far longer than connect_timeout, and less than the 12 s of a look-up that hangs.
constexpr std::chrono::seconds kBound{8};

ClientOptions quick(milliseconds connect_timeout = 200ms) {
  return with(&ClientOptions::connect_timeout, connect_timeout);
}

Producer producer(const std::string& url, milliseconds connect_timeout = 200ms) {
  return Producer({url, quick(connect_timeout)}, "q", one_attempt());
}

// The text of the ConnectionError of a send with one attempt, which must come in time.
std::string error_of_send(Producer& producer) {
  const auto begin = Clock::now();
  try {
    producer.send("x");
    FAIL("no error");
  } catch (const ConnectionError& e) {
    CHECK(Clock::now() - begin < kBound);
    return e.what();
  }
  return "";
}

TEST_CASE("look-up: a call ends at its connect timeout while a name server does not answer") {
  for (const std::string scheme : {"redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster"}) {
    CAPTURE(scheme);
    const bool sentinel = has(scheme, "sentinel");
    const std::string url = scheme + "://" + test::kHangingName + (sentinel ? "/m" : "");
    Producer sender = producer(url);
    const std::string text = error_of_send(sender);
    CHECK_MESSAGE(has(text, "the look-up of the name 'hangs.test' has not ended after"), text);
    const ClientOptions options = quick();
    Inspector inspector({url, options}, "q");
    const auto begin = Clock::now();
    CHECK_THROWS_AS(static_cast<void>(inspector.counts()), ConnectionError);
    CHECK(Clock::now() - begin < kBound);
  }
}

TEST_CASE("look-up: the look-ups of one name are one thread, however many callers and attempts there are") {
  test::eventually([] { return test::look_ups_under_way(test::kHangingName) == 0; }, 30s);
  const int begun = test::look_ups_begun(test::kHangingName);
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([i] {
      // Of another pool each: no call waits for the connection of another one.
      Producer sender = producer("redis://" + test::kHangingName + ":" + std::to_string(7000 + i), 100ms);
      for (int attempt = 0; attempt < 5; ++attempt) CHECK_THROWS_AS(sender.send("x"), ConnectionError);
    });
  }
  const ClientOptions client_options = quick(100ms);
  ConsumerOptions options;
  options.logger = no_log();
  Consumer consumer(
      {"redis://" + test::kHangingName, client_options}, "q", [](const Message&) { return ack(); }, options);
  consumer.start();
  for (std::thread& one : callers) one.join();
  CHECK(test::look_ups_under_way(test::kHangingName) <= 1);
  // One more if the first ended meanwhile, on a machine that is very busy.
  CHECK(test::look_ups_begun(test::kHangingName) - begun <= 2);
  const auto begin = Clock::now();
  CHECK(consumer.stop(20s));  // it has taken nothing
  CHECK(Clock::now() - begin < kBound);
}

TEST_CASE("look-up: addresses that come after the connect timeout are for the next attempt, which needs no look-up") {
  const test::Port port;
  PrivateServer server = test::server_with({"--port", std::to_string(port.number()), "--bind", "127.0.0.1"});
  const std::string name = test::late_name(900);
  Producer sender = producer("redis://" + name + ":" + std::to_string(port.number()));
  CHECK(has(error_of_send(sender), "has not ended after"));
  CHECK(test::look_ups_under_way(name) == 1);
  REQUIRE(test::eventually([&] { return test::look_ups_under_way(name) == 0; }));
  CHECK(test::eventually([&] {
    try {
      return sender.send("x").created();
    } catch (const ConnectionError&) {  // the machine is too busy for 200 ms
      return false;
    }
  }));
  // A consumer retries until the addresses are there. Its port is another one.
  CHECK(test::look_ups_begun(name) <= 2);
  const std::string later = test::late_name(1100);
  std::atomic<bool> handled{false};
  const ClientOptions client_options = quick();
  ConsumerOptions options;
  options.logger = no_log();
  const auto handler = [&](const Message&) {
    handled = true;
    return ack();
  };
  Consumer consumer({"redis://" + later + ":" + std::to_string(port.number()), client_options}, "q", handler, options);
  consumer.start();
  CHECK(test::eventually([&] { return handled.load(); }, 20s));
  CHECK(consumer.stop(20s));
}

TEST_CASE("look-up: a call repeats until the addresses are there, though a probe waits for them first") {
  const test::Port port;
  PrivateServer server = test::server_with({"--port", std::to_string(port.number()), "--bind", "127.0.0.1"});
  const std::string name = test::late_name(900);
  const Client client("redis://" + name + ":" + std::to_string(port.number()), quick());
  ProducerOptions options;
  options.send_timeout = test::kPatience;
  options.logger = no_log();
  Producer first(client, "q", options), second(client, "q", options);
  std::thread other([&] { CHECK(second.send("x").created()); });
  CHECK(first.send("x").created());
  other.join();
  CHECK(test::look_ups_begun(name) <= 3);  // on a busy machine more than one
}

TEST_CASE("look-up: one name with several ports leads to each of them") {
  const test::Port first, second;
  PrivateServer one = test::server_with({"--port", std::to_string(first.number()), "--bind", "127.0.0.1"});
  PrivateServer two = test::server_with({"--port", std::to_string(second.number()), "--bind", "127.0.0.1"});
  for (const auto& [port, server] : {std::pair(&first, &one), std::pair(&second, &two)}) {
    producer("redis://0.late.test:" + std::to_string(port->number()), 10s).send("x");
    CHECK(Inspector(server->url(), "q").counts().ready == 1);
  }
}

TEST_CASE("look-up: addresses in the URL need no thread") {
  const std::size_t threads = test::threads_of_this_process();
  for (const char* host : {"127.0.0.1", "[::1]"}) {
    Producer sender = producer(std::string("redis://") + host + ":1");
    CHECK_THROWS_AS(sender.send("x"), ConnectionError);
  }
  CHECK(test::threads_of_this_process() <= threads);
}

TEST_CASE("look-up: a producer whose send waits for a name ends in time") {
  const auto begin = Clock::now();
  {
    Producer sender = producer("redis://" + test::kHangingName);
    static_cast<void>(sender.send_async("x"));
  }
  CHECK(Clock::now() - begin < kBound);
}

TEST_CASE("look-up: a consumer that waits for a name and holds nothing stops at once, without an error in its log") {
  std::atomic<int> lines{0};
  const ClientOptions client_options = quick(60s);
  ConsumerOptions options;
  options.logger = [&](const LogEntry&) { ++lines; };
  for (const bool stops : {true, false}) {
    std::optional<Consumer> consumer(
        std::in_place, Client("redis://" + test::kHangingName, client_options), "q",
        [](const Message&) { return ack(); }, options);
    consumer->start();
    const auto begin = Clock::now();
    if (stops) CHECK(consumer->stop(60s));
    consumer.reset();
    CHECK(Clock::now() - begin < kBound);
  }
  CHECK(lines == 0);
}

TEST_CASE("look-up: a forked process makes its look-ups itself") {
  if (!test::kForksMakeThreads) return;
  const test::Port port;
  PrivateServer server = test::server_with({"--port", std::to_string(port.number()), "--bind", "127.0.0.1"});
  Producer sender = producer("redis://" + test::kHangingName);
  CHECK_THROWS_AS(sender.send("x"), ConnectionError);
  REQUIRE(test::look_ups_under_way(test::kHangingName) == 1);  // of a thread that the fork does not have
  const std::string url = ":" + std::to_string(port.number());
  CHECK(test::in_child([&] {
          Producer hangs = producer("redis://" + test::kHangingName);
          try {
            hangs.send("x");
            return false;
          } catch (const ConnectionError&) {
          }
          return producer("redis://0.late.test" + url, 10s).send("x").created();
        }) == 0);
}

}  // namespace
}  // namespace delayqueue
