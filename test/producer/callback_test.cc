// send_async with a callback, try_send_async and flush; and a Sender that is no Producer.
#include "support/test.h"

#include <delayqueue/testing.h>

#include "support/answers.h"
#include "support/proxy.h"

namespace delayqueue {
namespace {

using test::FaultProxy;
using test::named;

// What the callbacks were called with, in the order of the calls.
class CallbackResults {
 public:
  // A callback that keeps its result under this name.
  SendCallback keep(std::string name) {
    return [this, name = std::move(name)](const AsyncSent& result) {
      const std::lock_guard lock(mutex_);
      names_.push_back(name);
      results_.push_back(result);
      threads_.insert(std::this_thread::get_id());
    };
  }
  std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return names_.size();
  }
  std::vector<std::string> names() const {
    const std::lock_guard lock(mutex_);
    return names_;
  }
  std::vector<AsyncSent> all() const {
    const std::lock_guard lock(mutex_);
    return results_;
  }
  std::set<std::thread::id> threads() const {
    const std::lock_guard lock(mutex_);
    return threads_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> names_;
  std::vector<AsyncSent> results_;
  std::set<std::thread::id> threads_;
};

// A Producer behind a proxy that can hold the replies of Redis back.
struct HeldBack {
  explicit HeldBack(const ProducerOptions& options = one_attempt())
      : proxy(own.socket()),
        queue(own.url()),
        producer({proxy.url(), with(&ClientOptions::command_timeout, 60s)}, queue.name, options) {
    producer.send("warm");
    proxy.hold_replies(true);
  }

  PrivateServer own;
  FaultProxy proxy;
  Queue queue;
  Producer producer;
};

TEST_CASE("callback: is called once with what send() returns, in the order of the calls, in a thread of the Producer") {
  Queue queue;
  CallbackResults results;
  const std::vector<std::string> payloads = numbers(5000);
  for (const std::string& payload : payloads) queue.producer.send_async(payload, {}, results.keep(payload));
  REQUIRE(queue.producer.flush(kPatience));
  CHECK((results.names() == payloads));
  CHECK(results.threads().size() == 1);
  CHECK(results.threads().count(std::this_thread::get_id()) == 0);
  for (const AsyncSent& result : results.all()) {
    REQUIRE(result);
    CHECK(result.get().created());
    CHECK(result.id() == result.get().id);
    CHECK(result.error() == nullptr);
  }
  CHECK(queue.inspector.counts().ready == 5000);
  const std::string id = results.all().front().id();
  CHECK(queue.inspector.find(id)->payload == payloads.front());
  queue.producer.send_async("again", named(id), results.keep("again"));
  REQUIRE(queue.producer.flush(kPatience));
  CHECK(results.all().back().get().result == SendResult::existed);
}

TEST_CASE("callback: gets the exception that send() throws, with the id of the message, which may be sent again") {
  PrivateServer own;
  Queue queue(own.url(), one_attempt());
  CallbackResults results;
  test::Redis client(own.socket());
  client.cmd({"SET", queue.base + ":ready", "in the way"});
  queue.producer.send_async("refused", {}, results.keep("refused"));
  REQUIRE(queue.producer.flush(kPatience));
  CHECK_FALSE(results.all().front());
  CHECK(has(thrown([&] { results.all().front().get(); }), "ReplyError: "));
  client.cmd({"DEL", queue.base + ":ready"});
  own.stop();
  for (const std::string& payload : numbers(100)) queue.producer.send_async(payload, {}, results.keep(payload));
  REQUIRE(queue.producer.flush(kPatience));
  own.restart();
  const std::vector<AsyncSent> all = results.all();
  REQUIRE(all.size() == 101);
  for (std::size_t i = 1; i < all.size(); ++i) {
    CHECK_FALSE(all[i]);
    try {
      all[i].get();
      FAIL("there is no server");
    } catch (const ConnectionError& error) {
      CHECK(error.ids() == std::vector<std::string>{all[i].id()});
    }
    CHECK(queue.producer.send("again", named(all[i].id())).created());
  }
}

TEST_CASE("callback: invalid arguments throw at once, and the callback is never called") {
  Queue queue;
  CallbackResults results;
  Producer producer(queue.url, queue.name, with(&ProducerOptions::max_payload, 4));
  const SendCallback done = results.keep("x");
  std::string large = "12345";
  CHECK(has(thrown([&] { producer.send_async("x", delayed(-1ms), done); }), "invalid_argument: delay"));
  CHECK(has(thrown([&] { producer.send_async("x", named("42"), done); }), "invalid_argument: id"));
  CHECK(has(thrown([&] { producer.send_async("12345", {}, done); }), "invalid_argument: payload"));
  CHECK(has(thrown([&] { producer.send_async("x", {}, nullptr); }), "invalid_argument: done: empty"));
  CHECK(has(thrown([&] { return producer.try_send_async(std::move(large), {}, done); }), "invalid_argument: payload"));
  CHECK(large == "12345");
  CHECK(has(thrown([&] { return producer.try_send_async("x", {}, nullptr); }), "invalid_argument: done: empty"));
  CHECK(producer.flush(kPatience));
  CHECK(results.count() == 0);
  CHECK(queue.kept().empty());
}

TEST_CASE("callback: one that throws is logged as an error, and the others are called") {
  Queue queue;
  test::Lines lines;
  CallbackResults results;
  Producer producer(queue.url, queue.name, with(&ProducerOptions::logger, lines.logger()));
  producer.send_async("a", {}, [](const AsyncSent&) { throw std::runtime_error("no more paper"); });
  producer.send_async("b", {}, results.keep("b"));
  REQUIRE(producer.flush(kPatience));
  CHECK(results.count() == 1);
  CHECK(lines.count(Severity::error, "the callback of send_async threw: no more paper") == 1);
}

TEST_CASE("callback: may send more, even at the limit of messages in flight") {
  Queue queue;
  std::atomic<std::size_t> called{0};
  Producer producer(queue.url, queue.name);
  const SendCallback count = [&](const AsyncSent& result) { called += result ? 1 : 0; };
  const SendCallback again = [&](const AsyncSent& result) {
    count(result);
    producer.send_async("another", {}, count);
  };
  std::thread other([&] {
    for (std::size_t i = 0; i < 15'000; ++i) producer.send_async("first", {}, again);
  });
  other.join();
  CHECK(test::eventually([&] { return called >= 30'000; }, kPatience));
  CHECK(producer.flush(kPatience));
  CHECK(called == 30'000);
}

// Holds all replies back: so many messages find room, and no more until the replies arrive.
void refuses_at(std::size_t most, const std::string& payload) {
  HeldBack held;
  CallbackResults results;
  for (std::size_t i = 0; i < most; ++i) {
    if (!held.producer.try_send_async(std::string(payload), {}, results.keep("in"))) FAIL(i);
  }
  std::string kept = payload;
  for (int i = 0; i < 3; ++i) CHECK_FALSE(held.producer.try_send_async(std::move(kept), {}, results.keep("out")));
  CHECK((kept == payload));
  CHECK(results.count() == 0);
  held.proxy.hold_replies(false);
  REQUIRE(held.producer.flush(kPatience));
  CHECK(held.producer.try_send_async(std::move(kept), {}, results.keep("in")));
  REQUIRE(held.producer.flush(kPatience));
  CHECK((results.names() == std::vector<std::string>(most + 1, "in")));
  CHECK(held.queue.inspector.counts().ready == most + 2);
}

TEST_CASE("try_send_async: with 10,000 messages in flight it returns false, and leaves the payload") {
  refuses_at(10'000, "x");
}

TEST_CASE("try_send_async: with 16 MiB of payloads in flight it returns false, and leaves the payload") {
  refuses_at(32, std::string(512 * 1024, 'x'));
}

TEST_CASE("try_send_async: before_send is not called for a message that finds no room") {
  std::atomic<int> seen{0};
  ProducerOptions options = one_attempt();
  options.before_send = [&](OutgoingMessage& message) {
    ++seen;
    message.payload += '!';
  };
  HeldBack held(options);
  CallbackResults results;
  const int before = seen;
  while (held.producer.try_send_async(std::string(1024 * 1024 - 1, 'x'), {}, results.keep("in"))) continue;
  const int accepted = seen - before;
  std::string kept(1024 * 1024 - 1, 'y');
  CHECK_FALSE(held.producer.try_send_async(std::move(kept), {}, results.keep("out")));
  CHECK(seen - before == accepted);
  CHECK((kept == std::string(1024 * 1024 - 1, 'y')));
  held.proxy.hold_replies(false);
  REQUIRE(held.producer.flush(kPatience));
  CHECK(results.count() == static_cast<std::size_t>(accepted));
}

TEST_CASE("flush: waits for the sends before it only, at most for its timeout, and not in a callback") {
  HeldBack held;
  CallbackResults results;
  CHECK(held.producer.flush(0ms));  // there are none
  held.producer.send_async("a", {}, results.keep("a"));
  for (const milliseconds timeout : {0ms, 20ms, -1ms, milliseconds::min()}) CHECK_FALSE(held.producer.flush(timeout));
  std::promise<bool> ended;
  std::thread waiting([&] { ended.set_value(held.producer.flush(milliseconds::max())); });
  held.proxy.hold_replies(false);
  CHECK(ended.get_future().get());
  waiting.join();
  CHECK(results.count() == 1);
  std::promise<bool> within;
  held.producer.send_async("b", {}, [&](const AsyncSent&) { within.set_value(held.producer.flush(kPatience)); });
  CHECK_FALSE(within.get_future().get());
  CHECK(held.producer.flush(kPatience));
}

TEST_CASE("flush: ends although another thread goes on to send") {
  Queue queue;
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) queue.producer.send_async("x", {}, [](const AsyncSent&) {});
  });
  for (int i = 0; i < 20; ++i) CHECK(queue.producer.flush(kPatience));
  stop = true;
  other.join();
}

TEST_CASE("~Producer: returns when all callbacks were called, also those of messages that callbacks have sent") {
  Queue queue;
  CallbackResults results;
  {
    Producer producer(queue.url, queue.name);
    for (const std::string& payload : numbers(3000)) producer.send_async(payload, {}, results.keep(payload));
  }
  CHECK(results.count() == 3000);
  PrivateServer own;
  own.stop();
  CallbackResults failed;
  {
    Producer producer(own.url(), "orders", one_attempt());
    for (const std::string& payload : numbers(3000)) producer.send_async(payload, {}, failed.keep(payload));
  }
  CHECK((failed.names() == numbers(3000)));
  for (const AsyncSent& result : failed.all()) CHECK_FALSE(result);
}

void remind(Sender& sender) {
  CHECK(sender.send("a").created());
  CHECK(sender.send_batch({"b", "c"}).size() == 2);
  CHECK(sender.send_batch(std::vector<std::string>{"d"}).size() == 1);
  CHECK(sender.send_batch({{"e", {}}}).size() == 1);
  const Sent sent = sender.send_async("f").get();
  CHECK(sent.created());
  std::atomic<int> called{0};
  CHECK(sender.try_send_async("g", {}, [&](const AsyncSent& result) { called += result ? 1 : 0; }));
  CHECK(sender.flush(kPatience));
  CHECK(called == 1);
  CHECK(sender.reschedule(sent.id, with(&RescheduleOptions::delay, 1h)) == Outcome::done);
  CHECK(sender.cancel(sent.id) == State::pending);
}

TEST_CASE("Sender: a program that takes one works with a Producer, and with another Sender in its tests") {
  Queue queue;
  remind(queue.producer);
  CHECK(queue.inspector.counts().totals.sent == 7);
  CHECK(queue.inspector.counts().totals.cancelled == 1);
  testing::RecordingSender recorder;
  remind(recorder);
  std::vector<std::string> payloads;
  for (const OutgoingMessage& message : recorder.sent()) payloads.push_back(message.payload);
  CHECK((payloads == std::vector<std::string>{"a", "b", "c", "d", "e", "f", "g"}));
  CHECK(recorder.cancelled().size() == 1);
}

}  // namespace
}  // namespace delayqueue
