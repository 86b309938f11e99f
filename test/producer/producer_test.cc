#include "support/test.h"

namespace delayqueue {
namespace {

using std::chrono::system_clock;
using test::named;
using test::redis;

TEST_CASE("send: an invalid option throws with its name and value, and nothing is stored") {
  Queue queue;
  struct Bad {
    std::string expected;
    std::function<void(SendOptions&)> set;
  };
  const Bad rows[] = {
      {"delay: -1 ms", [](SendOptions& o) { o.delay = -1ms; }},
      {"delay: ", [](SendOptions& o) { o.delay = milliseconds::max(); }},
      {"delay: 5 ms", [](SendOptions& o) { o.delay = 5ms, o.at = system_clock::now(); }},
      {"at: -1 ms", [](SendOptions& o) { o.at = system_clock::time_point(-1ms); }},
      {"at: ", [](SendOptions& o) { o.at = system_clock::time_point::min(); }},
      {"at: 7258118400000 ms after 1970; expected a time from 1970 to the end of 2199",
       [](SendOptions& o) { o.at = system_clock::time_point(7'258'118'400s); }},
      {"at: ", [](SendOptions& o) { o.at = system_clock::time_point::max(); }},
      {"retries: -1", [](SendOptions& o) { o.retries = -1; }},
      {"ttl: 0 ms", [](SendOptions& o) { o.ttl = 0ms; }},
      {"ttl: -7 ms", [](SendOptions& o) { o.ttl = -7ms; }},
      {"ttl: ", [](SendOptions& o) { o.ttl = milliseconds::max(); }},
      {"id: \"order-42\"", [](SendOptions& o) { o.id = "order-42"; }},
      {"id: ", [](SendOptions& o) { o.id = "0197f3a45b6c7d8e9f0123456789abcd"; }},
      {"id: ", [](SendOptions& o) { o.id = std::string(kId) + "x"; }},
      {"id: ", [](SendOptions& o) { o.id = "0197f3a4-5b6c-7d8e-9f01-23456789abcg"; }},
  };
  for (const Bad& row : rows) {
    CAPTURE(&row - rows);
    CAPTURE(row.expected);
    SendOptions options;
    row.set(options);
    const std::string one = thrown([&] { queue.producer.send("x", options); });
    CAPTURE(one);
    CHECK(has(one, "invalid_argument: " + row.expected));
    const std::string batch = thrown([&] {
      queue.producer.send_batch({OutgoingMessage{"good", {}}, OutgoingMessage{"x", options}});
    });
    CAPTURE(batch);
    CHECK(has(batch, "invalid_argument: " + row.expected));
  }
  const std::string shared = thrown([&] { queue.producer.send_batch({"a", "b"}, named(kId)); });
  CHECK(has(shared, std::string("invalid_argument: id: ") + kId));
  CHECK(queue.kept().empty());
}

TEST_CASE("cancel and reschedule: an invalid id or time throws with its name and value") {
  Queue queue;
  RescheduleOptions when;
  CHECK(has(thrown([&] { return queue.producer.cancel("x"); }), "invalid_argument: id: \"x\""));
  CHECK(has(thrown([&] { return queue.producer.reschedule("", when); }), "invalid_argument: id: \"\""));
  when.delay = -3ms;
  CHECK(has(thrown([&] { return queue.producer.reschedule(kId, when); }), "invalid_argument: delay: -3 ms"));
  when.delay = 3ms;
  when.at = system_clock::now();
  CHECK(has(thrown([&] { return queue.producer.reschedule(kId, when); }), "invalid_argument: delay: 3 ms"));
  when.delay = 0ms;
  when.at = system_clock::time_point(-1h);
  CHECK(has(thrown([&] { return queue.producer.reschedule(kId, when); }), "invalid_argument: at: -3600000 ms"));
}

TEST_CASE("send: a payload over max_payload throws with both sizes, and nothing of its batch is stored") {
  Queue queue;
  const std::string full(1024 * 1024, 'f');
  CHECK(queue.producer.send(full).created());
  const auto before = queue.kept();
  const std::string error = thrown([&] { queue.producer.send(full + "x"); });
  CHECK(has(error, "invalid_argument: payload: 1048577 bytes"));
  CHECK(has(error, "max_payload = 1048576"));
  CHECK(has(thrown([&] { queue.producer.send_batch({"small", full + "x"}); }), "payload: 1048577"));
  CHECK(queue.kept() == before);

  Producer strict(queue.url, queue.name, with(&ProducerOptions::max_payload, 0));
  CHECK(strict.send("").created());
  CHECK(has(thrown([&] { strict.send("x"); }), "payload: 1 bytes"));
}

TEST_CASE("send: a payload may be empty, and may contain all byte values") {
  Queue queue;
  std::string every;
  for (int repeat = 0; repeat < 3; ++repeat) {
    for (int byte = 0; byte < 256; ++byte) every += static_cast<char>(byte);
  }
  for (const std::string& payload : {every, std::string(), std::string(1, '\0'), std::string("\r\n$3\r\n")}) {
    const auto found = queue.inspector.find(queue.send(payload));
    REQUIRE(found);
    CHECK(found->payload == payload);
    CHECK(found->size == payload.size());
  }
}

TEST_CASE("send: a payload of 8 MiB arrives unchanged when max_payload allows it") {
  Queue queue;
  const auto options = with(&ProducerOptions::max_payload, 8 * 1024 * 1024);
  Producer producer(queue.url, queue.name, options);
  std::string payload(options.max_payload, '\0');
  for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<char>(i * 31 + i / 251);
  const Sent sent = producer.send(payload);
  const auto found = queue.inspector.find(sent.id);
  REQUIRE(found);
  CHECK(found->payload == payload);
  const std::vector<Sent> batch = producer.send_batch({payload, "small", payload});
  CHECK(batch.size() == 3);
  CHECK(queue.inspector.find(batch[2].id)->size == payload.size());
  CHECK(queue.inspector.counts().ready == 4);
}

TEST_CASE("send: new ids are ascending UUIDv7s in lower case; an id of the caller is kept") {
  Queue queue;
  std::string last;
  for (int i = 0; i < 20; ++i) {
    const Sent sent = queue.producer.send("x");
    CHECK(sent.created());
    REQUIRE(sent.id.size() == 36);
    CHECK(sent.id[14] == '7');
    CHECK(sent.id > last);
    last = sent.id;
  }
  const std::string mine = "12345678-ABCD-4EF0-8123-456789ABCDEF";
  CHECK(queue.producer.send("x", named(mine)).id == "12345678-abcd-4ef0-8123-456789abcdef");
  CHECK(!queue.producer.send("y", named("12345678-abcd-4ef0-8123-456789abcdef")).created());
}

TEST_CASE("send: an id that exists is not created again, and its message stays as it is") {
  Queue queue;
  CHECK(queue.producer.send("first", named(kId, 1h)).created());
  const auto before = queue.kept();
  const Sent again = queue.producer.send("second", named(kId));
  CHECK(!again.created());
  CHECK(again.id == kId);
  CHECK(queue.kept() == before);
  CHECK(queue.producer.cancel(kId) == State::pending);
  CHECK(queue.producer.send("third", named(kId, 1h)).created());
  CHECK(queue.inspector.find(kId)->payload == "third");
}

TEST_CASE("send: a delay counts from Redis' clock, rounded up to a millisecond") {
  Queue queue;
  const long long before = test::redis_time_us();
  const std::string id = queue.send("x", delayed(90min));
  const long long after = test::redis_time_us();
  const auto found = queue.inspector.find(id);
  REQUIRE(found);
  CHECK(found->state == State::pending);
  const auto due = std::chrono::duration_cast<std::chrono::microseconds>(found->at->time_since_epoch()).count();
  const long long delay = 90LL * 60 * 1'000'000;
  CHECK(due >= before + delay);
  CHECK(due <= after + delay + 1000);
  CHECK(due % 1000 == 0);
}

TEST_CASE("send: a time is rounded up to a millisecond, and a past time is due now") {
  Queue queue;
  const auto base = std::chrono::time_point_cast<std::chrono::seconds>(system_clock::now() + 24h);
  const std::pair<std::chrono::microseconds, milliseconds> rows[] = {{0us, 0ms},    {1us, 1ms},    {999us, 1ms},
                                                                     {1000us, 1ms}, {1001us, 2ms}, {999'001us, 1000ms}};
  for (const auto& row : rows) {
    const auto [offset, expected] = row;
    CAPTURE(row.first.count());
    const auto found = queue.inspector.find(queue.send("x", with(&SendOptions::at, base + offset)));
    REQUIRE(found);
    CHECK(found->at == base + expected);
  }
  for (const auto at : {system_clock::time_point(), system_clock::now() - 1h, system_clock::now() - 1s}) {
    const auto past = with(&SendOptions::at, at);
    CHECK(queue.state(queue.send("past", past)) == State::ready);
  }
}

TEST_CASE("send: the retries of the call win over those of the Producer") {
  Queue queue;
  Producer producer(queue.url, queue.name, with(&ProducerOptions::retries, 7));
  const auto own = with(&SendOptions::retries, 0);
  CHECK(queue.inspector.find(producer.send("x").id)->retries == 7);
  CHECK(queue.inspector.find(producer.send("x", own).id)->retries == 0);
  CHECK(queue.inspector.find(queue.producer.send("x").id)->retries == 3);
}

TEST_CASE("send: a TTL counts from the due time, belongs to one message, and moves when that is rescheduled") {
  Queue queue;
  SendOptions options = delayed(1h);
  options.ttl = 10min;
  const std::string id = queue.send("x", options);
  const std::string forever = queue.send("y", delayed(1h));
  const std::string body = queue.base + ":msg:";
  const auto left = [&](const std::string& of) { return redis().cmd({"PTTL", body + of}).integer; };
  CHECK(left(id) > 65 * 60'000);
  CHECK(left(id) <= 70 * 60'000 + 1);
  CHECK(left(forever) == -1);
  auto when = with(&RescheduleOptions::delay, 3h);
  CHECK(queue.producer.reschedule(id, when) == Outcome::done);
  CHECK(left(id) > 185 * 60'000);
  CHECK(left(id) <= 190 * 60'000 + 2);
  when.delay = 0ms;
  CHECK(queue.producer.reschedule(id, when) == Outcome::done);
  CHECK(left(id) > 5 * 60'000);
  CHECK(left(id) <= 10 * 60'000 + 4);
}

TEST_CASE("Producer: eight threads may share one") {
  Queue queue;
  std::vector<std::vector<std::string>> ids(8);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (std::vector<std::string>& mine : ids) {
    threads.emplace_back([&] {
      for (int i = 0; i < 40; ++i) {
        const Sent sent = queue.producer.send(std::to_string(i), delayed(1h));
        for (const Sent& one : queue.producer.send_batch({"a", "b", "c"}, delayed(1h))) mine.push_back(one.id);
        if (queue.producer.cancel(sent.id) != State::pending) ++wrong;
        if (queue.producer.reschedule(mine.back(), {}) != Outcome::done) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  std::set<std::string> different;
  for (const auto& mine : ids) different.insert(mine.begin(), mine.end());
  CHECK(different.size() == 8 * 120);
  const Counts counts = queue.inspector.counts();
  CHECK(counts.pending == 8 * 80);
  CHECK(counts.ready == 8 * 40);
  CHECK(counts.totals.cancelled == 8 * 40);
}

TEST_CASE("Producer: works after a move") {
  Queue queue;
  Producer first(queue.url, queue.name);
  first.send("a");
  Producer second(std::move(first));
  second.send("b");
  Producer third(queue.url, "elsewhere");
  third = std::move(second);
  third.send("c");
  CHECK(queue.inspector.counts().ready == 3);
}

}  // namespace
}  // namespace delayqueue
