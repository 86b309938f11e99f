// Verdicts of handlers, and the state of the message after each.
#include "support/test.h"

#include "support/answers.h"

namespace delayqueue {
namespace {

using test::Lines;

SendOptions retrying(int retries) { return with(&SendOptions::retries, retries); }

// Runs a consumer until its handler has returned `deliveries` times, and stops it. All verdicts are then settled.
ConsumerStats run_until(Queue& queue, const test::MessageHandler& handler, std::size_t deliveries,
                        const ConsumerOptions& options = quick()) {
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(handler), options);
  consumer->start();
  REQUIRE(ledger.settles(deliveries));
  REQUIRE(consumer->stop());
  CHECK(ledger.size() == deliveries);
  return consumer->metrics().stats;
}

MessageInfo found(Queue& queue, const std::string& id) {
  auto info = queue.inspector.find(id);
  REQUIRE(info);
  return *info;
}

TEST_CASE("retry: n retries allow n + 1 deliveries; after the last the message is a dead letter with the last reason") {
  for (const int retries : {0, 1, 3}) {
    CAPTURE(retries);
    Queue queue;
    const std::string id = queue.send("x", retrying(retries));
    Ledger ledger;
    const auto consumer = queue.consumer(
        ledger.watch([](const Message& message) { return nack("failed " + std::to_string(message.attempt())); }));
    consumer->start();
    CHECK(eventually([&] { return queue.inspector.counts().dead == 1; }, kPatience));
    CHECK(consumer->stop());
    std::vector<int> expected;
    for (int attempt = 1; attempt <= retries + 1; ++attempt) expected.push_back(attempt);
    CHECK(ledger.attempts("x") == expected);
    CHECK(consumer->metrics().stats.dead_lettered == 1);
    const MessageInfo dead = found(queue, id);
    CHECK(dead.state == State::dead);
    CHECK(dead.reason == "failed " + std::to_string(retries + 1));
    CHECK(dead.payload == "x");
    const Totals totals = queue.inspector.counts().totals;
    CHECK(totals.retried == static_cast<std::uint64_t>(retries));
    CHECK(totals.dead_lettered == 1);
    CHECK(totals.nacked == static_cast<std::uint64_t>(retries) + 1);
  }
}

TEST_CASE("nack: the message waits for the given delay; the next delivery has one retry less") {
  Queue queue;
  const std::string id = queue.send("x");
  run_until(
      queue, [](const Message&) { return nack(1h, "gateway timed out"); }, 1);
  const MessageInfo waits = found(queue, id);
  CHECK(waits.state == State::unack);
  CHECK(!waits.held);
  CHECK(waits.reason == "gateway timed out");
  CHECK(waits.retries == 3);
  CHECK(*waits.at <= queue.inspector.counts().now + 1h + 2ms);
  CHECK(*waits.at > queue.inspector.counts().now + 30min);
  test::rewind(queue.base, 2h);
  run_until(
      queue, [](const Message& message) { return message.attempt() == 2 ? nack(1h) : nack(2h); }, 1);
  CHECK(found(queue, id).retries == 2);
  test::rewind(queue.base, 2h);
  CHECK(run_until(
            queue, [](const Message& message) { return test::ack_if(message.attempt() == 3); }, 1)
            .acked == 1);
  CHECK(queue.empty());
}

TEST_CASE("backoff: the function gets the attempt, and the consumer waits as long as it returns") {
  Queue queue;
  const std::string id = queue.send("x", retrying(3));
  std::mutex mutex;
  std::vector<int> attempts_seen;
  ConsumerOptions options = quick();
  options.backoff = [&](int attempt) {
    const std::lock_guard lock(mutex);
    attempts_seen.push_back(attempt);
    return std::chrono::hours(attempt);
  };
  for (int attempt = 1; attempt <= 3; ++attempt) {
    run_until(
        queue, [](const Message&) { return nack("no"); }, 1, options);
    const auto wait = *found(queue, id).at - queue.inspector.counts().now;
    CHECK(wait <= std::chrono::hours(attempt) + 2ms);  // rounded up to a whole ms, never a whole second
    CHECK(wait > std::chrono::hours(attempt) - 30min);
    test::rewind(queue.base, std::chrono::hours(attempt) + 1min);
  }
  CHECK(attempts_seen == std::vector<int>{1, 2, 3});
}

TEST_CASE("backoff: a function that throws or returns a negative delay loses no message") {
  const Backoff bad[] = {
      [](int) -> milliseconds { throw std::runtime_error("no idea"); },
      [](int) -> milliseconds { throw 42; },
      [](int) { return milliseconds(-5); },
      [](int) { return milliseconds::min(); },
  };
  for (const Backoff& backoff : bad) {
    Queue queue;
    queue.send("x");
    ConsumerOptions options = quick();
    options.backoff = backoff;
    Ledger ledger;
    const auto consumer = queue.consumer(
        ledger.watch([](const Message& message) { return test::ack_if(message.attempt() == 2); }), options);
    consumer->start();
    CHECK(eventually([&] { return queue.empty(); }, kPatience));
    CHECK(consumer->stop());
    CHECK(ledger.attempts("x") == std::vector<int>{1, 2});
  }
}

TEST_CASE("verdicts: an invalid delay is logged once for each kind, with its value and the delay used instead") {
  Queue queue;
  for (const char* payload : {"nack", "nack", "snooze", "long", "backoff"}) queue.send(payload);
  Lines lines;
  ConsumerOptions options = quick();
  options.logger = lines.logger();
  options.backoff = [](int) -> milliseconds { throw std::runtime_error("no idea"); };
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch([](const Message& message) -> Verdict {
    if (message.payload() == "long") return snooze(std::chrono::hours(24LL * 365 * 1000));
    if (message.attempt() > 1 || message.payload() == "snooze") return message.attempt() > 1 ? ack() : snooze(-5s);
    return message.payload() == "nack" ? nack(-7s) : nack();
  }),
                                       options);
  consumer->start();
  CHECK(eventually([&] { return !lines.find("the backoff threw: no idea; taken as 1000 ms").empty(); }, kPatience));
  CHECK(eventually([&] { return !lines.find("nack: a wait of -7000 ms; expected 0 to a").empty(); }, kPatience));
  CHECK(eventually([&] { return !lines.find("snooze: a wait of ").empty(); }, kPatience));
  CHECK(consumer->stop());
  CHECK(lines.count() == 3);
}

TEST_CASE("backoff: the longest possible delay keeps the message") {
  Queue queue;
  const std::string by_function = queue.send("function");
  const std::string by_verdict = queue.send("verdict");
  const std::string snoozed = queue.send("snoozed", with(&SendOptions::ttl, 1h));
  ConsumerOptions options = quick();
  options.backoff = [](int) { return milliseconds::max(); };
  run_until(
      queue,
      [](const Message& message) {
        if (message.payload() == "snoozed") return snooze(milliseconds::max());
        return message.payload() == "verdict" ? nack(milliseconds::max(), "no") : nack("no");
      },
      3, options);
  CHECK(found(queue, by_function).state == State::unack);
  CHECK(found(queue, by_verdict).state == State::unack);
  CHECK(found(queue, snoozed).state == State::pending);
}

TEST_CASE("reject: the message is a dead letter at once, with its reason, even with retries left") {
  Queue queue;
  const std::string id = queue.send("x", retrying(5));
  const ConsumerStats stats = run_until(
      queue, [](const Message&) { return reject("no such order"); }, 1);
  CHECK(stats.nacked == 1);
  CHECK(stats.dead_lettered == 1);
  const MessageInfo dead = found(queue, id);
  CHECK(dead.state == State::dead);
  CHECK(dead.reason == "no such order");
  CHECK(dead.deliveries == 1);
  CHECK(!dead.retries);
}

TEST_CASE("snooze: the message is delivered again later, with the same attempt") {
  Queue queue;
  const std::string id = queue.send("x", retrying(2));
  const ConsumerStats stats = run_until(
      queue, [](const Message&) { return snooze(3h); }, 1);
  CHECK(stats.snoozed == 1);
  for (int round = 0; round < 3; ++round) {
    const MessageInfo later = found(queue, id);
    CHECK(later.state == State::pending);
    CHECK(later.retries == 2);
    CHECK(*later.at > queue.inspector.counts().now + 2h);
    test::rewind(queue.base, 4h);
    run_until(
        queue, [](const Message& message) { return message.attempt() == 1 ? snooze(3h) : reject("counted"); }, 1);
  }
  test::rewind(queue.base, 4h);
  CHECK(run_until(
            queue, [](const Message& message) { return test::ack_if(message.attempt() == 1); }, 1)
            .acked == 1);
  CHECK(queue.empty());
}

TEST_CASE("snooze: without a delay the message is delivered at once; the attempt of an earlier failure stays") {
  Queue queue;
  const std::string id = queue.send("x", retrying(1));
  int calls = 0;
  run_until(
      queue,
      [&](const Message& message) {
        ++calls;  // one worker: no lock
        if (message.attempt() == 1) return nack(0ms, "first");
        return calls < 5 ? snooze(0ms) : reject("attempt " + std::to_string(message.attempt()));
      },
      5);
  CHECK(found(queue, id).reason == "attempt 2");
}

TEST_CASE("a handler that throws nacks; the reason is the exception's text, with its type if it is no std::exception") {
  struct Row {
    test::MessageHandler handler;
    std::string reason;
  };
  const std::string long_text(3000, 'r');
  const Row rows[] = {
      {[](const Message&) -> Verdict { throw std::runtime_error("card refused"); }, "card refused"},
      {[&](const Message&) -> Verdict { throw std::logic_error(long_text); }, std::string(1024, 'r')},
      {[](const Message&) -> Verdict { throw std::string("a string"); }, "a string (a std::string, no std::exception)"},
      {[](const Message&) -> Verdict { throw 42; }, "42 (an int, no std::exception)"},
      {[](const Message&) -> Verdict { return nack(); }, ""},
      {[&](const Message&) { return reject(long_text); }, std::string(1024, 'r')},
  };
  for (const Row& row : rows) {
    CAPTURE(row.reason);
    Queue queue;
    const std::string id = queue.send("x", retrying(0));
    CHECK(run_until(queue, row.handler, 1).nacked == 1);
    const MessageInfo dead = found(queue, id);
    CHECK(dead.state == State::dead);
    CHECK(dead.reason.find(row.reason) != std::string::npos);
    CHECK(dead.reason.size() <= 1024);
  }
}

TEST_CASE("a reason may contain all byte values") {
  Queue queue;
  std::string reason;
  for (int byte = 0; byte < 256; ++byte) reason += static_cast<char>(byte);
  const std::string id = queue.send("x");
  run_until(
      queue, [&](const Message&) { return reject(reason); }, 1);
  CHECK(found(queue, id).reason == reason);
}

TEST_CASE("dead letters: with a retention of zero none are kept, and nothing stays stored") {
  Queue queue;
  queue.send("rejected");
  queue.send("out of retries", retrying(0));
  ConsumerOptions options = quick();
  options.dead_retention = 0ms;
  Ledger ledger;
  const auto consumer = queue.consumer(
      ledger.watch([](const Message& message) { return message.payload() == "rejected" ? reject() : nack(); }),
      options);
  consumer->start();
  CHECK(ledger.settles(2));
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(queue.inspector.counts().totals.dead_lettered == 2);
}

TEST_CASE("dead letters: they are kept for dead_retention, even after their TTL, and then removed completely") {
  Queue queue;
  const auto mortal = with(&SendOptions::ttl, 1h);
  const std::string id = queue.send("rejected", mortal);
  const std::string other = queue.send("nacked", [&] {
    SendOptions options = mortal;
    options.retries = 0;
    return options;
  }());
  const auto handler = [](const Message& message) {
    return message.payload() == "rejected" ? reject("no") : nack("no");
  };
  run_until(queue, handler, 2);
  for (const std::string& one : {id, other}) {
    CHECK(test::redis().cmd({"PTTL", queue.base + ":msg:" + one}) == -1);
  }
  test::rewind(queue.base, 6 * 24h);
  queue.send("next");
  run_until(
      queue, [](const Message&) { return ack(); }, 1);
  CHECK(queue.inspector.counts().dead == 2);
  test::rewind(queue.base, 2 * 24h);
  const auto consumer = queue.consumer(handler);
  consumer->start();
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
}

TEST_CASE("dead letters: only the newest dead_limit are kept, and a log line reports the trim") {
  Queue queue;
  const std::vector<std::string> payloads = test::numbers(450);
  queue.producer.send_batch(payloads);
  run_until(
      queue, [](const Message&) { return reject("no"); }, payloads.size());
  CHECK(queue.inspector.counts().dead == 450);
  std::mutex mutex;
  std::vector<std::string> lines;
  ConsumerOptions options = quick();
  options.dead_limit = 3;
  options.logger = [&](const LogEntry& entry) {
    const std::lock_guard lock(mutex);
    lines.push_back(entry.line);
  };
  const auto consumer = queue.consumer([](const Message&) { return ack(); }, options);
  consumer->start();
  CHECK(eventually([&] { return queue.inspector.counts().dead == 3 && queue.inspector.counts().garbage == 0; },
                   kPatience));
  CHECK(consumer->stop());
  std::vector<std::string> left;
  for (const MessageInfo& one : queue.inspector.list(State::dead)) left.push_back(one.payload);
  CHECK(left == std::vector<std::string>{"447", "448", "449"});
  CHECK(std::any_of(lines.begin(), lines.end(),
                    [](const auto& line) { return line.find("trimmed") != std::string::npos; }));
}

TEST_CASE("a message whose TTL has ended is not delivered, counts as expired, and leaves nothing stored") {
  Queue queue;
  auto mortal = with(&SendOptions::ttl, 1ms);
  const std::string id = queue.send("too late", mortal);
  mortal.delay = 1h;
  queue.send("pending", mortal);
  queue.send("in time");
  test::redis().cmd({"DEL", queue.base + ":msg:" + queue.inspector.list(State::pending).messages.at(0).id});
  REQUIRE(eventually([&] { return test::redis().cmd({"EXISTS", queue.base + ":msg:" + id}) == 0; }, kPatience));
  test::rewind(queue.base, 2h);
  Ledger ledger;
  int notes = 0;
  std::string evictions;
  ConsumerOptions options = test::quick();
  options.logger = [&](const LogEntry& entry) {  // read after stop()
    notes += entry.severity == Severity::info &&
             entry.line.find("whose bodies are gone: their TTL has ended") != entry.line.npos;
    if (entry.line.find("evict") != entry.line.npos) evictions += entry.line;
  };
  const auto consumer = queue.consumer(ledger.watch(), options);
  consumer->start();
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(consumer->stop());
  CHECK(notes == 1);
  CHECK(evictions.empty());
  CHECK(ledger.payloads() == std::vector<std::string>{"in time"});
  CHECK(consumer->metrics().stats.expired == 2);
  CHECK(consumer->metrics().stats.prefetched == 0);
  CHECK(queue.inspector.counts().totals.expired == 2);
}

// The process remembers that a server may evict, so this is the last test.
TEST_CASE(
    "messages without a body are a warning only if the server evicts, or if the options of the queue may differ") {
  const auto logged = [](const KeyOptions& of_producer, const KeyOptions& of_consumer, bool gone) {
    const std::string url = test::server().url();
    const std::string queue = test::fresh_queue();
    const std::string id = Producer({url, with(&ClientOptions::keys, of_producer)}, queue).send("x").id;
    if (gone) test::redis().cmd({"DEL", "dp:" + queue + ":msg:" + id});
    test::Lines lines;
    ConsumerOptions options = test::quick();
    options.logger = lines.logger();
    Consumer consumer(
        {url, with(&ClientOptions::keys, of_consumer)}, queue, [](const Message&) { return ack(); }, options);
    consumer.start();
    CHECK(eventually([&] { return consumer.metrics().stats.expired == 1; }, kPatience));
    CHECK(consumer.stop());
    const bool warned = lines.count(Severity::warning, "whose bodies are gone") == 1;
    return (warned ? "warning: " : "info: ") + lines.find("whose bodies are gone", Severity::info);
  };
  KeyOptions plain, tenant, with_go;
  tenant.prefix = with_go.prefix = "tenant";
  with_go.go.bodies_under_dp = true;
  const std::string mismatch = logged(with_go, tenant, false);
  CHECK(mismatch.find("warning: ") == 0);
  CHECK(mismatch.find("producers use other key options") != std::string::npos);
  const std::string ended = logged(plain, plain, true);
  CHECK(ended.find("info: ") == 0);
  CHECK(ended.find("other key options") == std::string::npos);
  test::redis().cmd({"CONFIG", "SET", "maxmemory", "1gb", "maxmemory-policy", "allkeys-lru"});
  CHECK(logged(plain, plain, true).find("their TTL has ended, or Redis evicted them") != std::string::npos);
  test::redis().cmd({"CONFIG", "SET", "maxmemory", "0", "maxmemory-policy", "noeviction"});
}

}  // namespace
}  // namespace delayqueue
