// Deliveries that are settled later: from any thread, twice, never, too late.
#include "support/test.h"

#include <signal.h>
#include <unistd.h>

#include "support/answers.h"
#include "support/forked.h"
#include "support/limits.h"
#include "support/process.h"
#include "support/proxy.h"
#include "support/sanitized.h"
#include "support/wrong_clock.h"

namespace delayqueue {
namespace {

using test::Lines;

// Keeps the deliveries of a consumer. A consumer waits for them when it ends: clear() them first.
class Held {
 public:
  Handler keep() {
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
  const auto consumer = queue.consumer(held.keep(), quick(4));
  consumer->start();
  REQUIRE(held.reaches(4));
  CHECK(consumer->metrics().stats.running == 4);
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
  CHECK(eventually([&] { return consumer->metrics().stats.running == 0 && queue.inspector.counts().pending == 1; },
                   kPatience));
  CHECK(consumer->stop());
  CHECK(queue.state(ids[0]) == State::unknown);
  CHECK(queue.inspector.find(ids[1])->reason == "not now");
  CHECK(queue.inspector.find(ids[2])->reason == "no such order");
  CHECK(queue.state(ids[2]) == State::dead);
  CHECK(queue.state(ids[3]) == State::pending);
  CHECK(consumer->metrics().stats.acked == 1);
  CHECK(consumer->metrics().stats.nacked == 2);
  CHECK(consumer->metrics().stats.snoozed == 1);
}

TEST_CASE("delivery: a handler may settle it before it returns, and go on") {
  Queue queue;
  queue.producer.send_batch(numbers(500));
  std::atomic<int> returned{0};
  const auto consumer = queue.consumer(
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
  CHECK(consumer->metrics().stats.acked == 500);
  CHECK(consumer->metrics().stats.running == 0);
}

TEST_CASE("delivery: the first verdict of several counts, the others return false") {
  Queue queue;
  const std::string id = queue.send("x");
  Held held;
  const auto consumer = queue.consumer(held.keep());
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
  const auto consumer = queue.consumer(held.keep(), quick(20));
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
  CHECK(consumer->metrics().stats.acked == 20);
  CHECK(consumer->metrics().stats.stale == 0);
}

TEST_CASE("delivery: 64 threads settle different ones at the same time, while handlers go on") {
  constexpr std::size_t kThreads = 64;
  constexpr std::size_t kEach = 50;
  Queue queue;
  Held held;
  ConsumerOptions options = quick(500);
  options.tuning.threads = 2;
  const auto consumer = queue.consumer(held.keep(), options);
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
  CHECK(eventually([&] { return consumer->metrics().stats.acked == kThreads * kEach && queue.empty(); }, kPatience));
  CHECK(consumer->stop());
}

TEST_CASE("delivery: one that was moved from settles nothing and has no message; the other one does") {
  Queue queue;
  queue.producer.send_batch(numbers(2));
  Held held;
  ConsumerOptions options = quick(2);
  options.backoff = Backoff::fixed(1h);
  const auto consumer = queue.consumer(held.keep(), options);
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
  CHECK(eventually([&] { return consumer->metrics().stats.nacked == 1; }, kPatience));
  CHECK(std::move(second).ack());
  CHECK(consumer->stop());
  CHECK(consumer->metrics().stats.acked == 1);
}

// ---- Without a verdict ----------------------------------------------------------------------------------------------

TEST_CASE("delivery: one that is destroyed without a verdict is nacked, in the handler or later") {
  Queue queue;
  const std::string now = queue.send("now");
  const std::string later = queue.send("later");
  Held held;
  ConsumerOptions options = quick(2);
  options.backoff = Backoff::fixed(1h);
  const auto consumer = queue.consumer(
      [&](Delivery delivery) {
        if (delivery.message().payload() == "later") held.add(std::move(delivery));
      },
      options);
  consumer->start();
  REQUIRE(held.reaches(1));
  held.clear();
  CHECK(eventually([&] { return consumer->metrics().stats.nacked == 2; }, kPatience));
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
  const auto consumer = queue.consumer(held.keep());
  consumer->start();
  REQUIRE(held.reaches(1));
  consumer->request_stop();
  held.clear();
  CHECK(consumer->stop(kPatience));
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
  const auto consumer = queue.consumer(
      [](Delivery delivery) {
        const Delivery moved = std::move(delivery);  // destroyed by the exception, too
        if (moved.message().payload() == "text") throw std::runtime_error("stock service: timeout");
        throw 42;
      },
      options);
  consumer->start();
  CHECK(eventually([&] { return consumer->metrics().stats.nacked == 2; }, kPatience));
  CHECK(consumer->stop());
  CHECK(queue.inspector.find(text)->reason == "stock service: timeout");
  CHECK(queue.inspector.find(other)->reason == "42 (an int, no std::exception)");
}

TEST_CASE("delivery: a handler that throws after it has moved it elsewhere is logged, and the verdict counts") {
  Queue queue;
  queue.send("x");
  Held held;
  Lines lines;
  ConsumerOptions options = quick();
  options.logger = lines.logger();
  const auto consumer = queue.consumer(
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
  CHECK(consumer->metrics().stats.nacked == 0);
}

// ---- Places, threads and leases -------------------------------------------------------------------------------------

TEST_CASE("delivery: at most `concurrency` are outstanding, and the others are left to other consumers") {
  Queue queue;
  queue.producer.send_batch(numbers(10));
  Held held;
  ConsumerOptions options = quick(3);
  options.tuning.threads = 1;
  const auto consumer = queue.consumer(held.keep(), options);
  consumer->start();
  REQUIRE(held.reaches(3));
  for (std::size_t settled = 0; settled < 7; ++settled) {
    const auto counts_are_right = [&] {
      const Counts counts = queue.inspector.counts();
      return counts.unack == 3 && counts.ready == 7 - settled;
    };
    CHECK(eventually(counts_are_right, kPatience));
    std::this_thread::sleep_for(20ms);
    CHECK(counts_are_right());
    CHECK(held.size() == 3);
    CHECK(accepts_ack(held.take()));
    REQUIRE(held.reaches(3));
  }
  for (int i = 0; i < 3; ++i) CHECK(accepts_ack(held.take()));
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(consumer->stop());
}

TEST_CASE("delivery: leases are renewed until it is settled, over many leases") {
  constexpr std::size_t kCount = TEST_SANITIZED ? 300 : 5'000;  // more than one round trip renews
  Queue queue;
  queue.producer.send_batch(numbers(kCount));
  Held held;
  ConsumerOptions options = quick(kCount);
  options.lease = 600ms;
  const auto consumer = queue.consumer(held.keep(), options);
  consumer->start();
  REQUIRE(held.reaches(kCount));
  std::this_thread::sleep_for(6s);  // ten leases
  CHECK(held.size() == kCount);
  CHECK(queue.inspector.counts().unack == kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    Delivery delivery = held.take();
    CHECK_FALSE(delivery.message().lease_lost());
    CHECK(std::move(delivery).ack());
  }
  CHECK(eventually([&] { return consumer->metrics().stats.acked == kCount && queue.empty(); }, kPatience));
  CHECK(consumer->stop());
  CHECK(consumer->metrics().stats.stale == 0);
  CHECK(queue.inspector.counts().totals.retried == 0);
}

TEST_CASE("delivery: leases are renewed while it waits for ten minutes, and then its verdict counts") {
  if (!test::can_run_with_wrong_clock()) return;
  constexpr std::size_t kCount = 1'000;
  constexpr auto kStep = 5s;
  test::WrongClock clock;
  Queue queue(clock.server().url());
  test::Redis client(clock.server().socket());
  queue.producer.send_batch(numbers(kCount));
  // A process whose clocks jump together with the server's, so that the test need not wait for ten minutes.
  test::Process holder({"hold", queue.url, queue.name, std::to_string(kCount), "30000"}, clock.runner());
  REQUIRE(eventually([&] { return holder.said("begin").size() == kCount; }, kPatience));
  const auto seconds_left = [&] {  // of the lease that ends first
    const auto first = client.cmd({"ZRANGE", queue.base + ":unack", "0", "0", "WITHSCORES"}).strings();
    return std::stod(first.at(1)) - static_cast<double>(test::redis_time_us(client)) / 1e6;
  };
  for (auto waited = 0s; waited < 10min; waited += kStep) {
    clock.jump(kStep);
    REQUIRE(eventually([&] { return seconds_left() > 15; }, kPatience));
  }
  CHECK(queue.inspector.counts().unack == kCount);
  holder.kill(SIGTERM);
  CHECK(holder.wait() == 0);
  REQUIRE(holder.said("waited").size() == 1);
  CHECK(std::stoi(holder.said("waited").front()) >= 600);
  CHECK(holder.said("lost").empty());
  CHECK(holder.said("begin").size() == kCount);
  CHECK(queue.inspector.counts().totals.acked == kCount);
  CHECK(queue.inspector.counts().totals.retried == 0);
  CHECK(queue.empty(client));
}

std::size_t resident_bytes() {
  std::ifstream status("/proc/self/statm");
  std::size_t pages = 0, resident = 0;
  status >> pages >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST_CASE("delivery: 100,000 outstanding ones take no thread each, and little memory") {
  constexpr std::size_t kCount = TEST_SANITIZED ? 10'000 : 100'000;
  constexpr std::size_t kMostBytes = 2'000;  // each
  Queue queue;
  const std::vector<std::string> some = numbers(1'000);
  for (std::size_t sent = 0; sent < kCount; sent += some.size()) queue.producer.send_batch(some);
  Held held;
  ConsumerOptions options = quick(kCount);
  options.tuning.threads = 2;
  const std::size_t threads = test::threads_of_this_process();
  const std::size_t bytes = resident_bytes();
  const auto consumer = queue.consumer(held.keep(), options);
  consumer->start();
  REQUIRE(held.reaches(kCount));
  CHECK(test::threads_of_this_process() <= threads + 4);
  const std::size_t each = (resident_bytes() - bytes) / kCount;
  MESSAGE(each << " bytes for each outstanding delivery");
  if (!TEST_SANITIZED) CHECK(each < kMostBytes);
  CHECK(consumer->metrics().stats.running == kCount);
  CHECK(queue.inspector.counts().unack == kCount);
  std::vector<std::thread> settling;
  settling.reserve(4);
  for (int i = 0; i < 4; ++i) {
    settling.emplace_back([&] {
      for (std::size_t own = 0; own < kCount / 4; ++own) {
        if (!accepts_ack(held.take())) return;
      }
    });
  }
  for (std::thread& thread : settling) thread.join();
  CHECK(held.size() == 0);
  CHECK(eventually([&] { return consumer->metrics().stats.acked == kCount && queue.empty(); }, kPatience));
  CHECK(consumer->stop());
}

TEST_CASE("delivery: after processing_timeout the place is refilled; too many such ones stop the taking") {
  Queue queue;
  queue.producer.send_batch(numbers(20));
  Held held;
  Lines lines;
  ConsumerOptions options = quick(2);
  options.lease = 200ms;
  options.processing_timeout = 100ms;
  options.logger = lines.logger();
  const auto consumer = queue.consumer(held.keep(), options);
  consumer->start();
  REQUIRE(held.reaches(4));  // two have lost their leases
  CHECK(eventually([&] { return !lines.find("more than `concurrency`").empty(); }, kPatience));
  const std::size_t outstanding = held.size();
  CHECK(outstanding <= 4);
  std::this_thread::sleep_for(1s);
  CHECK(held.size() == outstanding);
  for (std::size_t i = 0; i < outstanding; ++i) {
    Delivery delivery = held.take();
    CHECK(delivery.message().lease_lost());
    CHECK(std::move(delivery).ack());
  }
  CHECK(held.reaches(2));  // the consumer goes on
  std::atomic<bool> stopped{false};
  std::thread dropping([&] {
    while (!stopped) {
      held.clear();
      std::this_thread::sleep_for(5ms);
    }
  });
  CHECK(consumer->stop(kPatience));
  stopped = true;
  dropping.join();
}

TEST_CASE("delivery: a handler that hangs longer than processing_timeout is replaced by another thread") {
  Queue queue;
  Gate gate;
  ConsumerOptions options = quick(2);
  options.tuning.threads = 1;
  options.lease = 200ms;
  options.processing_timeout = 100ms;
  std::atomic<int> handled{0};
  queue.send("hangs", with(&SendOptions::retries, 0));
  const auto consumer = queue.consumer(
      [&](Delivery delivery) {
        if (delivery.message().payload() == "hangs") gate.pass();
        handled += std::move(delivery).ack();
      },
      options);
  consumer->start();
  REQUIRE(eventually([&] { return consumer->metrics().stats.running == 1; }, kPatience));
  for (int i = 0; i < 5; ++i) queue.send("meanwhile");
  CHECK(eventually([&] { return handled == 5 && consumer->metrics().stats.running == 1; }, kPatience));
  gate.open();
  CHECK(eventually([&] { return consumer->metrics().stats.running == 0; }, kPatience));
  for (int i = 0; i < 5; ++i) queue.send("afterwards");
  CHECK(eventually([&] { return handled == 11; }, kPatience));
  CHECK(consumer->stop());
}

TEST_CASE(
    "delivery: a handler that has settled it, and hangs, is replaced by another thread after processing_timeout") {
  Queue queue;
  Gate gate;
  Lines lines;
  ConsumerOptions options = quick();
  options.tuning.threads = 1;
  options.processing_timeout = 100ms;
  options.logger = lines.logger();
  std::atomic<int> handled{0};
  queue.send("hangs");
  const auto consumer = queue.consumer(
      [&](Delivery delivery) {
        const bool hangs = delivery.message().payload() == "hangs";
        handled += std::move(delivery).ack();
        if (hangs) gate.pass();
      },
      options);
  consumer->start();
  REQUIRE(eventually([&] { return consumer->metrics().stats.acked == 1; }, kPatience));
  for (int i = 0; i < 5; ++i) queue.send("meanwhile");
  CHECK(eventually([&] { return handled == 6 && queue.empty(); }, kPatience));
  CHECK(eventually([&] { return consumer->metrics().stats.running == 1; }, kPatience));
  CHECK(lines.count(Severity::warning, "though its delivery is settled") == 1);
  gate.open();
  CHECK(eventually([&] { return consumer->metrics().stats.running == 0; }, kPatience));
  for (int i = 0; i < 5; ++i) queue.send("afterwards");
  CHECK(eventually([&] { return handled == 11; }, kPatience));
  CHECK(consumer->stop());
}

TEST_CASE("delivery: a handler that was replaced, and settles it after that, is not reported again") {
  Queue queue;
  Gate gate;
  Lines lines;
  ConsumerOptions options = quick(2);
  options.tuning.threads = 1;
  options.lease = 200ms;
  options.processing_timeout = 100ms;
  options.logger = lines.logger();
  std::atomic<bool> settled{false};
  queue.send("hangs", with(&SendOptions::retries, 0));
  const auto consumer = queue.consumer(
      [&](Delivery delivery) {
        while (!delivery.message().lease_lost()) std::this_thread::sleep_for(1ms);
        static_cast<void>(std::move(delivery).ack());
        settled = true;
        gate.pass();
      },
      options);
  consumer->start();
  REQUIRE(eventually([&] { return settled.load(); }, kPatience));
  std::this_thread::sleep_for(100ms);  // ten times the time between two searches for handlers that hang
  CHECK(lines.count(Severity::warning, "longer than processing_timeout") == 1);
  gate.open();
  CHECK(consumer->stop());
}

TEST_CASE("delivery: one whose handler has dropped it, and hangs, loses its lease after processing_timeout") {
  Queue queue;
  Gate gate;
  ConsumerOptions options = quick();
  options.lease = 200ms;
  options.processing_timeout = 100ms;
  std::atomic<int> handled{0};
  queue.send("hangs", with(&SendOptions::retries, 0));
  const auto consumer = queue.consumer(
      [&](Delivery delivery) {
        if (delivery.message().payload() == "hangs") {
          { const Delivery dropped = std::move(delivery); }
          gate.pass();
          return;
        }
        handled += std::move(delivery).ack();
      },
      options);
  consumer->start();
  REQUIRE(eventually([&] { return consumer->metrics().stats.running == 1; }, kPatience));
  queue.send("next");
  CHECK(eventually([&] { return handled == 1; }, kPatience));
  gate.open();
  CHECK(consumer->stop());
}

// ---- The end of the consumer ----------------------------------------------------------------------------------------

TEST_CASE("delivery: stop waits for outstanding ones, and settles their verdicts") {
  Queue queue;
  queue.producer.send_batch(numbers(50));
  Held held;
  const auto consumer = queue.consumer(held.keep(), quick(20));
  consumer->start();
  REQUIRE(held.reaches(20));
  std::thread settling([&] {
    std::this_thread::sleep_for(200ms);
    consumer->request_stop();  // if stop() has not begun yet, nothing is taken in place of these all the same
    for (int i = 0; i < 20; ++i) CHECK(accepts_ack(held.take()));
  });
  CHECK(consumer->stop(kPatience));
  settling.join();
  CHECK(held.size() == 0);
  CHECK(consumer->metrics().stats.acked == 20);
  CHECK(queue.inspector.counts().ready == 30);
  CHECK(queue.inspector.counts().unack == 0);
}

TEST_CASE("delivery: after a stop that returned false its calls return false; the message is delivered again") {
  Queue queue;
  const std::string id = queue.send("x");
  Held held;
  const auto consumer = queue.consumer(held.keep());
  consumer->start();
  REQUIRE(held.reaches(1));
  CHECK_FALSE(consumer->stop(100ms));
  std::atomic<int> called{0};
  CHECK_FALSE(held.take().settle(ack(), [&](Settlement) { ++called; }));
  CHECK(called == 0);
  CHECK(queue.inspector.find(id)->held);
  test::rewind(queue.base, 1h);
  Held after;
  const auto next = queue.consumer(after.keep());
  next->start();
  REQUIRE(after.reaches(1));
  Delivery again = after.take();
  CHECK(again.message().attempt() == 2);
  CHECK(std::move(again).ack());
  CHECK(next->stop());
  CHECK(queue.empty());
}

TEST_CASE("delivery: one that outlives its consumer settles nothing, and its message can be read") {
  Queue queue;
  queue.producer.send_batch(numbers(2));
  Held held;
  auto consumer = queue.consumer(held.keep(), quick(2));
  consumer->start();
  REQUIRE(held.reaches(2));
  CHECK_FALSE(consumer->stop(0ms));
  consumer.reset();
  Delivery delivery = held.take();
  CHECK_FALSE(delivery.message().payload().empty());
  CHECK_FALSE(std::move(delivery).ack());
  held.clear();  // destroys the other one
  CHECK(queue.inspector.counts().unack == 2);
}

TEST_CASE("request_stop: a thread that settles the deliveries need not wait; the callback gets the result of stop") {
  Queue queue;
  queue.producer.send_batch(numbers(5));
  Held held;
  const auto consumer = queue.consumer(held.keep(), quick(3));
  consumer->start();
  REQUIRE(held.reaches(3));
  std::atomic<int> clean{0};
  consumer->request_stop([&](bool result) { clean += result; }, kPatience);
  consumer->request_stop([&](bool result) { clean += result; }, kPatience);
  consumer->request_stop();
  for (int i = 0; i < 3; ++i) CHECK(accepts_ack(held.take()));
  CHECK(eventually([&] { return clean == 2; }, kPatience));
  CHECK(consumer->stop());
  CHECK(consumer->metrics().stats.acked == 3);
  CHECK(queue.inspector.counts().ready == 2);
}

TEST_CASE("request_stop: the callback gets false if a delivery is not settled in time") {
  Queue queue;
  queue.send("x");
  Held held;
  const auto consumer = queue.consumer(held.keep());
  consumer->start();
  REQUIRE(held.reaches(1));
  std::atomic<int> result{-1};
  consumer->request_stop([&](bool clean) { result = clean ? 1 : 0; }, 100ms);
  CHECK(eventually([&] { return result == 0; }, kPatience));
  CHECK_FALSE(accepts_ack(held.take()));
}

TEST_CASE("request_stop: a handler may call it, run returns then, and the callback may destroy the consumer") {
  Queue queue;
  queue.send("x");
  std::atomic<bool> destroyed{false};
  std::atomic<bool> result{false};
  std::unique_ptr<Consumer> consumer;
  consumer = std::make_unique<Consumer>(
      queue.url, queue.name,
      [&](Delivery delivery) {
        consumer->request_stop(
            [&](bool clean) {
              result = clean;
              consumer.reset();
              destroyed = true;
            },
            kPatience);
        CHECK(std::move(delivery).ack());
      },
      quick());
  consumer->start();
  CHECK(eventually([&] { return destroyed.load(); }, kPatience));
  CHECK(result);
  CHECK(queue.empty());

  queue.send("y");
  Consumer running(
      queue.url, queue.name,
      [&](Delivery delivery) {
        running.request_stop();
        CHECK(std::move(delivery).ack());
      },
      quick());
  running.run();
  CHECK(running.metrics().stats.acked == 1);
}

TEST_CASE("delivery: a consumer may be destroyed by its handler, which settles it afterwards") {
  Queue queue;
  queue.send("x");
  std::atomic<bool> accepted{false};
  std::unique_ptr<Consumer> consumer;
  consumer = std::make_unique<Consumer>(queue.url, queue.name, [&](Delivery delivery) {
    consumer.reset();
    accepted = std::move(delivery).ack();
  });
  consumer->start();
  CHECK(eventually([&] { return accepted && queue.empty(); }, kPatience));
}

TEST_CASE("delivery: in a fork it settles nothing, and the parent's one is not affected") {
  Queue queue;
  queue.send("x");
  Held held;
  const auto consumer = queue.consumer(held.keep());
  consumer->start();
  REQUIRE(held.reaches(1));
  const std::shared_ptr<Delivery> shared = held.take().share();
  CHECK(test::in_child([&] { return !std::move(*shared).ack(); }) == 0);
  CHECK(std::move(*shared).ack());
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(consumer->stop());
}

TEST_CASE("delivery: a verdict while Redis is away is settled after the reconnect") {
  Queue queue;
  queue.send("x");
  test::FaultProxy proxy(test::server().socket());
  Held held;
  Consumer consumer(proxy.url(), queue.name, held.keep(), quick());
  consumer.start();
  REQUIRE(held.reaches(1));
  proxy.refuse(true);
  proxy.cut();
  CHECK(accepts_ack(held.take()));
  std::this_thread::sleep_for(100ms);
  proxy.refuse(false);
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(consumer.stop());
}

// ---- Callbacks ------------------------------------------------------------------------------------------------------

TEST_CASE("settle: the callback is called when Redis has confirmed the verdict, and stop waits for it") {
  Queue queue;
  queue.send("x");
  Held held;
  const auto consumer = queue.consumer(held.keep());
  consumer->start();
  REQUIRE(held.reaches(1));
  std::atomic<bool> gone{false};
  std::atomic<int> result{-1};
  CHECK(held.take().settle(ack(), [&](Settlement settlement) {
    gone = Inspector(queue.url, queue.name).counts().unack == 0;
    std::this_thread::sleep_for(200ms);
    result = static_cast<int>(settlement);
  }));
  CHECK(consumer->stop(kPatience));
  CHECK(result == static_cast<int>(Settlement::settled));
  CHECK(gone);
}

TEST_CASE("settle: the callback gets `stale` if the verdict came too late") {
  Queue queue;
  const std::string id = queue.send("x");
  Held held;
  const auto consumer = queue.consumer(held.keep());
  consumer->start();
  REQUIRE(held.reaches(1));
  CHECK(queue.admin.bury({id}, {"an order of the test", HeldMessages::force}).size() == 1);
  std::atomic<int> result{-1};
  CHECK(held.take().settle(nack(), [&](Settlement settlement) { result = static_cast<int>(settlement); }));
  CHECK(consumer->stop(kPatience));
  CHECK(result == static_cast<int>(Settlement::stale));
}

TEST_CASE("settle: the callback gets `in_doubt` if the consumer has ended before Redis confirmed the verdict") {
  Queue queue;
  queue.send("x");
  test::FaultProxy proxy(test::server().socket());
  Held held;
  auto consumer = std::make_unique<Consumer>(proxy.url(), queue.name, held.keep(), quick());
  consumer->start();
  REQUIRE(held.reaches(1));
  proxy.black_hole(true);
  std::atomic<int> result{-1};
  CHECK(held.take().settle(ack(), [&](Settlement settlement) { result = static_cast<int>(settlement); }));
  CHECK_FALSE(consumer->stop(300ms));
  consumer.reset();
  CHECK(result == static_cast<int>(Settlement::in_doubt));
}

// A consumer that has written a verdict which did not reach Redis.
struct WithoutAnswer {
  Queue queue;
  const std::string id = queue.send("x");
  test::FaultProxy proxy{test::server().socket()};
  Held held;
  std::atomic<int> result{-1};
  Consumer consumer{proxy.url(), queue.name, held.keep(), options()};

  explicit WithoutAnswer(const Verdict& verdict) {
    consumer.start();
    REQUIRE(held.reaches(1));
    proxy.black_hole_from(id);  // no other request names it
    CHECK(held.take().settle(verdict, [&](Settlement settlement) { result = static_cast<int>(settlement); }));
    CHECK(eventually([&] { return consumer.metrics().stats.errors > 0; }, kPatience));
  }

  static ConsumerOptions options() {
    ConsumerOptions options = quick();
    options.lease = 1h;
    return options;
  }
};

TEST_CASE("settle: the callback gets `in_doubt` if the answer is lost and another consumer has the message then") {
  WithoutAnswer scene(reject("no"));
  test::redis().cmd({"ZADD", scene.queue.base + ":unack", "9999999999.000123", scene.id});  // that consumer's lease
  scene.proxy.black_hole(false);
  CHECK(eventually([&] { return scene.result != -1; }, kPatience));
  CHECK(scene.result == static_cast<int>(Settlement::in_doubt));
  CHECK(scene.queue.inspector.counts().dead == 0);
}

TEST_CASE("settle: an ack whose answer is lost is settled, also if Redis refuses its repeat at first") {
  WithoutAnswer scene(ack());
  const std::string unack = scene.queue.base + ":unack";
  // What the ack does if it has run, and a key that its repeat cannot read.
  test::redis().cmd({"DEL", unack, scene.queue.base + ":msg:" + scene.id});
  test::redis().cmd({"SET", unack, "no sorted set"});
  const auto errors = scene.consumer.metrics().stats.errors;
  scene.proxy.black_hole(false);
  // WRONGTYPE, of takes as well; from the second pause on each round of requests begins with the ack.
  CHECK(eventually([&] { return scene.consumer.metrics().stats.errors > errors + 4; }, kPatience));
  CHECK(scene.result == -1);
  test::redis().cmd({"DEL", unack});
  CHECK(eventually([&] { return scene.result != -1; }, kPatience));
  CHECK(scene.result == static_cast<int>(Settlement::settled));
}

TEST_CASE("settle: a callback that stop calls, because the verdict came too late, may destroy the consumer") {
  Queue queue;
  queue.producer.send_batch(numbers(2));
  test::FaultProxy proxy(test::server().socket());
  Held held;
  ConsumerOptions options = quick(2);
  options.lease = 1h;
  options.processing_timeout = 50ms;
  auto consumer = std::make_unique<Consumer>(proxy.url(), queue.name, held.keep(), options);
  consumer->start();
  REQUIRE(held.reaches(2));
  Delivery first = held.take();
  std::optional<Delivery> second = held.take();
  REQUIRE(eventually([&] { return first.message().lease_lost() && second->message().lease_lost(); }, kPatience));
  proxy.black_hole(true);
  std::this_thread::sleep_for(200ms);
  CHECK(std::move(first).ack());  // then requests of each kind wait for an answer
  std::this_thread::sleep_for(200ms);
  std::atomic<int> result{-1};
  CHECK(std::move(*second).settle(ack(), [&](Settlement settlement) {
    result = static_cast<int>(settlement);
    consumer.reset();
  }));
  second.reset();
  CHECK_FALSE(consumer->stop(300ms));
  consumer.reset();  // only if the verdict has reached the consumer's thread after all
  CHECK(result == static_cast<int>(Settlement::in_doubt));
}

TEST_CASE("settle: an exception of the callback is logged") {
  Queue queue;
  queue.send("x");
  Held held;
  Lines lines;
  ConsumerOptions options = quick();
  options.logger = lines.logger();
  const auto consumer = queue.consumer(held.keep(), options);
  consumer->start();
  REQUIRE(held.reaches(1));
  CHECK(held.take().settle(ack(), [](Settlement) { throw std::runtime_error("no idea"); }));
  CHECK(
      eventually([&] { return !lines.find("the callback of a settled delivery threw: no idea").empty(); }, kPatience));
  CHECK(consumer->stop());
}

TEST_CASE("settle: the callback may destroy the consumer") {
  Queue queue;
  queue.send("x");
  Held held;
  std::atomic<bool> destroyed{false};
  auto consumer = std::make_unique<Consumer>(queue.url, queue.name, held.keep(), quick());
  consumer->start();
  REQUIRE(held.reaches(1));
  CHECK(held.take().settle(ack(), [&](Settlement) {
    consumer.reset();
    destroyed = true;
  }));
  CHECK(eventually([&] { return destroyed.load(); }, kPatience));
  CHECK(queue.empty());
}

TEST_CASE("settle: the callback may own the consumer") {
  Queue queue;
  queue.send("x");
  Held held;
  const auto used = std::make_shared<int>(0);  // by the consumer, until it is destroyed
  auto consumer = std::make_shared<Consumer>(
      queue.url, queue.name, [&held, used](Delivery delivery) { held.add(std::move(delivery)); }, quick());
  consumer->start();
  REQUIRE(held.reaches(1));
  CHECK(held.take().settle(ack(), [own = std::move(consumer)](Settlement) {}));
  CHECK(eventually([&] { return used.use_count() == 1; }, kPatience));
  CHECK(queue.empty());
}

}  // namespace
}  // namespace delayqueue
