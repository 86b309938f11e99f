// Batches: handlers for several messages at once.
#include "support/test.h"

#include <delayqueue/batch.h>

namespace delayqueue {
namespace {

// Records the batches that its handler gets.
class Batches {
 public:
  BatchHandler record() {
    return [this](const MessageBatch& batch) {
      const std::lock_guard lock(mutex_);
      sizes_.push_back(batch.size());
      for (const Message& message : batch) payloads_.insert(message.payload());
      return std::vector<Verdict>(batch.size(), ack());
    };
  }
  std::vector<std::size_t> sizes() const {
    const std::lock_guard lock(mutex_);
    return sizes_;
  }
  std::size_t different() const {
    const std::lock_guard lock(mutex_);
    return payloads_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::size_t> sizes_;
  std::set<std::string> payloads_;
};

TEST_CASE("batch: the handler gets full batches while there are enough messages") {
  Queue queue;
  queue.producer.send_batch(numbers(200));
  Batches batches;
  const auto consumer = queue.consumer(in_batches(batches.record(), {10, 1h}), quick(10));
  consumer->start();
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(consumer->stop());
  CHECK(batches.sizes() == std::vector<std::size_t>(20, 10));
  CHECK(batches.different() == 200);
  CHECK(consumer->metrics().stats.acked == 200);
}

TEST_CASE("batch: one that is not full is handled when its time has come, also while the consumer stops") {
  Queue queue;
  Batches batches;
  const auto consumer = queue.consumer(in_batches(batches.record(), {100, 1s}), quick(100));
  consumer->start();
  const auto sent_at = std::chrono::steady_clock::now();
  queue.producer.send_batch(numbers(3));
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(std::chrono::steady_clock::now() - sent_at >= 1s);
  CHECK(batches.different() == 3);
  queue.send("last");
  REQUIRE(eventually([&] { return consumer->metrics().stats.running == 1; }, kPatience));
  CHECK(consumer->stop(kPatience));
  CHECK(queue.empty());
  CHECK(batches.different() == 4);
}

TEST_CASE("batch: each message gets its own verdict") {
  Queue queue;
  queue.send("ack");
  const std::string nacked = queue.send("nack");
  const std::string rejected = queue.send("reject");
  const auto verdict_of = [](const Message& message) {
    if (message.payload() == "ack") return ack();
    return message.payload() == "nack" ? nack(1h, "not now") : reject("never");
  };
  const auto consumer = queue.consumer(in_batches(
                                           [&](const MessageBatch& batch) {
                                             std::vector<Verdict> verdicts;
                                             for (const Message& message : batch) {
                                               verdicts.push_back(verdict_of(message));
                                             }
                                             return verdicts;
                                           },
                                           {3, 1h}),
                                       quick(3));
  consumer->start();
  CHECK(eventually([&] { return consumer->metrics().stats.acked == 1 && consumer->metrics().stats.nacked == 2; },
                   kPatience));
  CHECK(consumer->stop());
  CHECK(queue.state(rejected) == State::dead);
  CHECK(queue.inspector.find(rejected)->reason == "never");
  CHECK(queue.inspector.find(nacked)->reason == "not now");
}

TEST_CASE("batch: an exception, and a wrong number of verdicts, nack all messages of the batch with that reason") {
  for (const bool throws : {true, false}) {
    CAPTURE(throws);
    Queue queue;
    queue.producer.send_batch(numbers(2));
    ConsumerOptions options = quick(2);
    options.backoff = Backoff::fixed(1h);
    const auto consumer = queue.consumer(in_batches(
                                             [throws](const MessageBatch&) -> std::vector<Verdict> {
                                               if (throws) throw std::runtime_error("the database is away");
                                               return {ack()};
                                             },
                                             {2, 1h}),
                                         options);
    consumer->start();
    CHECK(eventually([&] { return consumer->metrics().stats.nacked == 2; }, kPatience));
    CHECK(consumer->stop());
    const std::string reason = throws ? "the database is away" : "the handler returned 1 instead of 2 verdicts";
    for (const MessageInfo& info : queue.inspector.list(State::unack)) CHECK(info.reason == reason);
    CHECK(queue.inspector.counts().unack == 2);
  }
}

TEST_CASE("batch: a consumer that ends while messages wait leaves them to their leases") {
  Queue queue;
  queue.producer.send_batch(numbers(3));
  Batches batches;
  auto consumer = queue.consumer(in_batches(batches.record(), {100, 1h}), quick(100));
  consumer->start();
  REQUIRE(eventually([&] { return consumer->metrics().stats.running == 3; }, kPatience));
  CHECK_FALSE(consumer->stop(50ms));
  consumer.reset();
  CHECK(batches.sizes().empty());
  CHECK(queue.inspector.counts().unack == 3);
}

TEST_CASE("batch: invalid options are refused with their name and value") {
  const BatchHandler none = [](const MessageBatch&) { return std::vector<Verdict>(); };
  CHECK(has(thrown([&] { in_batches(none, {0, 1ms}); }), "invalid_argument: size: 0"));
  CHECK(has(thrown([&] { in_batches(none, {1, -1ms}); }), "invalid_argument: wait: -1 ms"));
  CHECK(has(thrown([&] { in_batches(BatchHandler()); }), "invalid_argument: handler"));
}

}  // namespace
}  // namespace delayqueue
