// The verdict pause_queue(), for handlers whose API asks for a pause.
#include "support/test.h"

#include "support/partitioned.h"
#include "support/proxy.h"

namespace delayqueue {
namespace {

// When handlers began, and when the first one asked for a pause.
class Api {
 public:
  using Clock = std::chrono::steady_clock;

  // Answers 429 until `calls` calls were made, then pauses of `pause`.
  Api(std::size_t refuses, milliseconds pause) : refuses_(refuses), pause_(pause) {}

  Verdict call(const Message& message) {
    const Clock::time_point now = Clock::now();
    std::this_thread::sleep_for(5ms);
    const std::lock_guard lock(mutex_);
    calls_.push_back(now);
    attempts_.push_back(message.attempt());
    if (calls_.size() > refuses_) return ack();
    if (!refused_at_) refused_at_ = Clock::now();
    return pause_queue(pause_, "429 Too Many Requests");
  }

  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return calls_.size();
  }
  bool has_refused() const {
    const std::lock_guard lock(mutex_);
    return refused_at_.has_value();
  }
  int most_attempts() const {
    const std::lock_guard lock(mutex_);
    return *std::max_element(attempts_.begin(), attempts_.end());
  }
  // Calls that began while the API was not to be called: later than `grace` after it had asked for that.
  std::size_t too_early(milliseconds grace) const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(std::count_if(calls_.begin(), calls_.end(), [&](Clock::time_point at) {
      return at > *refused_at_ + grace && at < *refused_at_ + pause_ - 5ms;
    }));
  }

 private:
  const std::size_t refuses_;
  const milliseconds pause_;
  mutable std::mutex mutex_;
  std::vector<Clock::time_point> calls_;
  std::vector<int> attempts_;
  std::optional<Clock::time_point> refused_at_;
};

bool is_idle(Queue& queue) {
  const Counts counts = queue.inspector.counts();
  return counts.ready + counts.unack + counts.retry + counts.pending == 0;
}

TEST_CASE("pause_queue R6: no handler is called until the time is over, and nothing is lost or spends a retry") {
  for (const std::size_t prefetch : {std::size_t{0}, std::size_t{1000}}) {
    CAPTURE(prefetch);
    Queue queue;
    queue.producer.send_batch(numbers(300), with(&SendOptions::retries, 0));
    Queue other;
    Ledger elsewhere;
    Api api(1, 3s);
    ConsumerOptions options = quick(8);
    options.tuning.prefetch = prefetch;
    const Client client(queue.url);
    std::vector<std::unique_ptr<Consumer>> consumers;
    for (int i = 0; i < 2; ++i) {
      std::vector<Subscription> subscriptions;
      subscriptions.push_back({QueueName(queue.name), [&](const Message& message) { return api.call(message); }});
      subscriptions.push_back({QueueName(other.name), elsewhere.watch()});
      consumers.push_back(std::make_unique<Consumer>(client, std::move(subscriptions), options));
      consumers.back()->start();
    }
    CHECK(eventually([&] { return queue.inspector.paused().has_value(); }, kPatience));
    const auto pause = queue.inspector.paused();
    REQUIRE(pause);
    CHECK(pause->reason == "held off: 429 Too Many Requests");
    CHECK(pause->until);
    CHECK(pause->who.empty());
    CHECK_FALSE(pause->since);
    other.send("x");
    CHECK(elsewhere.settles(1));
    CHECK(queue.inspector.paused());  // the other queue was not held off
    CHECK(eventually([&] { return is_idle(queue); }, 4 * kPatience));
    CHECK(api.too_early(1500ms) == 0);
    CHECK(api.most_attempts() == 1);
    CHECK(queue.inspector.counts().totals.acked == 300);
    CHECK(queue.inspector.counts().dead == 0);
    std::uint64_t pauses = 0;
    for (const auto& consumer : consumers) {
      CHECK(consumer->stop());
      const ConsumerMetrics metrics = consumer->metrics();
      pauses += metrics.stats.queue_pauses;
      CHECK(metrics.queues[0].handler_time_of(Verdict::Kind::pause_queue).count() ==
            metrics.queues[0].stats.queue_pauses);
    }
    CHECK(pauses == 1);
  }
}

TEST_CASE("pause_queue: messages that the consumer holds in advance are given back, and not handled") {
  Queue queue;
  std::atomic<int> handled{0};
  std::atomic<bool> fast{true};
  const auto consumer = queue.consumer(
      [&](const Message&) {
        ++handled;
        return fast ? ack() : pause_queue(1h, "quota");
      },
      quick(1));
  consumer->start();
  queue.producer.send_batch(numbers(2000));  // fast handlers: now it takes in advance
  CHECK(eventually([&] { return is_idle(queue); }, kPatience));
  fast = false;
  const int before = handled;
  queue.producer.send_batch(numbers(500));
  const auto has_given_back = [&] {
    const Counts counts = queue.inspector.counts();
    return consumer->metrics().stats.queue_pauses > 0 && counts.ready == 500 && counts.unack == 0;
  };
  CHECK(eventually(has_given_back, kPatience));
  CHECK(handled - before <= 3);
  CHECK(consumer->metrics().stats.prefetched == 0);
  std::vector<std::string> order;
  for (const MessageInfo& info : queue.inspector.list(State::ready, with(&ListOptions::limit, 500)).messages) {
    order.push_back(info.payload);
    CHECK(info.deliveries == 0);
    CHECK(info.retries == 3);
  }
  std::sort(order.begin(), order.end());
  std::vector<std::string> expected = numbers(500);
  std::sort(expected.begin(), expected.end());
  CHECK(order == expected);
  CHECK(consumer->stop());
}

TEST_CASE("pause_queue: a pause of an operator stays as it is, and an operator ends that of a handler") {
  Queue queue;
  queue.producer.send_batch(numbers(2));
  Gate gate;
  std::atomic<int> calls{0};
  const auto consumer = queue.consumer(
      [&](const Message&) {
        if (++calls == 1) gate.pass();
        return calls <= 2 ? pause_queue(1h, "429") : ack();
      },
      quick(1));
  consumer->start();
  CHECK(eventually([&] { return calls == 1; }, kPatience));
  PauseOptions maintenance;
  maintenance.reason = "maintenance";
  maintenance.who = "anna@host7";
  queue.admin.pause(maintenance);
  gate.open();
  CHECK(eventually([&] { return consumer->metrics().stats.queue_pauses == 1; }, kPatience));
  auto pause = queue.inspector.paused();
  REQUIRE(pause);
  CHECK(pause->reason == "maintenance");
  CHECK(pause->who == "anna@host7");
  CHECK_FALSE(pause->until);
  queue.admin.resume();
  CHECK(eventually([&] { return consumer->metrics().stats.queue_pauses == 2; }, kPatience));
  pause = queue.inspector.paused();
  REQUIRE(pause);
  CHECK(pause->reason == "held off: 429");
  queue.admin.resume();
  CHECK(eventually([&] { return is_idle(queue); }, kPatience));
  CHECK_FALSE(queue.inspector.paused());
  CHECK(consumer->stop());
}

TEST_CASE("pause_queue: after a pause of an operator that has run out, the pause of a handler is not that operator's") {
  Queue queue;
  PauseOptions brief;
  brief.duration = 1ms;
  brief.who = "anna@host7";
  queue.admin.pause(brief);
  queue.send("x");
  const auto consumer = queue.consumer([](const Message&) { return pause_queue(1h); }, quick(1));
  consumer->start();
  CHECK(eventually([&] { return consumer->metrics().stats.queue_pauses == 1; }, kPatience));
  const auto pause = queue.inspector.paused();
  REQUIRE(pause);
  CHECK(pause->reason == "held off: by a handler");
  CHECK(pause->who.empty());
  CHECK_FALSE(pause->since);
  CHECK(consumer->stop());
}

TEST_CASE("pause_queue: a verdict whose lease is lost pauses nothing") {
  Queue queue;
  queue.send("x");
  const auto consumer = queue.consumer(
      [&](const Message& message) {
        test::redis().cmd({"ZADD", queue.base + ":unack", "9999999999.000123", message.id()});  // another one has it
        return pause_queue(1h, "429");
      },
      quick(1));
  consumer->start();
  CHECK(eventually([&] { return consumer->metrics().stats.stale == 1; }, kPatience));
  CHECK_FALSE(queue.inspector.paused());
  CHECK(consumer->metrics().stats.queue_pauses == 0);
  CHECK(consumer->stop());
}

TEST_CASE("pause_queue: a verdict that is sent again after its answer was lost does not pause a second time") {
  Queue queue;
  test::FaultProxy proxy(test::server().socket());
  queue.send("x");
  ConsumerOptions options = quick(1);
  options.tuning.poll_interval = 10min;  // no other answer is awaited when the verdict is sent
  Gate gate;
  std::atomic<int> calls{0};
  Consumer consumer(
      proxy.url(), queue.name,
      [&](const Message&) {
        if (++calls > 1) return ack();
        gate.pass();
        return pause_queue(1h, "429");
      },
      options);
  consumer.start();
  CHECK(eventually([&] { return calls == 1; }, kPatience));
  proxy.hold_replies(true);
  gate.open();
  CHECK(eventually([&] { return queue.inspector.paused().has_value(); }, kPatience));
  queue.admin.resume();
  proxy.cut();
  proxy.hold_replies(false);
  CHECK(eventually([&] { return calls == 2 && is_idle(queue); }, kPatience));
  CHECK_FALSE(queue.inspector.paused());
  CHECK(consumer.stop());
}

TEST_CASE("pause_queue: the time counts from the verdict on, also if Redis is away until it is over") {
  Queue queue;
  test::FaultProxy proxy(test::server().socket());
  queue.send("x");
  Gate gate;
  std::atomic<int> calls{0};
  Consumer consumer(
      proxy.url(), queue.name,
      [&](const Message&) {
        if (++calls > 1) return ack();
        gate.pass();
        return pause_queue(2s, "429");
      },
      quick(1));
  consumer.start();
  CHECK(eventually([&] { return calls == 1; }, kPatience));
  proxy.refuse(true);
  proxy.cut();
  gate.open();
  std::this_thread::sleep_for(2500ms);
  CHECK(calls == 1);
  proxy.refuse(false);
  CHECK(eventually([&] { return consumer.metrics().stats.queue_pauses == 1; }, kPatience));
  CHECK_FALSE(queue.inspector.paused());
  CHECK(eventually([&] { return calls == 2 && is_idle(queue); }, kPatience));
  CHECK(consumer.stop());
}

TEST_CASE("pause_queue: only the partition of the message is paused, also a new partition is not") {
  test::Partitioned queue(2);
  std::map<unsigned, int> calls;
  std::mutex mutex;
  const auto consumer = queue.consumer(
      [&](const Message& message) {
        const std::lock_guard lock(mutex);
        const unsigned partition = message.payload() == "0" ? 0 : 1;
        ++calls[partition];
        return partition == 0 ? pause_queue(1h, "429") : ack();
      },
      quick(2));
  consumer->start();
  queue.to.send(0, "0");
  CHECK(eventually([&] { return queue.inspector.paused().has_value(); }, kPatience));
  for (int i = 0; i < 20; ++i) queue.to.send(1, "1");
  const auto done = [&](unsigned partition, int most) {
    const std::lock_guard lock(mutex);
    return calls[partition] == most;
  };
  CHECK(eventually([&] { return done(1, 20); }, kPatience));
  static_cast<void>(queue.admin.set_partitions(4));
  CHECK(test::redis().cmd({"EXISTS", queue.to.keys(1).paused, queue.to.keys(2).paused, queue.to.keys(3).paused}) == 0);
  for (int i = 0; i < 5; ++i) queue.to.send(3, "3");
  CHECK(eventually([&] { return done(1, 25); }, kPatience));
  CHECK(done(0, 1));
  queue.admin.resume();
  CHECK(eventually([&] { return !done(0, 1); }, kPatience));
  CHECK(consumer->stop());
}

TEST_CASE("pause_queue: a Delivery has this verdict, too; the pause is logged once, with the reason escaped and cut") {
  Queue queue;
  queue.producer.send_batch(numbers(2));
  std::mutex mutex;
  std::vector<std::string> lines;
  ConsumerOptions options = quick(2);
  options.logger = [&](const LogEntry& entry) {
    const std::lock_guard lock(mutex);
    if (entry.severity != Severity::debug) lines.push_back(entry.text);
  };
  Gate both;
  std::atomic<int> began{0};
  const auto consumer = queue.consumer(
      [&](Delivery delivery) {
        if (++began == 2) both.open();
        std::thread([&both, shared = std::move(delivery).share()] {
          both.pass();
          std::move(*shared).pause_queue(1h, "a\n\x1b[31m" + std::string(5000, 'x'));
        }).detach();
      },
      options);
  consumer->start();
  CHECK(eventually([&] { return consumer->metrics().stats.queue_pauses == 2; }, kPatience));
  const auto pause = queue.inspector.paused();
  REQUIRE(pause);
  CHECK(pause->reason.size() == 10 + 1024);
  CHECK(consumer->stop());
  const std::lock_guard lock(mutex);
  REQUIRE(lines.size() == 1);
  CHECK(has(lines.front(), "paused the queue for 3600000 ms: held off: a\\x0a\\x1b[31mxxx"));
}

TEST_CASE(
    "pause_queue: an impossible time is refused, and so is the mark of such a pause in the reason of another one") {
  CHECK(thrown([] { static_cast<void>(pause_queue(-1ms)); }) ==
        "invalid_argument: after: -1 ms; expected 0 to a hundred years");
  CHECK_THROWS_AS(static_cast<void>(pause_queue(milliseconds::max())), std::invalid_argument);
  Queue queue;
  PauseOptions options;
  options.reason = "held off: me";
  CHECK_THROWS_AS(queue.admin.pause(options), std::invalid_argument);
  CHECK(queue.empty());
  queue.send("x");
  std::atomic<int> calls{0};
  const auto consumer =
      queue.consumer([&](const Message&) { return ++calls < 4 ? pause_queue(0ms, "now") : ack(); }, quick(1));
  consumer->start();
  CHECK(eventually([&] { return is_idle(queue) && calls == 4; }, kPatience));
  CHECK(consumer->stop());
}

}  // namespace
}  // namespace delayqueue
