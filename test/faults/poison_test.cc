// Poison messages: each delivery kills the process of the handler. Other messages taken with them must survive.
#include "support/test.h"

#include <signal.h>

#include "support/process.h"

namespace delayqueue {
namespace {

using Clock = std::chrono::steady_clock;
using test::words;
using test::worker;

// Worker processes of a queue; restart() replaces those that were killed.
class Crew {
 public:
  // `mode`: of worker_program.
  Crew(const Queue& queue, std::size_t workers, const std::string& lease_ms, const std::string& mode = "consume")
      : command_(worker(queue, 8, lease_ms)), workers_(workers) {
    command_.front() = mode;
    for (auto& one : workers_) one = std::make_unique<test::Process>(command_);
  }

  // Replaces the processes that were killed and returns their number. Calls `before` before each new start.
  template <class Before>
  int restart(Before before) {
    int dead = 0;
    for (auto& one : workers_) {
      if (!one->ended()) continue;
      CHECK(one->wait() == -SIGKILL);
      record(*one);
      ++dead;
      before();
      one = std::make_unique<test::Process>(command_);
    }
    deaths_ += dead;
    return dead;
  }

  // Ends the processes with SIGTERM.
  void stop() {
    for (auto& one : workers_) {
      one->kill(SIGTERM);
      CHECK(one->wait() == 0);
      record(*one);
    }
    workers_.clear();
  }

  int deaths() const { return deaths_; }

  // By message id, the number of the delivery that was handled to its end. Call it after stop().
  const std::map<std::string, int>& handled_at() const { return handled_at_; }

 private:
  void record(const test::Process& process) {
    for (const std::string& line : process.said("begin")) began_[line.substr(0, 36)] = std::stoi(line.substr(37));
    for (const std::string& id : process.said("end")) handled_at_[id] = began_[id];
  }

  std::vector<std::string> command_;
  std::vector<std::unique_ptr<test::Process>> workers_;
  std::map<std::string, int> began_, handled_at_;
  int deaths_ = 0;
};

int most_deliveries(const Crew& crew) {
  int most = 0;
  for (const auto& [id, attempt] : crew.handled_at()) most = std::max(most, attempt);
  return most;
}

// Replaces killed processes until `poisons` messages are dead and all others are handled.
template <class Before>
bool survives(Crew& crew, Queue& queue, std::uint64_t poisons, std::uint64_t innocents, Before before) {
  const auto over = [&] {
    crew.restart(before);
    const Counts counts = queue.inspector.counts();
    return counts.dead >= poisons && counts.totals.acked + counts.dead >= poisons + innocents;
  };
  return eventually(over, 2 * kPatience);
}

void check_dead(Queue& queue, const std::string& poison) {
  const auto dead = queue.inspector.find(poison);
  REQUIRE(dead);
  CHECK(dead->state == State::dead);
  CHECK(dead->reason == "lease ended 4 times");
  CHECK(dead->deliveries == 4);
}

TEST_CASE("poison: the message ends in dead after its retries, and costs any other message one retry at most") {
  Queue queue;
  queue.producer.send_batch(words(3, "brief"));
  const std::string poison = queue.send("die");
  queue.producer.send_batch(words(37, "brief"));
  std::uint64_t innocents = 40;
  Crew crew(queue, 1, "30000");
  const auto time_passes = [&] {
    test::rewind(queue.base, 1h);
    queue.producer.send_batch(words(20, "brief"));  // new messages beside the poison message
    innocents += 20;
  };
  CHECK(survives(crew, queue, 1, 120, time_passes));
  crew.stop();
  MESSAGE("dead: " << queue.inspector.counts().dead << ", most deliveries: " << most_deliveries(crew)
                   << ", deaths: " << crew.deaths());
  check_dead(queue, poison);
  CHECK(crew.deaths() == 4);
  CHECK(innocents == 120);
  CHECK(queue.inspector.counts().dead == 1);
  CHECK(crew.handled_at().size() == innocents);
  CHECK(most_deliveries(crew) <= 2);
}

TEST_CASE("poison: with two workers, a message taken with many others is dead within its leases") {
  Queue queue;
  queue.producer.send_batch(words(300, "quick"));  // fast handlers, so that they prefetch many messages
  queue.producer.send_batch(words(20, "brief"));
  const std::string poison = queue.send("die");
  queue.producer.send_batch(words(300, "quick"));
  Crew crew(queue, 2, "2000");
  const auto began = Clock::now();
  CHECK(survives(crew, queue, 1, 620, [] {}));
  CHECK(Clock::now() - began < 4 * (2s + 5s));
  crew.stop();
  check_dead(queue, poison);
  CHECK(crew.deaths() == 4);
  CHECK(queue.inspector.counts().dead == 1);
  CHECK(crew.handled_at().size() == 620);
  CHECK(most_deliveries(crew) <= 2);
}

TEST_CASE("poison: two of them cost any other message a retry each at most") {
  Queue queue;
  queue.producer.send_batch(words(5, "brief"));
  const std::string one = queue.send("die");
  queue.producer.send_batch(words(20, "brief"));
  const std::string two = queue.send("die");
  queue.producer.send_batch(words(15, "brief"));
  Crew crew(queue, 1, "30000");
  CHECK(survives(crew, queue, 2, 40, [&] { test::rewind(queue.base, 1h); }));
  crew.stop();
  for (const std::string& poison : {one, two}) check_dead(queue, poison);
  CHECK(crew.deaths() == 8);
  CHECK(queue.inspector.counts().dead == 2);
  CHECK(crew.handled_at().size() == 40);
  CHECK(most_deliveries(crew) <= 3);
}

TEST_CASE("poison: with deliveries that other threads settle later, it costs any other message one retry at most") {
  Queue queue;
  queue.producer.send_batch(words(3, "brief"));
  const std::string poison = queue.send("die");
  queue.producer.send_batch(words(37, "brief"));
  Crew crew(queue, 1, "30000", "settle_later");
  CHECK(survives(crew, queue, 1, 40, [&] { test::rewind(queue.base, 1h); }));
  crew.stop();
  check_dead(queue, poison);
  CHECK(crew.deaths() == 4);
  CHECK(queue.inspector.counts().dead == 1);
  CHECK(crew.handled_at().size() == 40);
  CHECK(most_deliveries(crew) <= 2);
}

// Puts messages into retry as after a delivery that ended with its lease; `nacked`: as after a nack.
void fill_retry(Queue& queue, const std::vector<std::string>& payloads, bool nacked = false) {
  test::redis().cmd({"SET", queue.base + ":paused", ""});
  for (const Sent& sent : queue.producer.send_batch(payloads)) {
    test::redis().cmd({"LREM", queue.base + ":ready", "0", sent.id});
    test::redis().cmd(
        {"HSET", queue.base + ":attempts", sent.id, nacked ? "1 1700000000123000" : "1 1700000000123457"});
    test::redis().cmd({"LPUSH", queue.base + ":retry", sent.id});
  }
  test::redis().cmd({"DEL", queue.base + ":paused"});
}

// Counts the handlers of a payload that run at the same time.
class Together {
 public:
  explicit Together(std::string payload) : payload_(std::move(payload)) {}

  test::MessageHandler handler(test::MessageHandler rest) {
    return [this, rest](const Message& message) {
      if (message.payload() != payload_) return rest(message);
      const int now = ++running_;
      for (int seen = most_; seen < now && !most_.compare_exchange_weak(seen, now);) {
      }
      const Verdict verdict = rest(message);
      --running_;
      return verdict;
    };
  }
  int running() const { return running_; }
  int most() const { return most_; }

 private:
  const std::string payload_;
  std::atomic<int> running_{0}, most_{0};
};

TEST_CASE("possible poison: such messages run one at a time in a consumer; others in retry run beside them") {
  Queue queue;
  fill_retry(queue, words(8, "possible"));
  fill_retry(queue, words(8, "nacked"), true);
  Together possible("possible"), nacked("nacked");
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(possible.handler(nacked.handler([](const Message&) {
    std::this_thread::sleep_for(50ms);
    return ack();
  }))),
                                       quick(8));
  const auto began = Clock::now();
  consumer->start();
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  MESSAGE("8 messages of 50 ms took " << std::chrono::duration_cast<milliseconds>(Clock::now() - began).count()
                                      << " ms");
  CHECK(consumer->stop());
  CHECK(possible.most() == 1);
  CHECK(nacked.most() > 1);
}

TEST_CASE("possible poison: a delivery that is settled later delays the next one until its verdict") {
  Queue queue;
  fill_retry(queue, words(3, "possible"));
  std::mutex mutex;  // guards `held`
  std::vector<Delivery> held;
  const auto held_count = [&] {
    const std::lock_guard lock(mutex);
    return held.size();
  };
  const auto consumer = queue.consumer(
      [&](Delivery delivery) {
        const std::lock_guard lock(mutex);
        held.push_back(std::move(delivery));
      },
      quick(8));
  consumer->start();
  for (std::size_t i = 1; i <= 3; ++i) {
    REQUIRE(eventually([&] { return held_count() == i; }, kPatience));
    std::this_thread::sleep_for(200ms);  // ten polls
    REQUIRE(held_count() == i);
    const std::lock_guard lock(mutex);
    CHECK(std::move(held.back()).ack());
  }
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
}

TEST_CASE("possible poison: a message that was nacked is no longer one") {
  Queue queue;
  fill_retry(queue, words(6, "possible"));
  Together possible("possible");
  Gate gate;
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(possible.handler([&](const Message& message) {
    if (message.attempt() == 2) return nack(1h, "not now");
    gate.pass();
    return ack();
  })),
                                       quick(8));
  consumer->start();
  REQUIRE(ledger.settles(6));
  CHECK(possible.most() == 1);
  test::rewind(queue.base, 2h);
  CHECK(eventually([&] { return possible.running() == 6; }, kPatience));
  gate.open();
  CHECK(consumer->stop());
}

TEST_CASE("possible poison: one that hangs delays neither new messages nor others in retry") {
  Queue queue;
  fill_retry(queue, words(1, "hangs"));
  fill_retry(queue, words(600, "possible"));
  fill_retry(queue, words(10, "nacked"), true);
  Gate gate;
  Ledger ledger;
  ConsumerOptions options = quick(4);
  options.tuning.poll_interval = options.lease = 60s;  // so that polling does not help
  const auto consumer = queue.consumer(ledger.watch([&](const Message& message) {
    if (message.payload() == "hangs") gate.pass();
    return message.payload() == "nacked" && message.attempt() < 4 ? nack(30ms) : ack();
  }),
                                       options);
  const auto began = Clock::now();
  consumer->start();
  queue.producer.send_batch(words(300, "new"));
  CHECK(eventually([&] { return ledger.attempts("new").size() == 300; }, kPatience));
  CHECK(eventually([&] { return ledger.attempts("nacked").size() == 30; }, kPatience));  // attempts 2, 3, 4
  CHECK(Clock::now() - began < 15s);
  CHECK(ledger.attempts("possible").empty());
  gate.open();
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
}

TEST_CASE("possible poison: one that hangs delays the others for a lease, not for its processing_timeout") {
  Queue queue;
  fill_retry(queue, words(1, "hangs"));
  fill_retry(queue, words(50, "possible"));
  Gate gate;
  Ledger ledger;
  ConsumerOptions options = quick(4);
  options.lease = 1500ms;
  const auto consumer = queue.consumer(ledger.watch([&](const Message& message) {
    if (message.payload() == "hangs") gate.pass();
    return ack();
  }),
                                       options);
  const auto began = Clock::now();
  consumer->start();
  CHECK(eventually([&] { return ledger.attempts("possible").size() == 50; }, kPatience));
  CHECK(Clock::now() - began >= 1500ms);
  CHECK(eventually([&] { return queue.inspector.counts().unack == 1; }, kPatience));
  gate.open();
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
}

TEST_CASE("possible poison: a thousand harmless ones are handled soon, and in order") {
  Queue queue;
  std::vector<std::string> payloads = test::numbers(1000);
  fill_retry(queue, payloads);
  Ledger ledger;
  auto options = with(&ConsumerOptions::concurrency, 4);
  options.tuning.poll_interval = options.lease = 60s;
  const auto consumer = queue.consumer(ledger.watch(), options);
  const auto began = Clock::now();
  consumer->start();
  CHECK(eventually([&] { return ledger.size() == 1000; }, kPatience));
  const auto took = std::chrono::duration_cast<milliseconds>(Clock::now() - began);
  MESSAGE("1000 messages took " << took.count() << " ms");
  CHECK(took < 8s);  // each one follows the other without polling
  CHECK(ledger.payloads() == payloads);
}

// The number of calls of a command, including those within scripts.
long calls(const std::string& command) {
  const std::string line = test::info("commandstats", "cmdstat_" + command);
  return line.empty() ? 0 : std::stol(line.substr(line.find('=') + 1));
}

TEST_CASE("possible poison: waiting messages cost Redis few commands, with and without other work") {
  Queue queue;
  fill_retry(queue, words(1, "hangs"));
  fill_retry(queue, words(1000, "possible"));
  Gate gate;
  Ledger ledger;
  ConsumerOptions options;
  options.concurrency = 4;
  options.lease = 60s;
  const auto consumer = queue.consumer(ledger.watch([&](const Message& message) {
    if (message.payload() != "new") gate.pass();
    return ack();
  }),
                                       options);
  consumer->start();
  REQUIRE(eventually([&] { return ledger.running() == 1; }, kPatience));
  std::this_thread::sleep_for(500ms);
  const long before = calls("evalsha");
  std::this_thread::sleep_for(3s);
  const long idle = calls("evalsha") - before;
  MESSAGE(idle << " scripts in 3 s");
  CHECK(idle <= 3 * 20);
  CHECK(idle >= 3);

  const long pushed = calls("lpush");
  const auto began = Clock::now();
  for (int i = 0; i < 500; ++i) queue.send("new");
  CHECK(eventually([&] { return ledger.attempts("new").size() == 500; }, kPatience));
  const long intervals = (Clock::now() - began) / 100ms + 2;
  const long skipped = calls("lpush") - pushed - 500;
  MESSAGE(skipped << " times some were skipped in " << intervals << " x 100 ms");
  CHECK(skipped <= 10 * intervals);
  CHECK(ledger.running() == 1);
  gate.open();
}

}  // namespace
}  // namespace delayqueue
