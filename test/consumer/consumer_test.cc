// Delivery: on time, in order, and with few requests while idle.
#include "support/test.h"

#include <sys/resource.h>

namespace delayqueue {
namespace {

using std::chrono::system_clock;

std::size_t evalshas() {
  const std::string line = test::info("commandstats", "cmdstat_evalsha");
  return line.empty() ? 0 : static_cast<std::size_t>(std::stoul(line.substr(line.find('=') + 1)));
}

std::chrono::microseconds cpu_time() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

TEST_CASE("deliver: a delivery has the sent id, payload and attempt, and an ack leaves nothing stored") {
  Queue queue;
  std::string payload;
  for (int byte = 0; byte < 256; ++byte) payload += static_cast<char>(byte);
  const std::string id = queue.send(payload);
  const std::string empty = queue.send("");
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(consumer->stop());
  const auto entries = ledger.entries();
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].message.id() == id);
  CHECK(entries[0].message.payload() == payload);
  CHECK(entries[0].message.attempt() == 1);
  CHECK(entries[1].message.id() == empty);
  CHECK(entries[1].message.payload().empty());
  const ConsumerStats stats = consumer->metrics().stats;
  CHECK(stats.delivered == 2);
  CHECK(stats.acked == 2);
  CHECK(stats.nacked + stats.snoozed + stats.stale + stats.expired + stats.errors == 0);
  CHECK(stats.connects == 1);
  const Totals totals = queue.inspector.counts().totals;
  CHECK(totals.sent == 2);
  CHECK(totals.delivered == 2);
  CHECK(totals.acked == 2);
}

TEST_CASE("deliver: a handler sees how many retries its message has left") {
  Queue queue;
  std::vector<OutgoingMessage> messages;
  for (const int retries : {3, 0, 3, 1}) {
    messages.push_back({std::to_string(retries), {}});
    messages.back().options.retries = retries;
  }
  messages.push_back({"another program's", {}});
  const std::string strange = queue.producer.send_batch(messages)[4].id;
  test::redis().cmd({"HSET", queue.base + ":retry:cnt", strange, "2.5"});
  Ledger ledger;
  ConsumerOptions options = quick(1);
  options.backoff = Backoff::fixed(1ms);
  const auto consumer = queue.consumer(ledger.watch([](const Message&) { return nack(); }), options);
  consumer->start();
  CHECK(eventually([&] { return queue.inspector.counts().dead == 5; }, kPatience));
  std::map<std::string, std::vector<int>> seen;
  for (const auto& entry : ledger.entries()) seen[entry.message.payload()].push_back(entry.message.retries_left());
  CHECK((seen["0"] == std::vector<int>{0}));
  CHECK((seen["1"] == std::vector<int>{1, 0}));
  CHECK((seen["another program's"] == std::vector<int>{0}));
  REQUIRE(seen["3"].size() == 8);
  std::sort(seen["3"].begin(), seen["3"].end());
  CHECK((seen["3"] == std::vector<int>{0, 0, 1, 1, 2, 2, 3, 3}));
  for (const auto& entry : ledger.entries()) {
    CHECK(entry.message.queue() == queue.name);
    CHECK(entry.message.sent_at());
  }
}

TEST_CASE("stats: running handlers and prefetched messages are all that is in flight; after stop there are none") {
  Queue queue;
  queue.producer.send_batch(test::numbers(4000));
  Gate gate;
  std::atomic<bool> has_prefetched{false};
  ConsumerPtr consumer;
  consumer = queue.consumer(
      [&](const Message&) {
        if (consumer->metrics().stats.prefetched >= 8) has_prefetched = true;
        if (has_prefetched) gate.pass();
        return ack();
      },
      quick(2));
  consumer->start();
  const auto is_settled = [&] {
    const ConsumerStats stats = consumer->metrics().stats;
    return stats.running == 2 && stats.running + stats.prefetched == queue.inspector.counts().unack;
  };
  CHECK(eventually(is_settled, kPatience));
  CHECK(consumer->metrics().stats.prefetched > 0);
  std::thread opener([&] {
    eventually([&] { return consumer->metrics().stats.prefetched == 0; },
               kPatience);  // stop() returns these to the queue
    CHECK(consumer->metrics().stats.running == 2);
    gate.open();
  });
  CHECK(consumer->stop());
  opener.join();
  const ConsumerStats stats = consumer->metrics().stats;
  CHECK(stats.running == 0);
  CHECK(stats.prefetched == 0);
  CHECK(stats.acked + queue.inspector.counts().ready == 4000);
}

TEST_CASE("deliver: large and small payloads of one batch arrive unchanged") {
  Queue queue;
  const auto options = with(&ProducerOptions::max_payload, 8 * 1024 * 1024);
  Producer producer(queue.url, queue.name, options);
  std::vector<std::string> sent;
  for (std::size_t i = 0; i < 60; ++i) {
    const std::size_t size = i == 30 ? options.max_payload : i % 10 == 0 ? 1024 * 1024 : i;
    sent.push_back(std::string(size, static_cast<char>('a' + i % 26)));
  }
  producer.send_batch(sent);
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  REQUIRE(ledger.settles(sent.size()));
  // A large payload that is slow to arrive is fetched alone, and then comes later.
  std::vector<std::string> arrived = ledger.payloads();
  std::sort(arrived.begin(), arrived.end());
  std::sort(sent.begin(), sent.end());
  CHECK((arrived == sent));
}

TEST_CASE("deliver: no message is delivered before its due time on Redis' clock") {
  Queue queue;
  const auto now = std::chrono::time_point_cast<milliseconds>(system_clock::now());
  std::mutex mutex;
  std::vector<long long> margins;  // delay from the due time to the handler's start, in us
  const auto consumer = queue.consumer(
      [&](const Message& message) {
        const long long began = test::redis_time_us();
        const std::lock_guard lock(mutex);
        margins.push_back(began - std::stoll(message.payload()));
        return ack();
      },
      quick(4));
  consumer->start();
  for (int i = 0; i < 100; ++i) {
    const auto options = with(&SendOptions::at, now + milliseconds(100 + 7 * i));
    const auto due = std::chrono::duration_cast<std::chrono::microseconds>(options.at->time_since_epoch());
    queue.send(std::to_string(due.count()), options);
  }
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(consumer->stop());
  REQUIRE(margins.size() == 100);
  for (const long long margin : margins) CHECK(margin >= 0);
}

TEST_CASE("deliver: a consumer sleeps until the next due time, even with a long poll_interval") {
  Queue queue;
  for (const auto delay : {300ms, 600ms, 900ms}) {
    queue.send(std::to_string(delay.count()), delayed(delay));
  }
  Ledger ledger;
  ConsumerOptions options = quick();
  options.tuning.poll_interval = 10min;
  const auto consumer = queue.consumer(ledger.watch(), options);
  consumer->start();
  CHECK(ledger.reaches(3));
  CHECK(ledger.payloads() == std::vector<std::string>{"300", "600", "900"});
}

TEST_CASE("deliver: messages arrive in the order in which they became ready") {
  Queue queue;
  const std::vector<std::string> payloads = test::numbers(1500);
  queue.producer.send_batch(payloads);
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  REQUIRE(ledger.reaches(payloads.size()));
  CHECK((ledger.payloads() == payloads));
}

TEST_CASE("deliver: pending messages arrive in the order of due times, and of sending if those are equal") {
  Queue queue;
  std::vector<OutgoingMessage> messages;
  for (int i = 0; i < 400; ++i) {
    OutgoingMessage message{std::to_string(i), {}};
    message.options.at = system_clock::time_point(std::chrono::hours(24) * (80'000 - i / 4));
    messages.push_back(message);
  }
  queue.producer.send_batch(messages);
  test::redis().cmd({"EVAL",
                     "local k = KEYS[1] for i, v in ipairs(redis.call('ZRANGE', k, 0, -1, 'WITHSCORES')) do "
                     "if i % 2 == 1 then redis.call('ZINCRBY', k, -7500000000, v) end end",
                     "1", queue.base + ":pending"});
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  REQUIRE(ledger.reaches(messages.size()));
  std::vector<std::string> expected;
  for (int day = 99; day >= 0; --day) {
    for (int i = 0; i < 4; ++i) expected.push_back(std::to_string(day * 4 + i));
  }
  CHECK((ledger.payloads() == expected));
}

TEST_CASE("deliver: as many handlers run at the same time as concurrency allows, and no more") {
  Queue queue;
  queue.producer.send_batch(std::vector<std::string>(30, "x"));
  test::Gate gate;
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch([&](const Message&) {
    gate.pass();
    return ack();
  }),
                                       quick(5));
  consumer->start();
  CHECK(eventually([&] { return ledger.running() == 5; }, kPatience));
  gate.open();
  CHECK(ledger.settles(30));
  CHECK(ledger.most_running() == 5);
}

TEST_CASE("deliver: slow handlers hold only the messages that they handle; other consumers get the rest") {
  Queue queue;
  queue.producer.send_batch(std::vector<std::string>(100, "x"));
  test::Gate gate;
  Ledger slow;
  const auto first = queue.consumer(slow.watch([&](const Message&) {
    gate.pass();
    return ack();
  }),
                                    quick(2));
  first->start();
  REQUIRE(eventually([&] { return slow.running() == 2; }, kPatience));
  Ledger others;
  const auto second = queue.consumer(others.watch());
  second->start();
  CHECK(others.settles(98));
  CHECK(slow.size() == 2);
}

TEST_CASE("deliver: a consumer takes nothing from a paused queue") {
  Queue queue;
  queue.admin.pause();
  queue.send("x");
  const auto later = delayed(1h);
  queue.send("later", later);
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  test::rewind(queue.base, 2h);
  const std::size_t calls_before = evalshas();
  CHECK(eventually([&] { return evalshas() > calls_before + 60; }, kPatience));
  CHECK(ledger.size() == 0);
  CHECK(queue.inspector.counts().ready == 2);
  queue.admin.resume();
  CHECK(ledger.settles(2));
  queue.admin.pause({200ms, "stock-taking"});
  queue.send("by itself");
  CHECK(ledger.settles(3));
}

TEST_CASE("deliver: an idle consumer sends at most five requests a second, and does not spin") {
  Queue queue;
  const auto later = delayed(1h);
  queue.send("later", later);
  const auto options = with(&ConsumerOptions::concurrency, 4);
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), options);
  consumer->start();
  REQUIRE(eventually([] { return evalshas() > 0; }, kPatience));
  const auto begin = std::chrono::steady_clock::now();
  const std::size_t before = evalshas();
  const auto cpu = cpu_time();
  std::this_thread::sleep_for(3s);  // measures an idle consumer
  const std::size_t calls = evalshas() - before;
  const auto took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  CHECK(static_cast<double>(calls) <= 5 * took + 5);
  CHECK(cpu_time() - cpu < 1s);
  CHECK(ledger.size() == 0);
}

TEST_CASE("deliver: consumers share a queue, and each message goes to one of them") {
  Queue queue;
  queue.producer.send_batch(std::vector<std::string>(2000, "x"));
  Ledger ledger;
  std::vector<test::ConsumerPtr> consumers;
  for (int i = 0; i < 4; ++i) {
    consumers.push_back(queue.consumer(ledger.watch(), quick(2)));
    consumers.back()->start();
  }
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(ledger.size() == 2000);
  CHECK(ledger.different() == 2000);
  for (const auto& consumer : consumers) CHECK(consumer->stop());
}

TEST_CASE("deliver: a consumer gets no messages of another queue or of another prefix") {
  Queue one, two;
  ClientOptions options;
  options.keys.prefix = "mine";
  Producer other({one.url, options}, one.name);
  one.send("one");
  two.send("two");
  other.send("other");
  Ledger ledger;
  const auto consumer = one.consumer(ledger.watch());
  consumer->start();
  CHECK(eventually([&] { return one.empty(); }, kPatience));
  CHECK(consumer->stop());
  CHECK(ledger.payloads() == std::vector<std::string>{"one"});
  CHECK(two.inspector.counts().ready == 1);
  Ledger others;
  const auto its = one.consumer(others.watch(), quick(), options);
  its->start();
  CHECK(others.settles(1));
  CHECK(others.payloads() == std::vector<std::string>{"other"});
}

TEST_CASE("events: the events of a message arrive in order, with its id") {
  Queue queue;
  std::mutex mutex;
  std::vector<Event> events;
  ConsumerOptions options = quick();
  options.on_event = [&](const Event& event) {
    const std::lock_guard lock(mutex);
    events.push_back(event);
    throw std::runtime_error("callbacks may throw");
  };
  std::atomic<int> errors{0};
  options.logger = [&](const LogEntry& entry) {
    if (entry.severity == Severity::error) ++errors;
    throw 42;
  };
  SendOptions sending;
  sending.delay = 10ms;
  sending.retries = 1;
  const std::string id = queue.send("x", sending);
  const auto consumer = queue.consumer([](const Message&) { return nack("no"); }, options);
  consumer->start();
  REQUIRE(eventually([&] { return queue.inspector.counts().dead == 1; }, kPatience));
  REQUIRE(queue.admin.redrive({id}, {0}).front() == Outcome::done);
  const auto received = [&] {
    const std::lock_guard lock(mutex);
    std::vector<EventKind> kinds;
    kinds.reserve(events.size());
    for (const Event& event : events) kinds.push_back(event.kind);
    return kinds;
  };
  using K = EventKind;
  const std::vector<K> expected = {K::ready,  K::delivered,     K::nacked,    K::retried, K::delivered,
                                   K::nacked, K::dead_lettered, K::delivered, K::nacked,  K::dead_lettered};
  CHECK(eventually([&] { return received().size() >= expected.size(); }, kPatience));
  CHECK(consumer->stop());
  CHECK((received() == expected));
  for (const Event& event : events) {
    CHECK(event.ids == std::vector<std::string>{id});
    CHECK(event.queue == queue.name);
  }
  CHECK(errors >= static_cast<int>(expected.size()));
}

TEST_CASE("log: every line names the queue, and a consumer's lines name the end of its id") {
  PrivateServer own;
  const std::string plain = test::fresh_queue();
  const std::string name = plain + u8"\u2028forged";  // U+2028 is a line separator
  const std::string shown = plain + "\\xe2\\x80\\xa8forged";
  struct CapturedLog {
    std::mutex mutex;
    std::vector<std::string> lines;
  } logs[3];
  const auto logger = [](CapturedLog& to) {
    return [&to](const LogEntry& entry) {
      const std::lock_guard lock(to.mutex);
      to.lines.push_back(entry.line);
    };
  };
  const auto fail = [](const Event&) { throw std::runtime_error("callbacks may throw"); };
  std::vector<std::unique_ptr<Consumer>> consumers;
  for (int i : {0, 1}) {
    ConsumerOptions options = quick();
    options.logger = logger(logs[i]);
    options.on_event = fail;
    consumers.push_back(std::make_unique<Consumer>(
        own.url(), name, [](const Message&) { return nack(-1s); }, options));
    consumers.back()->start();
  }
  ProducerOptions options;
  options.logger = logger(logs[2]);
  options.on_event = fail;
  Producer producer(own.url(), name, options);
  const auto once = with(&SendOptions::retries, 0);
  for (int i = 0; i < 50; ++i) producer.send("x", once);
  REQUIRE(eventually([&] { return Inspector(own.url(), name).counts().dead == 50; }, kPatience));
  own.stop();
  CHECK(eventually([&] { return consumers[0]->metrics().stats.errors + consumers[1]->metrics().stats.errors >= 4; },
                   kPatience));
  own.restart();
  for (const auto& consumer : consumers) {
    CHECK(eventually([&] { return consumer->metrics().stats.connected; }, kPatience));
    CHECK(consumer->stop());
  }
  std::string starts[3];
  for (int i = 0; i < 3; ++i) {
    const std::lock_guard lock(logs[i].mutex);
    REQUIRE(!logs[i].lines.empty());
    const std::string head = "queue " + shown + (i < 2 ? ", consumer " : ": ");
    starts[i] = logs[i].lines[0].substr(0, head.size() + (i < 2 ? 10 : 0));
    CHECK(starts[i].substr(0, head.size()) == head);
    if (i < 2) CHECK(starts[i].find_first_not_of("0123456789abcdef", head.size()) == head.size() + 8);
    for (const std::string& line : logs[i].lines) CHECK(line.rfind(starts[i], 0) == 0);
  }
  CHECK(starts[0] != starts[1]);
}

}  // namespace
}  // namespace delayqueue
