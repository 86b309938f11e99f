// A consumer of several queues: they share its threads and connections, and none delays the others.
#include "support/test.h"

#include <poll.h>

#include "consumer/wakeups.h"
#include "queue/endpoint.h"
#include "support/answers.h"
#include "support/limits.h"
#include "support/proxy.h"
#include "support/sanitized.h"

namespace delayqueue {
namespace {

ConsumerPtr serve(std::vector<Subscription> queues, const ConsumerOptions& options,
                  const Client& client = test::server().url()) {
  return ConsumerPtr(new Consumer(client, std::move(queues), options));
}

void fill(Queue& queue, std::size_t count, const std::string& payload) {
  queue.producer.send_batch(std::vector<std::string>(count, payload));
}

SubscriptionOptions with_weight(unsigned weight) {
  SubscriptionOptions options;
  options.weight = weight;
  return options;
}

SubscriptionOptions with_concurrency(std::size_t concurrency) {
  SubscriptionOptions options;
  options.concurrency = concurrency;
  return options;
}

// Longer than queues need for a few hundred messages on a busy machine, and shorter than the waits that a failing queue
// has.
constexpr milliseconds kPrompt = (TEST_SANITIZED ? 3 : 1) * 2s;

// Options of a consumer that finds messages by wake-ups only.
ConsumerOptions without_polls(std::size_t concurrency) {
  ConsumerOptions options = quick(concurrency);
  options.tuning.poll_interval = 1h;
  return options;
}

bool is_listening() {
  return eventually([] { return test::info("clients", "blocked_clients") == "1"; }, kPatience);
}

TEST_CASE("many queues: each handler gets the messages of its queue, whose name is in the message") {
  std::deque<Queue> queues(3);
  std::array<Ledger, 3> ledgers;
  std::vector<Subscription> subscriptions;
  for (std::size_t i = 0; i < queues.size(); ++i) {
    fill(queues[i], 50, std::to_string(i));
    subscriptions.push_back({queues[i].name, ledgers[i].watch()});
  }
  const auto consumer = serve(subscriptions, quick(4));
  consumer->start();
  for (std::size_t i = 0; i < queues.size(); ++i) {
    REQUIRE(ledgers[i].settles(50));
    for (const Ledger::Entry& entry : ledgers[i].entries()) {
      CHECK(entry.message.queue() == queues[i].name);
      CHECK(entry.message.payload() == std::to_string(i));
    }
    CHECK(eventually([&] { return test::stats_of(*consumer, queues[i].name).acked == 50; }, kPatience));
    CHECK(queues[i].empty());
  }
  CHECK(consumer->metrics().stats.acked == 150);
  CHECK(consumer->metrics().stats.connects == 1);
  CHECK(consumer->metrics().stats.errors == 0);
  CHECK(consumer->metrics().stats.connected);
}

TEST_CASE("many queues: impossible subscriptions are refused with the name and the value") {
  const auto refusal = [](std::vector<Subscription> queues) {
    return thrown([&] { Consumer("redis://127.0.0.1:1", std::move(queues)); });
  };
  const Handler handler = [](const Message&) { return ack(); };
  CHECK(has(refusal({}), "queues: none"));
  CHECK(has(refusal({{"a", handler}, {"b", handler}, {"a", handler}}), "queue \"a\" twice"));
  CHECK(has(refusal({{"a", handler}, {"b", handler, with_weight(0)}}), "queue \"b\": weight: 0"));
  CHECK(has(refusal({{"a", handler}, {"b", handler, with_weight(1001)}}), "queue \"b\": weight: 1001"));
  CHECK(has(refusal({{"a", handler, with_concurrency(0)}, {"b", handler}}), "queue \"a\": concurrency: 0"));
  CHECK(has(refusal({{"a", handler, with_concurrency(10'001)}, {"b", handler}}), "concurrency: 10001"));
  SubscriptionOptions short_lease;
  short_lease.lease = 1ms;
  CHECK(has(refusal({{"a", handler}, {"b", handler, short_lease}}), "queue \"b\": lease: 1 ms"));
}

TEST_CASE("many queues: with full load the weights 6, 3 and 1 get about 6, 3 and 1 of ten deliveries") {
  struct Row {
    std::size_t concurrency, prefetch, counted;
  };
  // Of the messages that are prefetched any may be handled first, so they must be few among those that are counted.
  const Row rows[] = {{1, 0, 3000}, {4, 0, 3000}, {4, 100, 6000}, {4, 1000, 40'000}};
  for (const Row& row : rows) {
    if (TEST_SANITIZED && row.counted > 10'000) continue;  // takes long
    CAPTURE(row.concurrency);
    CAPTURE(row.prefetch);
    const std::array<unsigned, 3> weights = {6, 3, 1};
    std::deque<Queue> queues(3);
    Ledger ledger;
    std::vector<Subscription> subscriptions;
    for (std::size_t i = 0; i < queues.size(); ++i) {
      const std::size_t share = (row.prefetch + 100 + row.counted) * weights[i] / 10;
      fill(queues[i], share + share / 5 + row.prefetch + 100, std::to_string(weights[i]));
      subscriptions.push_back({queues[i].name, ledger.watch(), with_weight(weights[i])});
    }
    ConsumerOptions options = quick(row.concurrency);
    options.tuning.prefetch = row.prefetch;
    const auto consumer = serve(subscriptions, options);
    consumer->start();
    // Without those of the first takes, when it is not known which queues have messages.
    const std::size_t skipped = row.prefetch + 100;
    REQUIRE(ledger.reaches(skipped + row.counted));
    const std::vector<std::string> payloads = ledger.payloads();
    const auto from = payloads.begin() + static_cast<std::ptrdiff_t>(skipped);
    for (const unsigned weight : weights) {
      const auto to = from + static_cast<std::ptrdiff_t>(row.counted);
      const auto got = static_cast<double>(std::count(from, to, std::to_string(weight)));
      const double fair = static_cast<double>(row.counted) * weight / 10;
      CAPTURE(weight);
      // plan_test has the exact shares. On a busy machine a queue may have nothing prefetched for a moment, and the
      // others get its turn. Turns in what is taken alone, or in what begins alone, would give 4.5, 4.2 and 1.4.
      CHECK(got > 0.85 * fair);
      CHECK(got < 1.15 * fair);
    }
    CHECK(consumer->stop(kPatience));
  }
}

TEST_CASE("many queues: a queue with messages has all workers while the others have none") {
  std::deque<Queue> queues(12);
  Gate gate;
  Ledger ledger;
  std::vector<Subscription> subscriptions;
  for (const Queue& queue : queues) {
    subscriptions.push_back({queue.name, ledger.watch([&](const Message&) {
                               gate.pass();
                               return ack();
                             })});
  }
  subscriptions.front().options.weight = 1000;
  fill(queues.back(), 2000, "x");
  const auto consumer = serve(subscriptions, quick(4));
  consumer->start();
  CHECK(eventually([&] { return ledger.running() == 4; }, kPatience));
  gate.open();
  CHECK(ledger.settles(2000));
}

// The rate of a queue with messages beside so many without.
double rate_beside(std::size_t others) {
  const std::size_t count = TEST_SANITIZED ? 2'000 : 10'000;
  std::deque<Queue> queues(1 + others);
  Ledger ledger;
  std::vector<Subscription> subscriptions;
  for (const Queue& queue : queues) subscriptions.push_back({queue.name, ledger.watch()});
  fill(queues.front(), count, "x");
  ConsumerOptions options = quick(4);
  options.tuning.poll_interval = 1s;
  const auto consumer = serve(subscriptions, options);
  const auto start = std::chrono::steady_clock::now();
  consumer->start();
  REQUIRE(ledger.settles(count));
  return static_cast<double>(count) / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST_CASE("many queues: a queue with messages is served at full speed beside 99 that have none") {
  double alone = 0, beside = 0;
  for (int i = 0; i < 3; ++i) {
    alone = std::max(alone, rate_beside(0));
    beside = std::max(beside, rate_beside(99));
  }
  MESSAGE("alone " << alone << ", beside 99 others " << beside << " messages a second");
  CHECK(beside > alone / (TEST_SANITIZED ? 5 : 3));  // the benchmark has the exact ratio
}

// Records how late the messages of a queue are whose payloads are their due times.
class Lateness {
 public:
  Handler handler() {
    return [this](const Message& message) {
      const double late_ms = static_cast<double>(now_us() - std::stoll(message.payload())) / 1000;
      const std::lock_guard lock(mutex_);
      late_ms_.push_back(late_ms);
      return ack();
    };
  }

  // Sends messages, one of which is due every 10 ms.
  static void send(Queue& queue, std::size_t count) {
    const auto first = std::chrono::ceil<milliseconds>(std::chrono::system_clock::now()) + 300ms;
    for (std::size_t i = 0; i < count; ++i) {
      const auto options = with(&SendOptions::at, first + static_cast<int>(i) * 10ms);
      queue.send(std::to_string(us(*options.at)), options);
    }
  }

  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return late_ms_.size();
  }

  // Nine of ten messages are at most so late, in ms.
  double p90() const {
    const std::lock_guard lock(mutex_);
    std::vector<double> sorted = late_ms_;
    std::sort(sorted.begin(), sorted.end());
    return sorted.at(sorted.size() * 9 / 10);
  }

 private:
  static long long us(std::chrono::system_clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
  }
  static long long now_us() { return us(std::chrono::system_clock::now()); }

  mutable std::mutex mutex_;
  std::vector<double> late_ms_;
};

TEST_CASE("many queues: a flooded queue delays the messages of a quiet one for a moment only") {
  constexpr std::size_t kQuiet = 100;
  Queue quiet, flooded;
  const auto slow = [](const Message&) {
    std::this_thread::sleep_for(1ms);
    return ack();
  };
  ConsumerOptions options = quick(2);
  options.tuning.poll_interval = 1s;
  std::array<double, 2> late_ms{};  // without the flood, and with it
  for (const bool floods : {false, true}) {
    if (floods) fill(flooded, 20'000, "x");  // 10 s of work
    Lateness lateness;
    const auto consumer = serve({{quiet.name, lateness.handler()}, {flooded.name, Handler(slow)}}, options);
    consumer->start();
    Lateness::send(quiet, kQuiet);
    REQUIRE(eventually([&] { return lateness.size() == kQuiet; }, kPatience));
    if (floods) CHECK(flooded.inspector.counts().ready > 1000);
    late_ms.at(floods ? 1 : 0) = lateness.p90();
    CHECK(consumer->stop(kPatience));
  }
  MESSAGE("p90 without the flood " << late_ms[0] << " ms, with it " << late_ms[1] << " ms");
  CHECK(late_ms[1] < late_ms[0] + 250);  // behind the prefetched messages it would be 500; the benchmark has the p99
}

// A flooded queue with many messages prefetched for its fast handlers, which become slow.
class SlowFlood {
 public:
  explicit SlowFlood(std::size_t messages) { fill(queue_, messages, "x"); }

  Subscription subscription() {
    return {queue_.name, Handler([this](const Message&) {
              if (slow_) std::this_thread::sleep_for(200ms);
              return ack();
            })};
  }

  // Waits until so many messages are prefetched, then lets the handlers become slow.
  void become_slow(const Consumer& consumer, std::size_t prefetched) {
    REQUIRE(eventually([&] { return waiting(consumer) >= prefetched; }, kPatience));
    slow_ = true;
  }

  // Messages that are prefetched now.
  std::uint64_t waiting(const Consumer& consumer) const { return test::stats_of(consumer, queue_.name).prefetched; }

 private:
  Queue queue_;
  std::atomic<bool> slow_{false};
};

TEST_CASE("many queues: a quiet queue is served while a flooded one has many messages prefetched for slow handlers") {
  SlowFlood flood(20'000);
  Queue quiet;
  Ledger ledger;
  const auto consumer = serve({flood.subscription(), {quiet.name, ledger.watch()}}, quick(4));
  consumer->start();
  flood.become_slow(*consumer, 300);
  for (std::size_t i = 1; i <= 10; ++i) {
    fill(quiet, 1, "quiet");
    REQUIRE(ledger.settles(i));
  }
  CHECK(flood.waiting(*consumer) > 100);  // they would take 5 s
}

TEST_CASE("many queues: failed messages of a quiet queue are retried beside a flooded one with slow handlers") {
  SlowFlood flood(20'000);
  Queue quiet;
  Ledger ledger;
  const auto fails_first = [](const Message& message) { return message.attempt() == 1 ? nack(0ms) : ack(); };
  const auto consumer = serve({flood.subscription(), {quiet.name, ledger.watch(fails_first)}}, quick(4));
  consumer->start();
  flood.become_slow(*consumer, 300);
  fill(quiet, 4, "fails");
  REQUIRE(ledger.settles(8));
  CHECK(flood.waiting(*consumer) > 100);
}

constexpr std::size_t kOutstanding = 1'000;

// The number of takes until a queue with a backlog has kOutstanding deliveries, which nothing settles. Each take has
// its own lease end. `others_are_due`: meanwhile a message of another queue is due every 10 ms.
std::size_t takes(const SendOptions& send, bool others_are_due) {
  Queue flooded, quiet;
  std::mutex mutex;
  std::vector<Delivery> held;
  bool counted = false;
  Ledger others;
  Subscription slow{flooded.name, Handler([&](Delivery delivery) {
                      const std::lock_guard lock(mutex);
                      if (!counted) held.push_back(std::move(delivery));
                    })};
  slow.options.concurrency = kOutstanding;
  ConsumerOptions options = quick(2 * kOutstanding);
  flooded.admin.pause();
  flooded.producer.send_batch(std::vector<std::string>(2 * kOutstanding, "x"), send);
  const auto consumer = serve({{quiet.name, others.watch()}, std::move(slow)}, options);
  consumer->start();
  if (others_are_due) {
    Lateness::send(quiet, 1'000);
    CHECK(eventually([&] { return others.size() > 0; }, kPatience));
  }
  flooded.admin.resume();
  const std::string unack = flooded.base + ":unack";
  CHECK(eventually([&] { return test::redis().cmd({"ZCARD", unack}) == kOutstanding; }, kPatience));
  const auto leases = test::redis().cmd({"ZRANGE", unack, "0", "-1", "WITHSCORES"}).strings();
  std::set<std::string> ends;
  for (std::size_t i = 1; i < leases.size(); i += 2) ends.insert(leases[i]);
  {
    const std::lock_guard lock(mutex);
    counted = true;
    held.clear();  // the consumer waits for them
  }
  CHECK(consumer->stop(kPatience));
  return ends.size();
}

TEST_CASE("many queues: a flooded queue takes 200 messages in a call, and fewer while another queue has some, too") {
  for (const bool scheduled : {false, true}) {
    CAPTURE(scheduled);
    SendOptions options;
    if (scheduled) options.delay = 1ms;
    const std::size_t alone = takes(options, false), beside = takes(options, true);
    MESSAGE(alone << " takes, and beside another queue " << beside);
    CHECK(alone <= 2 * kOutstanding / store::kBatch);
    CHECK(beside >= 2 * kOutstanding / store::kBatch);
  }
}

TEST_CASE("many queues: with strict_priority the queue of the highest weight goes first") {
  Queue high, low;
  fill(high, 300, "high");
  fill(low, 300, "low");
  Ledger ledger;
  ConsumerOptions options = quick(1);
  options.tuning.prefetch = 0;
  options.strict_priority = true;
  const auto consumer =
      serve({{low.name, ledger.watch(), with_weight(1)}, {high.name, ledger.watch(), with_weight(2)}}, options);
  consumer->start();
  REQUIRE(ledger.settles(600));
  const std::vector<std::string> payloads = ledger.payloads();
  CHECK(std::count(payloads.begin(), payloads.begin() + 300, "high") == 300);
}

TEST_CASE("many queues: a queue of an own concurrency has no more handlers, and the others have the rest") {
  Queue few, many;
  Gate gate;
  const auto waits = [&](const Message&) {
    gate.pass();
    return ack();
  };
  Ledger of_few, of_many;
  fill(few, 20, "few");
  const auto consumer =
      serve({{few.name, of_few.watch(waits), with_concurrency(1)}, {many.name, of_many.watch(waits)}}, quick(4));
  consumer->start();
  REQUIRE(of_few.reaches(1));
  fill(many, 20, "many");
  REQUIRE(eventually([&] { return of_many.running() == 3; }, kPatience));
  CHECK(of_few.running() == 1);
  gate.open();
  REQUIRE(of_few.settles(20));
  REQUIRE(of_many.settles(20));
  CHECK(of_few.most_running() == 1);
}

TEST_CASE("many queues: one that returns its verdict and one of Deliveries share the places of the consumer") {
  Queue direct, later;
  fill(direct, 50, "direct");
  fill(later, 8, "later");
  std::mutex mutex;
  std::vector<Delivery> outstanding;
  const auto take = [&] {
    const std::lock_guard lock(mutex);
    return std::exchange(outstanding, {});
  };
  const auto count = [&] {
    const std::lock_guard lock(mutex);
    return outstanding.size();
  };
  Ledger of_direct;
  const auto consumer = serve({{direct.name, of_direct.watch()},
                               {later.name,
                                [&](Delivery delivery) {
                                  const std::lock_guard lock(mutex);
                                  outstanding.push_back(std::move(delivery));
                                },
                                with_concurrency(3)}},
                              quick(4));
  consumer->start();
  CHECK(of_direct.settles(50));
  CHECK(eventually([&] { return count() == 3; }, kPatience));
  CHECK(test::stats_of(*consumer, later.name).running == 3);
  CHECK(test::stats_of(*consumer, direct.name).running == 0);
  CHECK(eventually([&] {
    for (Delivery& delivery : take()) std::move(delivery).ack();
    return test::stats_of(*consumer, later.name).acked == 8;
  }));
  CHECK(direct.empty());
  CHECK(later.empty());
}

TEST_CASE("many queues: a paused queue delays no other") {
  Queue paused, works;
  paused.admin.pause();
  fill(paused, 100, "paused");
  fill(works, 100, "works");
  Ledger of_paused, of_works;
  const auto consumer = serve({{paused.name, of_paused.watch()}, {works.name, of_works.watch()}}, quick(2));
  consumer->start();
  CHECK(eventually([&] { return of_works.size() == 100; }, kPrompt));
  CHECK(of_paused.size() == 0);
  paused.admin.resume();
  CHECK(of_paused.settles(100));
}

TEST_CASE("many queues: a paused queue with failed messages keeps no worker from the others") {
  Queue paused, works;
  Ledger of_paused, of_works;
  const auto consumer = serve({{paused.name, of_paused.watch([](const Message& message) {
                                  return message.payload() == "fails" && message.attempt() == 1 ? nack(500ms) : ack();
                                })},
                               {works.name, of_works.watch()}},
                              quick(1));
  consumer->start();
  fill(paused, 20, "first");  // so that retry is due for its share
  REQUIRE(of_paused.settles(20));
  fill(paused, 1, "fails");
  REQUIRE(of_paused.settles(21));
  paused.admin.pause();
  REQUIRE(eventually([&] { return paused.inspector.counts().retry == 1; }, kPatience));
  std::this_thread::sleep_for(200ms);  // 10 polls
  fill(works, 20, "works");
  CHECK(of_works.settles(20));
  CHECK(of_paused.size() == 21);
  paused.admin.resume();
  CHECK(of_paused.settles(22));
}

TEST_CASE("many queues: a queue whose keys are of a wrong type delays no other, and works once they are right") {
  Queue wrong, right;
  test::redis().cmd({"SET", wrong.base + ":ready", "text"});
  Ledger of_wrong, of_right;
  const auto consumer = serve({{wrong.name, of_wrong.watch()}, {right.name, of_right.watch()}}, quick(2));
  consumer->start();
  REQUIRE(eventually([&] { return test::stats_of(*consumer, wrong.name).errors >= 3; }, kPatience));
  const std::uint64_t failures = test::stats_of(*consumer, wrong.name).errors;
  for (std::size_t i = 1; test::stats_of(*consumer, wrong.name).errors < failures + 3; ++i) {
    fill(right, 10, "x");
    REQUIRE(eventually([&] { return of_right.size() == 10 * i; }, kPrompt));
    std::this_thread::sleep_for(10ms);
  }
  CHECK(test::stats_of(*consumer, right.name).errors == 0);
  CHECK(test::stats_of(*consumer, right.name).connected);
  CHECK_FALSE(test::stats_of(*consumer, wrong.name).connected);
  CHECK_FALSE(consumer->metrics().stats.connected);
  CHECK(has(consumer->metrics().stats.last_error, "WRONGTYPE"));
  CHECK(consumer->metrics().stats.connects == 1);
  test::redis().cmd({"DEL", wrong.base + ":ready"});
  fill(wrong, 10, "x");
  CHECK(of_wrong.settles(10));
  CHECK(eventually([&] { return consumer->metrics().stats.connected; }, kPatience));
}

TEST_CASE("many queues: start() throws if Redis refuses all queues") {
  Queue one, two;
  for (const Queue* queue : {&one, &two}) test::redis().cmd({"SET", queue->base + ":ready", "text"});
  const Handler handler = [](const Message&) { return ack(); };
  Consumer consumer(one.url, {{one.name, handler}, {two.name, handler}}, quick());
  CHECK_THROWS_AS(consumer.start(), ReplyError);
}

TEST_CASE("many queues: a queue whose handlers hang delays no other") {
  Queue hangs, works;
  Gate gate;
  Ledger of_hanging, of_working;
  fill(hangs, 50, "hangs");
  const auto consumer = serve({{hangs.name, of_hanging.watch([&](const Message&) {
                                  gate.pass();
                                  return ack();
                                }),
                                with_concurrency(2)},
                               {works.name, of_working.watch()}},
                              quick(3));
  consumer->start();
  REQUIRE(of_hanging.reaches(2));
  fill(works, 500, "works");
  CHECK(eventually([&] { return of_working.size() == 500; }, kPrompt));
  CHECK(of_hanging.running() == 2);
  gate.open();
  CHECK(of_hanging.settles(50));
}

TEST_CASE("many queues: stop() settles what runs and gives the rest back, of each queue") {
  std::deque<Queue> queues(3);
  Gate gate;
  Ledger ledger;
  std::vector<Subscription> subscriptions;
  for (Queue& queue : queues) {
    fill(queue, 500, "x");
    subscriptions.push_back({queue.name, ledger.watch([&](const Message&) {
                               gate.pass();
                               return ack();
                             })});
  }
  const auto consumer = serve(subscriptions, quick(6));
  consumer->start();
  REQUIRE(ledger.reaches(6));
  std::thread opens([&] {
    std::this_thread::sleep_for(50ms);
    gate.open();
  });
  CHECK(consumer->stop(kPatience));
  opens.join();
  std::size_t left = 0;
  for (Queue& queue : queues) {
    const Counts counts = queue.inspector.counts();
    CHECK(counts.unack == 0);
    CHECK(counts.retry == 0);
    left += counts.ready;
  }
  CHECK(left + ledger.size() == 1500);
  CHECK(consumer->metrics().stats.acked == ledger.size());
  CHECK(consumer->metrics().stats.prefetched == 0);
}

TEST_CASE("many queues: a hundred queues need one thread beside the workers, two connections, and few requests") {
  std::deque<Queue> queues(100);
  Ledger ledger;
  std::vector<Subscription> subscriptions;
  for (const Queue& queue : queues) subscriptions.push_back({queue.name, ledger.watch()});
  const Client client(test::server().url(), with(&ClientOptions::client_name, "hundred"));
  ConsumerOptions options = quick(2);
  options.tuning.poll_interval = 100ms;
  const std::size_t threads = test::threads_of_this_process();
  const auto consumer = serve(subscriptions, options, client);
  consumer->start();
  for (Queue& queue : queues) queue.send("x");
  REQUIRE(ledger.settles(100));
  CHECK(ledger.different() == 100);
  CHECK(eventually([&] { return test::connections_named("hundred").size() == 2; }, kPatience));
  CHECK(eventually([&] { return test::threads_of_this_process() == threads + 1 + options.concurrency; }));
  CHECK(consumer->metrics().stats.connects == 1);
  REQUIRE(is_listening());
  std::this_thread::sleep_for(1500ms);  // the first polls
  const auto requests = [] {
    std::map<std::string, std::size_t> calls;
    for (const char* command : {"evalsha", "hmget", "srandmember", "hrandfield", "bzpopmin"}) {
      calls[command] = test::calls_of(command);
    }
    return calls;
  };
  std::map<std::string, std::size_t> before = requests();
  std::this_thread::sleep_for(3s);
  std::size_t all = 0;
  std::map<std::string, std::size_t> after = requests();
  for (const auto& one : after) {
    MESSAGE(one.first << ": " << one.second - before[one.first] << " in 3 s");
    all += one.second - before[one.first];
  }
  const std::size_t polls = after["evalsha"] - before["evalsha"];
  CHECK(polls > 300);
  CHECK(polls < 1'400);  // three for each queue in ten poll_intervals of 100 ms: 900, or 1,200 by chance
  CHECK(all < 2'000);    // with the layout and the search for garbage 1,120, or 1,600
}

// How many reads a server needs for a take from so many queues, each of which has one message. All are due at the same
// time.
long reads_for_take(std::size_t count) {
  PrivateServer own;
  test::Redis client(own.socket());
  std::deque<Queue> queues;
  std::mutex mutex;
  std::vector<Delivery> held;
  const auto taken = [&] {
    const std::lock_guard lock(mutex);
    return held.size();
  };
  std::vector<Subscription> subscriptions;
  for (std::size_t i = 0; i < count; ++i) {
    subscriptions.push_back({queues.emplace_back(own.url()).name, [&](Delivery delivery) {
                               const std::lock_guard lock(mutex);
                               held.push_back(std::move(delivery));
                             }});
  }
  const auto consumer = serve(subscriptions, without_polls(count), own.url());
  consumer->start();
  REQUIRE(eventually([&] { return test::info("clients", "blocked_clients", client) == "1"; }, kPatience));
  const auto options = with(&SendOptions::at, std::chrono::ceil<milliseconds>(std::chrono::system_clock::now()) + 3s);
  for (Queue& queue : queues) queue.send("x", options);
  std::this_thread::sleep_until(*options.at - 500ms);
  const auto reads = [&] { return std::stol(test::info("stats", "total_reads_processed", client)); };
  const long before = reads();
  REQUIRE(taken() == 0);
  REQUIRE(eventually([&] { return taken() == count; }, kPatience));
  const long used = reads() - before - 1;
  {
    const std::lock_guard lock(mutex);
    for (Delivery& delivery : held) CHECK(std::move(delivery).ack());  // a dropped one would come back, into `held`
  }
  CHECK(consumer->stop(kPatience));
  return used;
}

TEST_CASE(
    "many queues: messages of a hundred queues that are due together are taken with as few writes as those of ten") {
  // On a busy machine the messages may become due while a take is under way. A read for each queue would be a hundred
  // in every run.
  const auto least = [](std::size_t queues, long bound) {
    long reads = reads_for_take(queues);
    for (int tries = 1; tries < 5 && reads > bound; ++tries) reads = std::min(reads, reads_for_take(queues));
    MESSAGE(reads << " reads of the server for " << queues << " queues");
    return reads;
  };
  CHECK(least(10, 20) <= 20);
  // More than those of ten, because Redis reads at most 16 KiB at a time.
  CHECK(least(100, 50) <= (TEST_SANITIZED ? 100 : 50));
}

TEST_CASE("many queues: an idle consumer of 40 queues polls as often as one of ten, and finds what nothing announced") {
  std::deque<Queue> queues(40);
  Ledger ledger;
  std::vector<Subscription> subscriptions;
  for (const Queue& queue : queues) subscriptions.push_back({queue.name, ledger.watch()});
  ConsumerOptions options = quick(4);
  options.tuning.poll_interval = 100ms;
  const auto consumer = serve(subscriptions, options);
  consumer->start();
  REQUIRE(is_listening());
  const auto calls = [] {
    const std::string line = test::info("commandstats", "cmdstat_evalsha");
    return std::stoul(line.substr(line.find('=') + 1));
  };
  std::this_thread::sleep_for(1500ms);  // the first polls
  const auto before = calls();
  const std::size_t layouts = test::calls_of("hmget");
  std::this_thread::sleep_for(2s);
  // Each queue reads the copies of partitions 0 and 1 every ten polls, thus every 4 s.
  CHECK(test::calls_of("hmget") - layouts < 120);
  const auto polls = (calls() - before) / 3;  // unack2retry, pending2ready, ready2unack
  MESSAGE(polls << " polls");
  CHECK(polls >= 10);
  CHECK(polls < 400);  // ten queues every 100 ms make 200; forty 800
  for (Queue& queue : queues) {
    queue.send("x", delayed(1h));
    test::redis().cmd({"DEL", queue.base + ":wake"});
  }
  for (const Queue& queue : queues) test::rewind(queue.base, 1h);
  CHECK(ledger.settles(40));
}

TEST_CASE("many queues: each queue wakes the idle consumer, also while the workers of another are all busy") {
  std::deque<Queue> queues(12);
  Gate gate;
  Ledger busy, ledger;
  std::vector<Subscription> subscriptions;
  for (const Queue& queue : queues) subscriptions.push_back({queue.name, ledger.watch()});
  subscriptions.front() = {queues.front().name, busy.watch([&](const Message&) {
                             gate.pass();
                             return ack();
                           }),
                           with_concurrency(1)};
  const auto consumer = serve(subscriptions, without_polls(3));
  consumer->start();
  REQUIRE(is_listening());
  for (std::size_t round = 1; round <= 2; ++round) {
    for (std::size_t i = 1; i < queues.size(); ++i) {
      queues[i].send("x");
      REQUIRE(ledger.settles((round - 1) * 11 + i));
    }
    fill(queues.front(), 20, "busy");
    REQUIRE(busy.reaches(1));
  }
  const auto soon = delayed(100ms);
  queues.back().send("soon", soon);
  CHECK(ledger.settles(23));
  gate.open();
  CHECK(busy.settles(40));
}

TEST_CASE("many queues: a wake-up key of a wrong type takes the wake-ups of no other queue") {
  Queue wrong, right;
  test::redis().cmd({"SET", wrong.base + ":wake", "text"});
  Ledger ledger;
  const auto consumer = serve({{wrong.name, ledger.watch()}, {right.name, ledger.watch()}}, without_polls(1));
  consumer->start();
  REQUIRE(is_listening());
  right.send("x");
  CHECK(ledger.settles(1));
}

TEST_CASE("many queues: the consumer's thread does not wait until it is known which wake-up key Redis refuses") {
  test::FaultProxy proxy(test::server().socket(), test::FaultProxy::Via::unix_socket);
  Queue wrong, right;
  const std::vector<std::string> keys = {wrong.base + ":wake", right.base + ":wake"};
  test::redis().cmd({"SET", keys[0], "text"});
  Endpoint endpoint(proxy.url(), right.name, {}, {});
  WakeupListener listener(endpoint, 1min, nullptr);
  listener.begin(keys, true);
  pollfd answer{listener.fd(), POLLIN, 0};
  REQUIRE(answer.fd >= 0);
  REQUIRE(::poll(&answer, 1, 60'000) == 1);  // Redis refuses both keys together
  proxy.hold_replies(true);
  const auto began = std::chrono::steady_clock::now();
  CHECK_FALSE(listener.read().has_value());
  CHECK(std::chrono::steady_clock::now() - began < 1s);
  CHECK(listener.works());
  CHECK_FALSE(listener.may_begin(std::chrono::steady_clock::now()));
  CHECK_FALSE(listener.leaves_out(keys[0]));
  proxy.hold_replies(false);
  CHECK(eventually([&] { return !listener.read() && listener.leaves_out(keys[0]) && listener.fd() < 0; }, kPatience));
  CHECK_FALSE(listener.leaves_out(keys[1]));
  listener.begin(keys, true);
  right.send("x");
  std::optional<WakeupListener::Marker> marker;
  CHECK(eventually([&] { return (marker = listener.read()).has_value(); }, kPatience));
  if (marker) CHECK(marker->key == keys[1]);
}

TEST_CASE("many queues: after the connection was lost all queues go on, with one new connection") {
  std::deque<Queue> queues(5);
  Ledger ledger;
  std::vector<Subscription> subscriptions;
  for (const Queue& queue : queues) subscriptions.push_back({queue.name, ledger.watch()});
  const auto consumer =
      serve(subscriptions, quick(2), {test::server().url(), with(&ClientOptions::client_name, "lost")});
  consumer->start();
  for (Queue& queue : queues) queue.send("x");
  REQUIRE(ledger.settles(5));
  CHECK(test::cut_connections("lost") >= 1);
  for (Queue& queue : queues) fill(queue, 100, "y");
  REQUIRE(ledger.settles(505));
  CHECK(eventually([&] { return consumer->metrics().stats.acked == 505; }, kPatience));
  CHECK(ledger.different() == 505);
  CHECK(consumer->metrics().stats.connects == 2);
  CHECK(consumer->metrics().stats.connected);
}

TEST_CASE("many queues: after a lost connection the checks of all queues take one round trip, not one for each queue") {
  test::FaultProxy proxy(test::server().socket(), test::FaultProxy::Via::unix_socket);
  std::deque<Queue> queues(40);
  Ledger ledger;
  std::vector<Subscription> subscriptions;
  for (const Queue& queue : queues) subscriptions.push_back({queue.name, ledger.watch()});
  const auto consumer = serve(subscriptions, quick(2), proxy.url());
  consumer->start();
  for (Queue& queue : queues) queue.send("x");
  REQUIRE(ledger.settles(40));
  proxy.delay(50ms);
  proxy.cut();
  queues.back().send("y");
  CHECK(eventually([&] { return ledger.different() == 41; }, 3500ms));  // 40 round trips would take 4 s
}

TEST_CASE("many queues: lease, backoff and retries are those of each queue") {
  Queue fast, slow;
  SubscriptionOptions at_once, in_an_hour;
  at_once.backoff = Backoff::fixed(0ms);
  in_an_hour.backoff = Backoff::fixed(1h);
  in_an_hour.lease = 2h;
  const auto options = with(&SendOptions::retries, 2);
  fast.send("x", options);
  const std::string waits = slow.send("x", options);
  Ledger of_fast, of_slow;
  const auto fails = [](const Message&) { return nack("no"); };
  const auto consumer =
      serve({{fast.name, of_fast.watch(fails), at_once}, {slow.name, of_slow.watch(fails), in_an_hour}}, quick(1));
  consumer->start();
  CHECK(eventually([&] { return fast.inspector.counts().dead == 1; }, kPatience));
  CHECK(of_fast.attempts("x") == std::vector<int>{1, 2, 3});
  REQUIRE(eventually([&] { return test::stats_of(*consumer, slow.name).nacked == 1; }, kPatience));
  CHECK(of_slow.attempts("x") == std::vector<int>{1});
  CHECK(slow.state(waits) == State::unack);
  CHECK(test::stats_of(*consumer, fast.name).dead_lettered == 1);
  CHECK(consumer->metrics().stats.dead_lettered == 1);
}

TEST_CASE("many queues: log lines and events name their queue") {
  Queue one, two;
  std::mutex mutex;
  std::vector<std::string> of_events;
  std::vector<std::string> lines;
  ConsumerOptions options = quick(1);
  options.on_event = [&](const Event& event) {
    const std::lock_guard lock(mutex);
    if (event.kind == EventKind::acked) of_events.push_back(event.queue);
  };
  options.logger = [&](const LogEntry& entry) {
    const std::lock_guard lock(mutex);
    if (entry.severity >= Severity::warning) lines.push_back(entry.line);
  };
  Ledger ledger;
  const auto consumer = serve({{one.name, ledger.watch()}, {two.name, ledger.watch()}}, options);
  test::redis().cmd({"SET", two.base + ":ready", "text"});
  consumer->start();
  one.send("x");
  REQUIRE(ledger.settles(1));
  CHECK(eventually([&] {
    const std::lock_guard lock(mutex);
    return of_events == std::vector<std::string>{one.name};
  }));
  CHECK(eventually([&] {
    const std::lock_guard lock(mutex);
    return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
      return line.rfind("queue " + two.name + ", consumer ", 0) == 0;
    });
  }));
  const std::lock_guard lock(mutex);
  CHECK(std::none_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.rfind("queue " + one.name + ",", 0) == 0; }));
}

}  // namespace
}  // namespace delayqueue
