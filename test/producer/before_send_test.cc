// ProducerOptions::before_send.
#include "support/test.h"

namespace delayqueue {
namespace {

using test::redis;

// Notes the calls of a hook, then changes the message.
class Hook {
 public:
  using Change = std::function<void(OutgoingMessage&)>;

  explicit Hook(Change change = {}) : change_(std::move(change)) {}

  ProducerOptions options() {
    ProducerOptions options;
    options.before_send = [this](OutgoingMessage& message) {
      {
        const std::lock_guard lock(mutex_);
        seen_.push_back(message);
        threads_.push_back(std::this_thread::get_id());
      }
      if (change_) change_(message);
    };
    return options;
  }

  std::vector<std::string> payloads() const {
    std::vector<std::string> payloads;
    for (const OutgoingMessage& message : seen_) payloads.push_back(message.payload);
    return payloads;
  }
  const std::vector<OutgoingMessage>& seen() const { return seen_; }
  const std::vector<std::thread::id>& threads() const { return threads_; }

 private:
  const Change change_;
  std::mutex mutex_;
  std::vector<OutgoingMessage> seen_;
  std::vector<std::thread::id> threads_;
};

using Payloads = std::vector<std::string>;

std::string stored_in(const Queue& queue, const Sent& sent) {
  return redis().cmd({"GET", queue.base + ":msg:" + sent.id}).text;
}

TEST_CASE(
    "before_send: is called once for each message of every kind of send, in their order and in the calling thread") {
  Queue queue;
  Hook hook;
  Producer producer(queue.url, queue.name, hook.options());
  producer.send("one");
  producer.send_batch({"two", "three"});
  producer.send_batch(Payloads{"four"});
  producer.send_batch(std::vector<OutgoingMessage>{{"five", {}}, {"six", delayed(1h)}});
  producer.send_async("seven").get();
  CHECK(hook.payloads() == Payloads{"one", "two", "three", "four", "five", "six", "seven"});
  CHECK(hook.threads() == std::vector<std::thread::id>(7, std::this_thread::get_id()));
  CHECK(hook.seen()[5].options.delay == 1h);
  CHECK(queue.inspector.counts().ready == 6);
  CHECK(queue.inspector.counts().pending == 1);
  CHECK(producer.send_batch(Payloads{}).empty());
  CHECK(hook.seen().size() == 7);
}

TEST_CASE("before_send: may change the payload and the options of every kind of send, and each message otherwise") {
  Queue queue;
  int number = 0;
  Hook hook([&](OutgoingMessage& message) {
    message.payload += '!';
    message.options.delay = 1h;
    message.options.retries = ++number;
  });
  Producer producer(queue.url, queue.name, hook.options());
  std::vector<OutgoingMessage> mine = {{"d", {}}};
  std::vector<Sent> sent = {producer.send("a")};
  for (const Sent& one : producer.send_batch({"b", "c"})) sent.push_back(one);
  sent.push_back(producer.send_batch(mine).front());
  sent.push_back(producer.send_async("e").get());
  CHECK(queue.inspector.counts().pending == 5);
  const std::string expected[] = {"a!", "b!", "c!", "d!", "e!"};
  for (std::size_t i = 0; i < sent.size(); ++i) {
    CHECK(stored_in(queue, sent[i]) == expected[i]);
    CHECK(queue.inspector.find(sent[i].id)->retries == static_cast<int>(i) + 1);
  }
  CHECK(mine[0].payload == "d");  // the caller's message stays as it is
  CHECK_FALSE(mine[0].options.retries);
}

TEST_CASE("before_send: sees the id of the caller, no other, and may set one") {
  Queue queue;
  Hook hook([](OutgoingMessage& message) {
    if (message.options.id.empty()) message.options.id = test::kId;
  });
  Producer producer(queue.url, queue.name, hook.options());
  CHECK(producer.send("a").id == test::kId);
  CHECK(!producer.send("a", test::named(test::kId)).created());
  CHECK(!producer.send_async("a").get().created());
  CHECK(!producer.send_batch({"a"}).front().created());
  CHECK(hook.seen()[0].options.id.empty());
  CHECK(hook.seen()[1].options.id == test::kId);
}

TEST_CASE("before_send: its exception is that of the call, and nothing is sent, also of a batch") {
  Queue queue;
  int calls = 0;
  Hook hook([&](OutgoingMessage& message) {
    ++calls;
    if (message.payload == "bad") throw std::runtime_error("not this one");
  });
  Producer producer(queue.url, queue.name, hook.options());
  const auto refuses = [&](const std::function<void()>& call) { return has(thrown(call), "not this one"); };
  CHECK(refuses([&] { producer.send("bad"); }));
  CHECK(refuses([&] { producer.send_batch({"good", "good", "bad", "good"}); }));
  CHECK(refuses([&] { producer.send_batch(std::vector<OutgoingMessage>{{"good", {}}, {"bad", {}}}); }));
  CHECK(refuses([&] { static_cast<void>(producer.send_async("bad")); }));  // the call, not the future
  CHECK(calls == 1 + 3 + 2 + 1);
  CHECK(queue.kept().empty());
  CHECK(producer.send("good").created());
}

TEST_CASE("before_send: the message that it leaves behind is checked") {
  Queue queue;
  Hook hook([](OutgoingMessage& message) {
    if (message.payload == "grows") message.payload.assign(100, 'x');
    if (message.payload.size() > 100) message.payload = "short";
    if (message.payload == "early") message.options.delay = -1ms;
    if (message.payload == "named") message.options.id = "no UUID";
  });
  ProducerOptions options = hook.options();
  options.max_payload = 50;
  Producer producer(queue.url, queue.name, options);
  CHECK(has(thrown([&] { producer.send("grows"); }), "payload: 100 bytes"));
  CHECK(has(thrown([&] { producer.send("early"); }), "delay"));
  CHECK(has(thrown([&] { producer.send("named"); }), "no UUID"));
  CHECK(has(thrown([&] { producer.send_batch({"x", "grows"}); }), "payload: 100 bytes"));
  CHECK(has(thrown([&] { static_cast<void>(producer.send_async("grows")); }), "payload: 100 bytes"));
  CHECK(queue.kept().empty());
  CHECK(stored_in(queue, producer.send(std::string(101, 'x'))) == "short");
}

TEST_CASE("before_send: is not called for a call whose arguments are refused as a whole") {
  Queue queue;
  Hook hook;
  Producer producer(queue.url, queue.name, hook.options());
  CHECK(has(thrown([&] { producer.send_batch({"a", "b"}, test::named(test::kId)); }), "every message of a batch"));
  CHECK(hook.seen().empty());
}

TEST_CASE("before_send: what the library sends again for one call does not call it again") {
  Queue queue;
  Hook hook;
  Producer producer(queue.url, queue.name, hook.options());
  producer.send("a");
  redis().cmd({"SCRIPT", "FLUSH"});  // the server then refuses the call, and the library repeats it with the script
  CHECK(producer.send("b").created());
  CHECK(hook.seen().size() == 2);
  CHECK(queue.inspector.counts().ready == 2);
}

TEST_CASE("before_send: threads that send at the same time are each served in their own") {
  Queue queue;
  std::mutex mutex;
  std::size_t elsewhere = 0;
  ProducerOptions options;
  options.before_send = [&](OutgoingMessage& message) {
    std::ostringstream text;
    text << std::this_thread::get_id();
    const std::lock_guard lock(mutex);
    elsewhere += message.payload != text.str();
  };
  Producer producer(queue.url, queue.name, options);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      std::ostringstream text;
      text << std::this_thread::get_id();
      for (int n = 0; n < 50; ++n) producer.send(text.str());
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(elsewhere == 0);
  CHECK(queue.inspector.counts().ready == 200);
}

}  // namespace
}  // namespace delayqueue
