// send_async: the result of its future, and its limits.
#include "support/test.h"

#include "support/limits.h"
#include "support/proxy.h"

namespace delayqueue {
namespace {

using test::FaultProxy;
using test::threads_of_this_process;

// A future whose exception lives as long as it does. std::future releases an exception before the test reads it. The
// thread sanitizer does not see that the library frees the exception only after that.
using Kept = std::shared_future<Sent>;

bool is_ready(const Kept& future) { return future.wait_for(0s) == std::future_status::ready; }

TEST_CASE("send_async: the future returns what send() returns, and the messages are sent in the order of the calls") {
  Queue queue;
  std::vector<std::future<Sent>> futures;
  for (const std::string& payload : numbers(5000)) futures.push_back(queue.producer.send_async(payload));
  const auto page = with(&ListOptions::limit, 1000);
  std::vector<std::string> ids;
  for (std::future<Sent>& future : futures) {
    const Sent sent = future.get();
    CHECK(sent.created());
    ids.push_back(sent.id);
  }
  CHECK(queue.inspector.counts().ready == 5000);
  std::size_t next = 0;
  for (const MessageInfo& one : queue.inspector.list(State::ready, page).messages) {
    REQUIRE(one.id == ids.at(next));
    CHECK(queue.inspector.find(one.id)->payload == std::to_string(next++));
  }
  CHECK(next == 1000);
}

TEST_CASE("send_async: takes the options of send(), and does not send an id that exists twice") {
  Queue queue;
  SendOptions options;
  options.delay = 1h;
  options.retries = 7;
  options.id = "0197F3A4-5B6C-7D8E-9F01-23456789ABCD";
  const Sent sent = queue.producer.send_async("later", options).get();
  CHECK(sent.id == "0197f3a4-5b6c-7d8e-9f01-23456789abcd");
  CHECK(sent.created());
  CHECK(!queue.producer.send_async("again", options).get().created());
  const auto found = queue.inspector.find(sent.id);
  REQUIRE(found);
  CHECK(found->state == State::pending);
  CHECK(found->retries == 7);
  CHECK(found->payload == "later");
}

TEST_CASE("send_async: an invalid argument throws at once") {
  Queue queue;
  Producer producer(queue.url, queue.name, with(&ProducerOptions::max_payload, 4));
  auto options = delayed(-1ms);
  CHECK(has(thrown([&] { return producer.send_async("x", options); }), "invalid_argument: delay"));
  options = {};
  options.id = "42";
  CHECK(has(thrown([&] { return producer.send_async("x", options); }), "invalid_argument: id"));
  CHECK(has(thrown([&] { return producer.send_async("12345"); }), "invalid_argument: payload"));
  CHECK(queue.kept().empty());
}

TEST_CASE("send_async: the future throws what send() throws: ReplyError, or ConnectionError with the id") {
  PrivateServer own;
  Queue queue(own.url(), one_attempt());
  test::Redis client(own.socket());
  client.cmd({"SET", queue.base + ":ready", "in the way"});
  const Kept refused = queue.producer.send_async("x").share();
  CHECK(has(thrown([&] { refused.get(); }), "ReplyError: "));
  client.cmd({"DEL", queue.base + ":ready"});
  own.stop();
  std::vector<Kept> futures;
  for (const std::string& payload : numbers(100)) futures.push_back(queue.producer.send_async(payload).share());
  std::vector<std::string> ids;
  for (const Kept& future : futures) {
    try {
      future.get();
      FAIL("there is no server");
    } catch (const ConnectionError& e) {
      REQUIRE(e.ids().size() == 1);
      ids.push_back(e.ids().front());
    }
  }
  own.restart();
  SendOptions again;
  for (const std::string& id : ids) {
    again.id = id;
    CHECK(queue.producer.send_async("again", again).get().created());
  }
  CHECK(queue.inspector.counts().ready == 100);
}

// Holds all replies back, and checks that a thread can hand over `most` messages before send_async blocks.
void blocks_at(std::size_t most, const std::string& payload) {
  PrivateServer own;
  FaultProxy proxy(own.socket());
  Queue queue(own.url(), one_attempt());
  Producer producer({proxy.url(), with(&ClientOptions::command_timeout, 60s)}, queue.name, one_attempt());
  producer.send("warm");
  proxy.hold_replies(true);
  std::atomic<std::size_t> accepted{0};
  std::vector<std::future<Sent>> futures;
  std::thread caller([&] {
    for (std::size_t i = 0; i < most + 10; ++i, ++accepted) futures.push_back(producer.send_async(payload));
  });
  CHECK(test::eventually([&] { return accepted == most; }, test::kPatience));
  std::this_thread::sleep_for(100ms);  // a further call would return in this time
  CHECK(accepted == most);
  proxy.hold_replies(false);
  caller.join();
  for (std::future<Sent>& future : futures) CHECK(future.get().created());
  CHECK(queue.inspector.counts().ready == most + 11);
}

TEST_CASE("send_async: blocks while 10,000 messages are in flight") { blocks_at(10'000, "x"); }

TEST_CASE("send_async: blocks while 16 MiB of payloads are in flight") { blocks_at(32, std::string(512 * 1024, 'x')); }

TEST_CASE("send_async: sends a payload that is larger than the limit on payloads in flight") {
  PrivateServer own;
  Producer producer(own.url(), "orders", with(&ProducerOptions::max_payload, 64 * 1024 * 1024));
  CHECK(producer.send_async(std::string(20 * 1024 * 1024, 'x')).get().created());
  CHECK(producer.send_async("small").get().created());
}

TEST_CASE("~Producer: returns when all messages are sent and all futures are ready") {
  Queue queue;
  std::vector<Kept> futures;
  {
    Producer producer(queue.url, queue.name);
    for (const std::string& payload : numbers(3000)) futures.push_back(producer.send_async(payload).share());
  }
  CHECK(queue.inspector.counts().ready == 3000);
  for (const Kept& future : futures) {
    REQUIRE(is_ready(future));
    CHECK(future.get().created());
  }
}

TEST_CASE("~Producer: without a server the futures fail, and the destructor returns") {
  PrivateServer own;
  own.stop();
  std::vector<Kept> futures;
  {
    Producer producer(own.url(), "orders", one_attempt());
    for (const std::string& payload : numbers(5000)) futures.push_back(producer.send_async(payload).share());
  }
  for (const Kept& future : futures) {
    REQUIRE(is_ready(future));
    CHECK(has(thrown([&] { future.get(); }), "ConnectionError: "));
  }
}

TEST_CASE("send_async: the first call starts the only thread, which ends with the Producer") {
  Queue queue;
  const std::size_t before = threads_of_this_process();
  {
    Producer producer(queue.url, queue.name);
    producer.send("x");
    CHECK(threads_of_this_process() == before);
    for (const std::string& payload : numbers(100)) producer.send_async(payload).get();
    CHECK(threads_of_this_process() == before + 1);
  }
  CHECK(test::eventually([&] { return threads_of_this_process() == before; }));
}

TEST_CASE("send_async: a callback may send more, even at the limit of messages in flight") {
  Queue queue;
  std::atomic<std::size_t> reported{0};
  Producer* self = nullptr;
  ProducerOptions options;
  options.on_event = [&](const Event& event) {
    reported += event.count;
    if (reported < 30'000) {
      for (std::size_t i = 0; i < event.count; ++i) static_cast<void>(self->send_async("another"));
    }
  };
  Producer producer(queue.url, queue.name, options);
  self = &producer;
  std::thread other([&] {
    for (std::size_t i = 0; i < 15'000; ++i) static_cast<void>(producer.send_async("first"));
  });
  other.join();
  CHECK(test::eventually([&] { return reported >= 30'000; }, test::kPatience));
}

}  // namespace
}  // namespace delayqueue
