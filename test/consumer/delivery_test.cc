// Deliveries that are settled later: from any thread, twice, never, too late.
#include <delayqueue/consumer.h>

#include <doctest/doctest.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/answers.h"
#include "support/ledger.h"

namespace delayqueue {
namespace {

using namespace std::chrono_literals;
using test::eventually;
using test::kPatience;
using test::Lines;
using test::numbers;
using test::Queue;
using test::quick;

// Keeps the deliveries of a consumer. A consumer waits for them when it ends: clear() them first.
class Held {
 public:
  DeliveryHandler keep() {
    return [this](Delivery delivery) { add(std::move(delivery)); };
  }
  void add(Delivery delivery) {
    const std::lock_guard lock(mutex_);
    deliveries_.push_back(std::move(delivery));
  }

  // The oldest one.
  Delivery take() {
    const std::lock_guard lock(mutex_);
    Delivery delivery = std::move(deliveries_.front());
    deliveries_.pop_front();
    return delivery;
  }

  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return deliveries_.size();
  }
  bool reaches(std::size_t count) const {
    return eventually([&] { return size() >= count; }, kPatience);
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    deliveries_.clear();
  }

 private:
  mutable std::mutex mutex_;
  std::deque<Delivery> deliveries_;
};

bool accepts_ack(Delivery delivery) { return std::move(delivery).ack(); }

// ---- Verdicts -------------------------------------------------------------------------------------------------------

TEST_CASE("delivery: a verdict from another thread counts after the handler has returned") {
  Queue queue;
  std::vector<std::string> ids;
  for (const char* payload : {"ack", "nack", "reject", "snooze"}) ids.push_back(queue.send(payload));
  Held held;
  const auto consumer = queue.delivery_consumer(held.keep(), quick(4));
  consumer->start();
  REQUIRE(held.reaches(4));
  CHECK(consumer->stats().running == 4);
  std::atomic<int> accepted{0};
  std::thread other([&] {
    while (held.size() > 0) {
      Delivery delivery = held.take();
      const std::string payload = delivery.message().payload();
      accepted += payload == "ack"      ? std::move(delivery).ack()
                  : payload == "nack"   ? std::move(delivery).nack(1h, "not now")
                  : payload == "reject" ? std::move(delivery).reject("no such order")
                                        : std::move(delivery).snooze(1h);
    }
  });
  other.join();
  CHECK(accepted == 4);
  CHECK(eventually([&] { return consumer->stats().running == 0 && queue.inspector.counts().pending == 1; }, kPatience));
  CHECK(consumer->stop());
  CHECK(queue.state(ids[0]) == State::unknown);
  CHECK(queue.inspector.find(ids[1])->reason == "not now");
  CHECK(queue.inspector.find(ids[2])->reason == "no such order");
  CHECK(queue.state(ids[2]) == State::dead);
  CHECK(queue.state(ids[3]) == State::pending);
  CHECK(consumer->stats().acked == 1);
  CHECK(consumer->stats().nacked == 2);
  CHECK(consumer->stats().snoozed == 1);
}

TEST_CASE("delivery: a handler may settle it before it returns, and go on") {
  Queue queue;
  queue.producer.send_batch(numbers(500));
  std::atomic<int> returned{0};
  const auto consumer = queue.delivery_consumer(
      [&](Delivery delivery) {
        CHECK(std::move(delivery).ack());
        CHECK_FALSE(delivery.message().payload().empty());  // NOLINT(bugprone-use-after-move): valid until destroyed
        ++returned;
      },
      quick(3));
  consumer->start();
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(consumer->stop());
  CHECK(returned == 500);
  CHECK(consumer->stats().acked == 500);
  CHECK(consumer->stats().running == 0);
}

TEST_CASE("delivery: the first verdict of several counts, the others return false") {
  Queue queue;
  const std::string id = queue.send("x");
  Held held;
  const auto consumer = queue.delivery_consumer(held.keep());
  consumer->start();
  REQUIRE(held.reaches(1));
  const std::shared_ptr<Delivery> shared = held.take().share();
  CHECK(std::move(*shared).reject("first"));
  CHECK_FALSE(std::move(*shared).ack());
  CHECK(eventually([&] { return queue.state(id) == State::dead; }, kPatience));
  CHECK_FALSE(std::move(*shared).ack());
  CHECK(consumer->stop());
  CHECK(queue.inspector.find(id)->reason == "first");
}

TEST_CASE("delivery: of 64 threads that settle one at the same time, one succeeds") {
  Queue queue;
  queue.producer.send_batch(numbers(20));
  Held held;
  const auto consumer = queue.delivery_consumer(held.keep(), quick(20));
  consumer->start();
  REQUIRE(held.reaches(20));
  for (int round = 0; round < 20; ++round) {
    std::shared_ptr<Delivery> shared = held.take().share();
    std::atomic<int> accepted{0};
    std::vector<std::thread> threads;
    threads.reserve(64);
    for (int i = 0; i < 64; ++i) {
      threads.emplace_back([&accepted, own = shared] { accepted += std::move(*own).ack(); });
    }
    shared.reset();
    for (std::thread& thread : threads) thread.join();
    CHECK(accepted == 1);
  }
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(consumer->stop());
  CHECK(consumer->stats().acked == 20);
  CHECK(consumer->stats().stale == 0);
}

TEST_CASE("delivery: 64 threads settle different ones at the same time, while handlers go on") {
  constexpr std::size_t kThreads = 64;
  constexpr std::size_t kEach = 50;
  Queue queue;
  Held held;
  ConsumerOptions options = quick(500);
  options.threads = 2;
  const auto consumer = queue.delivery_consumer(held.keep(), options);
  consumer->start();
  queue.producer.send_batch(numbers(kThreads * kEach));
  std::atomic<std::size_t> left{kThreads * kEach};
  std::atomic<std::size_t> accepted{0};
  std::vector<std::thread> threads;
  std::mutex taking;  // so that size() and take() are one step
  threads.reserve(kThreads);
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      while (left > 0) {
        std::optional<Delivery> delivery;
        {
          const std::lock_guard lock(taking);
          if (held.size() > 0) delivery.emplace(held.take());
        }
        if (!delivery) {
          std::this_thread::sleep_for(1ms);
          continue;
        }
        --left;
        accepted += std::move(*delivery).ack();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(accepted == kThreads * kEach);
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(consumer->stop());
  CHECK(consumer->stats().acked == kThreads * kEach);
}

TEST_CASE("delivery: one that was moved from settles nothing and has no message; the other one does") {
  Queue queue;
  queue.producer.send_batch(numbers(2));
  Held held;
  ConsumerOptions options = quick(2);
  options.backoff = Backoff::fixed(1h);
  const auto consumer = queue.delivery_consumer(held.keep(), options);
  consumer->start();
  REQUIRE(held.reaches(2));
  Delivery first = held.take();
  Delivery second = std::move(first);
  // NOLINTBEGIN(bugprone-use-after-move)
  CHECK_THROWS_WITH_AS(static_cast<void>(first.message()), doctest::Contains("used after it was moved from"),
                       std::logic_error);
  CHECK_FALSE(std::move(first).ack());
  // NOLINTEND(bugprone-use-after-move)
  CHECK_FALSE(second.message().payload().empty());
  second = held.take();  // drops the one before
  CHECK(eventually([&] { return consumer->stats().nacked == 1; }, kPatience));
  CHECK(std::move(second).ack());
  CHECK(consumer->stop());
  CHECK(consumer->stats().acked == 1);
}

// ---- Without a verdict ----------------------------------------------------------------------------------------------

TEST_CASE("delivery: one that is destroyed without a verdict is nacked, in the handler or later") {
  Queue queue;
  const std::string now = queue.send("now");
  const std::string later = queue.send("later");
  Held held;
  ConsumerOptions options = quick(2);
  options.backoff = Backoff::fixed(1h);
  const auto consumer = queue.delivery_consumer(
      [&](Delivery delivery) {
        if (delivery.message().payload() == "later") held.add(std::move(delivery));
      },
      options);
  consumer->start();
  REQUIRE(held.reaches(1));
  held.clear();
  CHECK(eventually([&] { return consumer->stats().nacked == 2; }, kPatience));
  CHECK(consumer->stop());
  for (const std::string& id : {now, later}) {
    const MessageInfo info = *queue.inspector.find(id);
    CHECK(info.reason == "dropped without a verdict");
    CHECK(info.state == State::unack);
    CHECK_FALSE(info.held);
  }
}

TEST_CASE("delivery: one that is destroyed while the consumer stops returns to the queue, and no retry is spent") {
  Queue queue;
  const std::string id = queue.send("x");
  Held held;
  const auto consumer = queue.delivery_consumer(held.keep());
  consumer->start();
  REQUIRE(held.reaches(1));
  std::thread dropping([&] {
    std::this_thread::sleep_for(500ms);  // stop() has begun
    held.clear();
  });
  CHECK(consumer->stop(kPatience));
  dropping.join();
  CHECK(queue.state(id) == State::ready);
  CHECK(queue.inspector.counts().totals.retried == 0);
  CHECK(queue.kept().count("attempts") == 0);
}

TEST_CASE("delivery: if the handler throws and so destroys it, the exception's text is the reason") {
  Queue queue;
  const std::string text = queue.send("text");
  const std::string other = queue.send("other");
  ConsumerOptions options = quick(2);
  options.backoff = Backoff::fixed(1h);
  const auto consumer = queue.delivery_consumer(
      [](Delivery delivery) {
        const Delivery moved = std::move(delivery);  // destroyed by the exception, too
        if (moved.message().payload() == "text") throw std::runtime_error("stock service: timeout");
        throw 42;
      },
      options);
  consumer->start();
  CHECK(eventually([&] { return consumer->stats().nacked == 2; }, kPatience));
  CHECK(consumer->stop());
  CHECK(queue.inspector.find(text)->reason == "stock service: timeout");
  CHECK(queue.inspector.find(other)->reason == "the handler threw something that is no std::exception");
}

TEST_CASE("delivery: a handler that throws after it has moved it elsewhere is logged, and the verdict counts") {
  Queue queue;
  queue.send("x");
  Held held;
  Lines lines;
  ConsumerOptions options = quick();
  options.logger = lines.logger();
  const auto consumer = queue.delivery_consumer(
      [&](Delivery delivery) {
        held.add(std::move(delivery));
        throw std::runtime_error("too late");
      },
      options);
  consumer->start();
  REQUIRE(held.reaches(1));
  CHECK(eventually([&] { return !lines.find("threw after its delivery was settled or moved").empty(); }, kPatience));
  CHECK(accepts_ack(held.take()));
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(consumer->stop());
  CHECK(consumer->stats().nacked == 0);
}

}  // namespace
}  // namespace delayqueue
