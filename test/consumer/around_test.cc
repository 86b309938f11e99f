// ConsumerOptions::middleware.
#include "support/test.h"

#include <delayqueue/batch.h>

#include "support/answers.h"

namespace delayqueue {
namespace {

using test::Lines;

// Records steps, each with the thread that it ran in.
class Steps {
 public:
  void add(const std::string& step) {
    const std::lock_guard lock(mutex_);
    steps_.push_back(step);
    threads_.push_back(std::this_thread::get_id());
  }
  std::vector<std::string> all() const {
    const std::lock_guard lock(mutex_);
    return steps_;
  }
  std::size_t size() const { return all().size(); }
  bool all_in_one_thread() const {
    const std::lock_guard lock(mutex_);
    return std::equal(threads_.begin() + 1, threads_.end(), threads_.begin());
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> steps_;
  std::vector<std::thread::id> threads_;
};

ConsumerOptions surrounded_by(Middleware around) {
  ConsumerOptions options = quick();
  options.backoff = Backoff::fixed(1h);
  options.middleware = std::move(around);
  return options;
}

// The reason of the nack of this message, once it is in its backoff; "none" if it never is.
std::string nacked_because(Queue& queue, const std::string& id) {
  const auto is_in_backoff = [&] {
    const auto info = queue.inspector.find(id);
    return info && info->state == State::unack && !info->held;
  };
  return eventually(is_in_backoff, kPatience) ? queue.inspector.find(id)->reason : "none";
}

const Handler kAcks = [](Delivery delivery) { std::move(delivery).ack(); };

TEST_CASE("middleware: runs around each call of the handler, in its thread, with its message and its verdict") {
  Queue queue;
  Steps steps;
  const auto consumer = queue.consumer(
      [&](const Message& message) {
        steps.add("handler of " + message.payload());
        return ack();
      },
      surrounded_by([&](const Message& message, const NextHandler& next) {
        steps.add("before " + message.payload());
        const auto verdict = next();
        steps.add(verdict && verdict->kind() == Verdict::Kind::ack ? "after its ack" : "after another verdict");
        return verdict;
      }));
  consumer->start();
  queue.send("a");
  REQUIRE(eventually([&] { return steps.size() == 3; }, kPatience));
  queue.send("b");
  REQUIRE(eventually([&] { return steps.size() == 6; }, kPatience));
  CHECK(consumer->stop(kPatience));
  CHECK(steps.all() == std::vector<std::string>{"before a", "handler of a", "after its ack",  //
                                                "before b", "handler of b", "after its ack"});
  CHECK(steps.all_in_one_thread());
  CHECK(consumer->metrics().stats.acked == 2);
  CHECK(queue.empty());
}

TEST_CASE("middleware: may return another verdict, and need not call the handler") {
  Queue queue;
  std::atomic<int> handled{0};
  const auto consumer = queue.consumer(
      [&](const Message&) {
        ++handled;
        return ack();
      },
      surrounded_by([](const Message& message, const NextHandler& next) -> std::optional<Verdict> {
        if (message.payload() == "refused") return reject("not here");
        const auto verdict = next();
        return message.payload() == "replaced" ? nack("not good enough") : verdict;
      }));
  consumer->start();
  const std::string refused = queue.send("refused");
  const std::string replaced = queue.send("replaced");
  CHECK(nacked_because(queue, replaced) == "not good enough");
  CHECK(eventually([&] { return queue.state(refused) == State::dead; }, kPatience));
  CHECK(queue.inspector.find(refused)->reason == "not here");
  CHECK(consumer->stop(kPatience));
  CHECK(handled == 1);
}

TEST_CASE("middleware: sees the exception of the handler, and may answer it with a verdict or call the handler again") {
  Queue queue;
  std::atomic<int> calls{0};
  std::atomic<bool> seen{false};
  const auto consumer = queue.consumer(
      [&](const Message&) -> Verdict {
        if (++calls == 1) throw std::runtime_error("only once");
        return ack();
      },
      surrounded_by([&](const Message&, const NextHandler& next) {
        try {
          return next();
        } catch (const std::runtime_error& e) {
          seen = has(e.what(), "only once");
          return next();
        }
      }));
  consumer->start();
  queue.send("x");
  CHECK(eventually([&] { return consumer->metrics().stats.acked == 1; }, kPatience));
  CHECK(consumer->stop(kPatience));
  CHECK(seen);
  CHECK(calls == 2);
}

TEST_CASE("middleware: its exception is the reason of a nack, as that of the handler, and so is a missing verdict") {
  for (const bool settles_later : {false, true}) {
    CAPTURE(settles_later);
    Queue queue;
    const ConsumerOptions options =
        surrounded_by([](const Message& message, const NextHandler&) -> std::optional<Verdict> {
          if (message.payload() == "throws") throw std::runtime_error("before the handler");
          if (message.payload() == "throws a number") throw 42;
          return std::nullopt;
        });
    const auto consumer = settles_later ? queue.consumer(kAcks, options) : queue.consumer(ack_all, options);
    consumer->start();
    const std::string throws = queue.send("throws");
    const std::string number = queue.send("throws a number");
    const std::string empty = queue.send("returns nothing");
    CHECK(nacked_because(queue, throws) == "before the handler");
    CHECK(nacked_because(queue, number) == "42 (an int, no std::exception)");
    CHECK(nacked_because(queue, empty) == "middleware returned no verdict");
    CHECK(consumer->stop(kPatience));
    CHECK(consumer->metrics().stats.nacked == 3);
    CHECK(consumer->metrics().stats.running == 0);
  }
}

TEST_CASE("middleware: an exception after the handler has returned its verdict nacks the message") {
  Queue queue;
  const auto consumer =
      queue.consumer(ack_all, surrounded_by([](const Message&, const NextHandler& next) -> std::optional<Verdict> {
                       next();
                       throw std::runtime_error("after the handler");
                     }));
  consumer->start();
  CHECK(nacked_because(queue, queue.send("x")) == "after the handler");
  CHECK(consumer->stop(kPatience));
}

TEST_CASE("middleware: of a handler of a Delivery surrounds the call, and has no influence on the verdict") {
  Queue queue;
  Steps steps;
  std::mutex mutex;
  std::vector<Delivery> kept;
  const auto consumer = queue.consumer(
      [&](Delivery delivery) {
        steps.add("handler");
        const std::lock_guard lock(mutex);
        kept.push_back(std::move(delivery));
      },
      surrounded_by([&](const Message& message, const NextHandler& next) -> std::optional<Verdict> {
        steps.add("before");
        const bool has_verdict = next().has_value();
        steps.add(has_verdict ? "a verdict" : "after " + message.payload());  // the message is still valid
        return reject("not used");
      }));
  consumer->start();
  queue.send("x");
  REQUIRE(eventually([&] { return steps.size() == 3; }, kPatience));
  CHECK(steps.all() == std::vector<std::string>{"before", "handler", "after x"});
  CHECK(steps.all_in_one_thread());
  CHECK(consumer->metrics().stats.running == 1);
  {
    const std::lock_guard lock(mutex);
    CHECK(std::move(kept.front()).ack());
  }
  CHECK(eventually([&] { return consumer->metrics().stats.acked == 1; }, kPatience));
  CHECK(consumer->stop(kPatience));
  CHECK(consumer->metrics().stats.nacked == 0);
  CHECK(queue.empty());
}

TEST_CASE("middleware: a message that it does not pass to a handler of a Delivery gets its verdict") {
  Queue queue;
  std::atomic<int> handled{0};
  const auto consumer = queue.consumer(
      [&](Delivery delivery) {
        ++handled;
        std::move(delivery).ack();
      },
      surrounded_by([](const Message& message, const NextHandler& next) -> std::optional<Verdict> {
        if (message.payload() == "refused") return reject("not here");
        return next();
      }));
  consumer->start();
  const std::string refused = queue.send("refused");
  for (int i = 0; i < 3; ++i) queue.send("passed");  // the place of the first is free again
  CHECK(eventually([&] { return queue.state(refused) == State::dead && handled == 3; }, kPatience));
  CHECK(queue.inspector.find(refused)->reason == "not here");
  CHECK(consumer->stop(kPatience));
  CHECK(consumer->metrics().stats.running == 0);
}

TEST_CASE("middleware: a handler of a Delivery gets a message once, and a second next() throws") {
  Queue queue;
  std::atomic<int> handled{0};
  std::atomic<bool> refused{false};
  const auto consumer = queue.consumer(
      [&](Delivery delivery) {
        ++handled;
        std::move(delivery).ack();
      },
      surrounded_by([&](const Message&, const NextHandler& next) {
        next();
        try {
          return next();
        } catch (const std::logic_error&) {
          refused = true;
          return std::optional<Verdict>();
        }
      }));
  consumer->start();
  queue.send("x");
  CHECK(eventually([&] { return consumer->metrics().stats.acked == 1; }, kPatience));
  CHECK(consumer->stop(kPatience));
  CHECK(refused);
  CHECK(handled == 1);
}

TEST_CASE("middleware: the exception of a handler that drops its Delivery is the reason of the nack") {
  Queue queue;
  std::atomic<bool> seen{false};
  const auto consumer = queue.consumer([](Delivery) { throw std::runtime_error("in the handler"); },
                                       surrounded_by([&](const Message&, const NextHandler& next) {
                                         try {
                                           return next();
                                         } catch (const std::exception&) {
                                           seen = true;
                                           throw;
                                         }
                                       }));
  consumer->start();
  CHECK(nacked_because(queue, queue.send("x")) == "in the handler");
  CHECK(consumer->stop(kPatience));
  CHECK(seen);
}

TEST_CASE("middleware: an exception after a handler has settled its delivery is logged, and changes nothing") {
  Queue queue;
  Lines lines;
  ConsumerOptions options = surrounded_by([](const Message&, const NextHandler& next) -> std::optional<Verdict> {
    next();
    throw std::runtime_error("after the handler");
  });
  options.logger = lines.logger();
  const auto consumer = queue.consumer(kAcks, options);
  consumer->start();
  const std::string id = queue.send("x");
  CHECK(eventually([&] { return consumer->metrics().stats.acked == 1; }, kPatience));
  CHECK(eventually([&] { return lines.count(Severity::warning, "after the handler") == 1; }, kPatience));
  CHECK(lines.entry("after the handler").message_id == id);
  CHECK(consumer->stop(kPatience));
  CHECK(consumer->metrics().stats.nacked == 0);
  CHECK(queue.empty());
}

TEST_CASE("middleware: serves all queues of a consumer, whichever kind of handler they have") {
  Queue one, two;
  Steps steps;
  const ConsumerOptions options = surrounded_by([&](const Message& message, const NextHandler& next) {
    const auto verdict = next();
    steps.add(message.queue() + (verdict ? " verdict" : " none"));
    return verdict;
  });
  test::ConsumerPtr consumer(
      new Consumer(test::server().url(), {{one.name, Handler(ack_all)}, {two.name, kAcks}}, options));
  consumer->start();
  one.send("x");
  REQUIRE(eventually([&] { return steps.size() == 1; }, kPatience));
  two.send("x");
  REQUIRE(eventually([&] { return steps.size() == 2; }, kPatience));
  CHECK(consumer->stop(kPatience));
  CHECK(steps.all() == std::vector<std::string>{one.name + " verdict", two.name + " none"});
}

TEST_CASE("middleware: a batch is not surrounded, but each of its messages when it arrives") {
  Queue queue;
  Steps steps;
  ConsumerOptions options = surrounded_by([&](const Message&, const NextHandler& next) {
    steps.add("before");
    return next();
  });
  options.concurrency = 2;
  options.tuning.threads = 1;
  const auto consumer = queue.consumer(in_batches(
                                           [&](const MessageBatch& batch) {
                                             steps.add("batch");
                                             return std::vector<Verdict>(batch.size(), ack());
                                           },
                                           {2, 1h}),
                                       options);
  queue.producer.send_batch({"a", "b"});
  consumer->start();
  CHECK(eventually([&] { return consumer->metrics().stats.acked == 2; }, kPatience));
  CHECK(consumer->stop(kPatience));
  CHECK(steps.all() == std::vector<std::string>{"before", "before", "batch"});
}

TEST_CASE("middleware: its time is part of the handler's, so processing_timeout ends the lease") {
  Queue queue;
  std::atomic<bool> lost{false};
  ConsumerOptions options = surrounded_by([&](const Message& message, const NextHandler& next) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!message.lease_lost() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
    lost = message.lease_lost();
    return next();
  });
  options.lease = 200ms;
  options.processing_timeout = 100ms;
  queue.send("x", with(&SendOptions::retries, 0));
  const auto consumer = queue.consumer(ack_all, options);
  consumer->start();
  CHECK(eventually([&] { return lost.load(); }, kPatience));
  CHECK(consumer->stop(kPatience));
}

}  // namespace
}  // namespace delayqueue
