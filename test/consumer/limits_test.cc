// The limits of a queue, as its consumers keep them together.
#include "support/test.h"

#include "store/keys.h"
#include "support/answers.h"

namespace delayqueue {
namespace {

QueueLimits running_limit(std::uint64_t running) {
  QueueLimits limits;
  limits.running = running;
  return limits;
}

QueueLimits rate_limit(const Rate& rate) {
  QueueLimits limits;
  limits.rate = rate;
  return limits;
}

// Sets other limits than those that are there.
QueueLimits replace(Queue& queue, QueueLimits limits) {
  limits.generation = queue.inspector.limits().generation;
  const auto now = queue.admin.set_limits(limits);
  REQUIRE(now);
  REQUIRE(now->generation > limits.generation);
  return *now;
}

// Nothing of a message is left. The limits are.
bool is_handled(Queue& queue) {
  return test::redis().cmd({"EXISTS", queue.base + ":retry:cnt", queue.base + ":unack"}) == 0;
}

std::size_t calls(const std::string& command) {
  const std::string line = test::info("commandstats", "cmdstat_" + command);
  const std::size_t at = line.find("calls=");
  return at == std::string::npos ? 0 : std::stoull(line.substr(at + 6));
}

// When messages were delivered.
class Times {
 public:
  void note() {
    const std::lock_guard lock(mutex_);
    times_.push_back(std::chrono::steady_clock::now());
  }
  std::vector<std::chrono::steady_clock::time_point> get() const {
    const std::lock_guard lock(mutex_);
    return times_;
  }
  std::size_t size() const { return get().size(); }

 private:
  mutable std::mutex mutex_;
  std::vector<std::chrono::steady_clock::time_point> times_;
};

// Consumers that have started, and note when their handlers begin.
std::vector<ConsumerPtr> noting_consumers(Queue& queue, int count, Times& times, const ConsumerOptions& options) {
  std::vector<ConsumerPtr> consumers;
  for (int i = 0; i < count; ++i) {
    consumers.push_back(queue.consumer(
        [&](const Message&) {
          times.note();
          return ack();
        },
        options));
  }
  for (const auto& consumer : consumers) consumer->start();
  return consumers;
}

TEST_CASE("limits R1: a consumer finds limits that are set while it runs, and goes back when they are removed") {
  Queue queue;
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), quick(4));
  consumer->start();
  queue.send("a");
  CHECK(eventually([&] { return is_handled(queue); }, kPatience));
  replace(queue, running_limit(2));
  for (int i = 0; i < 20; ++i) queue.send("b");
  CHECK(eventually([&] { return ledger.attempts("b").size() == 20 && is_handled(queue); }, kPatience));
  CHECK(queue.inspector.counts().in_flight == 0);
  replace(queue, {});
  CHECK(test::redis().cmd({"EXISTS", queue.base + ":limits", queue.base + ":running"}) == 0);
  for (int i = 0; i < 20; ++i) queue.send("c");
  CHECK(eventually([&] { return ledger.attempts("c").size() == 20 && is_handled(queue); }, kPatience));
  CHECK(consumer->stop());
}

// Redis is sampled from outside: the limit holds at every moment, not only in the counts of the library.
TEST_CASE("limits R3: several consumers never have more messages in flight than the limit, and use all of it") {
  Queue queue;
  replace(queue, running_limit(5));
  std::atomic<int> now{0}, most{0};
  std::atomic<std::size_t> handled{0};
  const auto handler = [&](const Message& message) {
    const int running = ++now;
    for (int seen = most; running > seen && !most.compare_exchange_weak(seen, running);) {
    }
    std::this_thread::sleep_for(3ms);
    --now;
    if (message.attempt() == 1 && message.payload() == "nack") return nack(1ms, "again");
    ++handled;
    return ack();
  };
  std::vector<std::string> payloads(200, "ack");
  for (std::size_t i = 0; i < payloads.size(); i += 7) payloads[i] = "nack";
  queue.producer.send_batch(payloads);
  std::vector<ConsumerPtr> consumers;
  for (int i = 0; i < 4; ++i) consumers.push_back(queue.consumer(handler, quick(8)));
  for (const auto& consumer : consumers) consumer->start();
  std::size_t sampled = 0;
  CHECK(eventually(
      [&] {
        std::size_t leases = 0;
        const auto all = test::redis().cmd({"ZRANGE", queue.base + ":unack", "0", "-1", "WITHSCORES"}).strings();
        for (std::size_t i = 1; i < all.size(); i += 2) {
          if (std::llround(std::strtod(all[i].c_str(), nullptr) * 1e6) % 1000 != 0) ++leases;
        }
        sampled = std::max(sampled, leases);
        return handled == payloads.size() && is_handled(queue);
      },
      kPatience));
  CHECK(sampled <= 5);
  CHECK(most <= 5);
  CHECK(most >= 2);
  for (const auto& consumer : consumers) CHECK(consumer->stop());
  CHECK(test::redis().cmd({"EXISTS", queue.base + ":running"}) == 0);
}

TEST_CASE("limits R3: a place that a killed consumer leaves comes free when its lease has ended") {
  Queue queue;
  replace(queue, running_limit(1));
  queue.send("x");
  {
    // A lease of a consumer that is gone.
    const auto delivery = test::redis().cmd({"LPOP", queue.base + ":ready"}).text;
    const double end = static_cast<double>(test::redis_time_us(test::redis())) / 1e6 + 0.3000005;
    test::redis().cmd({"ZADD", queue.base + ":unack", std::to_string(end), delivery});
    test::redis().cmd({"ZADD", queue.base + ":running", std::to_string(end), delivery});
  }
  queue.send("y");
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), quick(2));
  consumer->start();
  CHECK(eventually([&] { return is_handled(queue); }, kPatience));
  CHECK(ledger.attempts("x").size() + ledger.attempts("y").size() == 2);
  CHECK(consumer->stop());
}

TEST_CASE("limits R2: several consumers together never exceed the rate in any window, and use most of it") {
  Queue queue;
  replace(queue, rate_limit({100, 1s, 20}));
  queue.producer.send_batch(std::vector<std::string>(260, "x"));
  Times times;
  const auto consumers = noting_consumers(queue, 4, times, quick(4));
  CHECK(eventually([&] { return times.size() >= 200; }, kPatience));
  for (const auto& consumer : consumers) CHECK(consumer->stop());
  // By the times of the leases no window can exceed it (store/limits_test). A handler may begin later than its lease:
  // messages of an earlier second then come into a later one, at most one that waits for each consumer, and the burst.
  auto all = times.get();
  std::sort(all.begin(), all.end());
  const double seconds = std::chrono::duration<double>(all.back() - all.front()).count();
  CHECK(static_cast<double>(all.size()) <= 20 + 100 * seconds + 20);
  CHECK(seconds >= 1.5);
}

TEST_CASE("limits R5, R11: consumers that are held back wait without asking, and take what the limits allow") {
  Queue queue;
  replace(queue, rate_limit({1, 1h, 1}));
  queue.producer.send_batch(std::vector<std::string>(50, "x"));
  Times times;
  ConsumerOptions options = quick(4);
  options.tuning.poll_interval = 500ms;
  const auto consumers = noting_consumers(queue, 3, times, options);
  REQUIRE(eventually([&] { return times.size() == 1; }, kPatience));
  std::this_thread::sleep_for(500ms);
  const std::size_t before = calls("evalsha");
  std::this_thread::sleep_for(2s);
  // Each consumer polls twice a second, with a few scripts each time.
  CHECK(calls("evalsha") - before <= 120);
  CHECK(times.size() == 1);
  CHECK(queue.inspector.counts().ready == 49);
  CHECK(queue.inspector.counts().next_delivery > 0us);
  replace(queue, {});  // wakes them
  CHECK(eventually([&] { return is_handled(queue); }, kPatience));
  CHECK(times.size() == 50);
  for (const auto& consumer : consumers) CHECK(consumer->stop());
}

// Each of these waits is about as long as a step of the consumer, so it often ends between the plan and the sleep.
TEST_CASE("limits R8: a consumer that watches misses no token, and none of its waits lasts until the next poll") {
  Queue queue;
  replace(queue, rate_limit({1000, 1s, 2}));
  queue.producer.send_batch(std::vector<std::string>(2000, "x"));
  Times times;
  ConsumerOptions options = quick(4);
  options.tuning.poll_interval = 10min;
  const auto consumers = noting_consumers(queue, 1, times, options);
  CHECK(eventually([&] { return times.size() == 2000; }, kPatience));
  CHECK(consumers.front()->stop());
  // A wait that the consumer has missed ends with its upkeep, which follows every 2 s.
  const auto began = times.get();
  int missed = 0;
  for (std::size_t i = 1; i < began.size(); ++i) missed += began[i] - began[i - 1] > 300ms ? 1 : 0;
  CHECK(missed <= 2);
}

TEST_CASE("limits R5: a consumer takes for free workers, and holds at most one message that waits") {
  Queue queue;
  replace(queue, running_limit(100));
  queue.producer.send_batch(std::vector<std::string>(40, "x"));
  Gate gate;
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch([&](const Message&) {
    gate.pass();
    return ack();
  }),
                                       quick(3));
  consumer->start();
  REQUIRE(eventually([&] { return ledger.running() == 3; }, kPatience));
  for (int poll = 0; poll < 30; ++poll) CHECK(queue.inspector.counts().unack <= 4);
  gate.open();
  CHECK(eventually([&] { return is_handled(queue); }, kPatience));
  CHECK(consumer->stop());
}

TEST_CASE("limits R3: a limit that is set while more messages are in flight stops nothing when these have ended") {
  Queue queue;
  Gate gate;
  Ledger ledger;
  ConsumerOptions options = quick(200);
  options.lease = 2min;  // none ends during the test
  options.processing_timeout = 2min;
  std::vector<ConsumerPtr> consumers;
  for (int i = 0; i < 2; ++i) {
    consumers.push_back(queue.consumer(ledger.watch([&](const Message&) {
      gate.pass();
      return ack();
    }),
                                       options));
  }
  queue.producer.send_batch(std::vector<std::string>(1000, "x"));
  for (const auto& consumer : consumers) consumer->start();
  REQUIRE(eventually([&] { return ledger.running() == 400; }, kPatience));
  replace(queue, running_limit(2));
  gate.open();
  CHECK(eventually([&] { return is_handled(queue); }, kPatience));
  CHECK(ledger.attempts("x").size() == 1000);
  CHECK(eventually([&] { return test::redis().cmd({"ZCARD", queue.base + ":running"}) == 0; }, kPatience));
  for (const auto& consumer : consumers) CHECK(consumer->stop());
}

TEST_CASE("limits R8: a limit that holds nothing back delays no message that is due later") {
  Queue queue;
  replace(queue, rate_limit({1000, 1s, 1}));
  ConsumerOptions options = quick(4);
  options.tuning.poll_interval = 20s;
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch([&](const Message& message) {
    return message.payload() == "again" && message.attempt() == 1 ? nack(50ms, "later") : ack();
  }),
                                       options);
  consumer->start();
  queue.send("now");
  CHECK(eventually([&] { return is_handled(queue); }, 10s));
  SendOptions later;
  later.delay = 200ms;
  queue.send("later", later);
  queue.send("again");
  CHECK(eventually([&] { return ledger.attempts("again").size() == 2 && is_handled(queue); }, 10s));
  CHECK(consumer->stop());
}

// ---- Setting them ---------------------------------------------------------------------------------------------------

TEST_CASE("limits R7: set_limits sets all limits, and refuses one who has not read the latest") {
  Queue queue;
  CHECK(queue.inspector.limits().generation == 0);
  QueueLimits wanted = rate_limit({10, 2s, 0});
  wanted.running = 7;
  const QueueLimits first = queue.admin.set_limits(wanted).value();
  CHECK(first.rate->messages == 10);
  CHECK(first.rate->per == 2s);
  CHECK(first.rate->burst == 1);  // of 100 ms
  CHECK(first.running == 7U);
  CHECK_FALSE(queue.admin.set_limits(running_limit(1)));
  CHECK(queue.inspector.limits().generation == first.generation);
  wanted.generation = first.generation;
  wanted.running = 8;
  const auto second = queue.admin.set_limits(wanted);
  REQUIRE(second);
  CHECK(second->running == 8U);
  CHECK_FALSE(queue.admin.set_limits(wanted));  // although it sets what is there
  const Counts counts = queue.inspector.counts();
  CHECK(counts.limits.running == 8U);
  CHECK(counts.limits.rate->messages == 10);
  replace(queue, {});
  CHECK_FALSE(queue.inspector.limits().rate);
  CHECK_FALSE(queue.inspector.counts().limits.running);
}

TEST_CASE("limits: values outside their ranges are refused with member and value, and nothing is stored") {
  Queue queue;
  const auto refusal = [&](const QueueLimits& limits) {
    try {
      static_cast<void>(queue.admin.set_limits(limits));
      return std::string();
    } catch (const std::invalid_argument& e) {
      return std::string(e.what());
    }
  };
  CHECK(refusal(rate_limit({0})) == "rate.messages: 0; expected 1 to 1000000");
  CHECK(refusal(rate_limit({1'000'001})) == "rate.messages: 1000001; expected 1 to 1000000");
  CHECK(refusal(rate_limit({1, 0ms})) == "rate.per: 0 ms; expected 1 ms to a day");
  CHECK(refusal(rate_limit({1, 25h})) == "rate.per: 90000000 ms; expected 1 ms to a day");
  CHECK(refusal(rate_limit({1, 1s, 1'000'001})) == "rate.burst: 1000001; expected 0 to 1000000");
  CHECK(refusal(running_limit(0)) == "running: 0; expected 1 to 1000000000");
  CHECK(refusal(running_limit(1'000'000'001)) == "running: 1000000001; expected 1 to 1000000000");
  CHECK(test::redis().cmd({"EXISTS", queue.base + ":limits", queue.base + ":settings"}) == 0);
}

TEST_CASE("limits R29: partitions divide the limits, also those that are added later") {
  Queue queue;
  static_cast<void>(queue.admin.set_partitions(2));
  CHECK_THROWS_AS(static_cast<void>(queue.admin.set_limits(running_limit(1))), std::invalid_argument);
  replace(queue, running_limit(9));
  static_cast<void>(queue.admin.set_partitions(4));
  CHECK_THROWS_AS(queue.admin.set_partitions(16), std::invalid_argument);
  std::atomic<int> now{0}, most{0};
  std::atomic<std::uint64_t> done{0};
  const auto consumer = queue.consumer(
      [&](const Message&) {
        const int running = ++now;
        for (int seen = most; running > seen && !most.compare_exchange_weak(seen, running);) {
        }
        std::this_thread::sleep_for(2ms);
        --now;
        ++done;
        return ack();
      },
      quick(20));
  queue.producer.send_batch(std::vector<std::string>(200, "x"));
  consumer->start();
  CHECK(eventually([&] { return done == 200; }, kPatience));
  CHECK(most <= 9);
  CHECK(consumer->stop());
}

TEST_CASE("limits R29: partitions that a limit is too small for are refused before anything is written") {
  Queue queue;
  replace(queue, running_limit(2));
  queue.admin.pause();
  CHECK(thrown([&] { static_cast<void>(queue.admin.set_partitions(4)); }) ==
        "invalid_argument: running: 2, but the queue has had 4 partitions, which divide the limit among them; expected "
        "at least 4");
  CHECK(queue.inspector.layout().top == 1);
  for (unsigned partition = 1; partition < 4; ++partition) {
    const store::Keys keys = store::make_keys(queue.name, {}, partition);
    CHECK(test::redis().cmd({"EXISTS", keys.settings, keys.paused, keys.limits}) == 0);
  }
}

// Either call may be refused, which then has written nothing; or the limit is raised to what the partitions need.
TEST_CASE("limits R29: two operators, of partitions and of limits, leave limits that fit the partitions") {
  for (int round = 0; round < 25; ++round) {
    Queue queue;
    queue.send("x");
    QueueAdmin other(queue.url, queue.name);
    std::string partitions_refused, limits_refused;
    std::thread grows([&] { partitions_refused = thrown([&] { static_cast<void>(other.set_partitions(16)); }); });
    limits_refused = thrown([&] { static_cast<void>(queue.admin.set_limits(running_limit(8))); });
    grows.join();
    const QueueLimits limits = queue.inspector.limits();
    const unsigned top = queue.inspector.layout().top;
    CAPTURE(partitions_refused);
    CAPTURE(limits_refused);
    CHECK(top == (partitions_refused == "nothing" ? 16U : 1U));
    CHECK(limits.running.has_value() == (limits_refused == "nothing"));
    if (limits.running) CHECK(*limits.running >= top);
  }
}

TEST_CASE("limits R29: consumers bring the limits back to a partition that has lost them, before they take from it") {
  Queue queue;
  static_cast<void>(queue.admin.set_partitions(2));
  replace(queue, running_limit(2));
  const store::Keys other = store::make_keys(queue.name, {}, 1);
  CHECK(test::redis().cmd({"HGET", other.limits, "running"}) == "2");
  test::redis().cmd({"DEL", other.limits});
  test::redis().cmd({"HDEL", other.settings, "limits"});
  std::atomic<int> now{0}, most{0};
  std::atomic<std::uint64_t> done{0};
  queue.producer.send_batch(std::vector<std::string>(100, "x"));
  const auto consumer = queue.consumer(
      [&](const Message&) {
        const int running = ++now;
        for (int seen = most; running > seen && !most.compare_exchange_weak(seen, running);) {
        }
        std::this_thread::sleep_for(2ms);
        --now;
        ++done;
        return ack();
      },
      quick(20));
  consumer->start();
  CHECK(eventually([&] { return done == 100; }, kPatience));
  CHECK(most <= 2);
  CHECK(eventually([&] { return test::redis().cmd({"HGET", other.limits, "running"}) == "2"; }, kPatience));
  CHECK(consumer->stop());
}

TEST_CASE("limits: if partition 0 has lost the latest limits, those that are set next count all the same") {
  Queue queue;
  static_cast<void>(queue.admin.set_partitions(2));
  const QueueLimits first = replace(queue, running_limit(5));
  replace(queue, running_limit(6));
  const std::string settings = queue.base + ":settings";
  test::redis().cmd({"HSET", settings, "limits", "17"});  // as after a failover that lost the last writes
  QueueLimits next = running_limit(7);
  next.generation = 17;
  const auto set = queue.admin.set_limits(next);
  REQUIRE(set);
  CHECK(set->generation > first.generation);
  CHECK(test::redis().cmd({"HGET", store::make_keys(queue.name, {}, 1).limits, "running"}) == "7");
}

TEST_CASE("limits R9: in a queue with partitions a freed place of each partition wakes a consumer") {
  Queue queue;
  static_cast<void>(queue.admin.set_partitions(2));
  replace(queue, running_limit(2));  // one for each
  std::atomic<std::uint64_t> done{0};
  ConsumerOptions options = quick(2);
  options.tuning.poll_interval = 20s;
  std::vector<ConsumerPtr> consumers;
  for (int i = 0; i < 3; ++i) {
    consumers.push_back(queue.consumer(
        [&](const Message&) {
          std::this_thread::sleep_for(5ms);
          ++done;
          return ack();
        },
        options));
  }
  for (const auto& consumer : consumers) consumer->start();
  queue.producer.send_batch(std::vector<std::string>(200, "x"));
  CHECK(eventually([&] { return done == 200; }, 15s));
  for (const auto& consumer : consumers) CHECK(consumer->stop());
}

TEST_CASE("limits R11: in a queue with partitions idle consumers poll as rarely as elsewhere") {
  Queue queue;
  static_cast<void>(queue.admin.set_partitions(2));
  replace(queue, rate_limit({100, 1s, 20}));
  Ledger ledger;
  ConsumerOptions options = quick(4);
  options.tuning.poll_interval = 500ms;
  const auto consumer = queue.consumer(ledger.watch(), options);
  consumer->start();
  queue.producer.send_batch(std::vector<std::string>(40, "x"));
  REQUIRE(eventually([&] { return is_handled(queue); }, kPatience));
  std::this_thread::sleep_for(500ms);
  const std::size_t before = calls("zpopmin") + calls("evalsha");
  std::this_thread::sleep_for(2s);
  CHECK(calls("zpopmin") + calls("evalsha") - before <= 100);
  CHECK(consumer->stop());
}

TEST_CASE("limits: an integrity check reports damaged values, and a repair removes them") {
  Queue queue;
  replace(queue, running_limit(9));
  test::redis().cmd({"HSET", queue.base + ":limits", "rate", "bar", "period", "-1"});
  test::redis().cmd({"HSET", queue.base + ":settings", "limits", "x"});
  CheckOptions options;
  options.recheck_after = 0ms;
  CHECK(queue.admin.check(options).counts.at(Problem::invalid_setting) == 3);
  options.repair = true;
  CHECK(queue.admin.check(options).repaired == 3);
  CHECK(queue.admin.check(options).clean());
  CHECK(queue.inspector.limits().running == 9U);
}

}  // namespace
}  // namespace delayqueue
