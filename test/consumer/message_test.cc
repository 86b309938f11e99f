#include "support/test.h"

#include <delayqueue/testing.h>

namespace delayqueue {
namespace {

using std::chrono::system_clock;

TEST_CASE("make_message: by default a first delivery, sent now, whose lease never ends") {
  const auto before = std::chrono::floor<std::chrono::milliseconds>(system_clock::now());
  const Message message = make_message("order 42");
  CHECK(message.payload() == "order 42");
  CHECK(message.queue() == "test");
  CHECK(message.attempt() == 1);
  CHECK(message.retries_left() == 3);
  CHECK(!message.lease_lost());
  REQUIRE(message.sent_at());
  CHECK(*message.sent_at() >= before);
  CHECK(*message.sent_at() <= system_clock::now());
  CHECK(make_message("order 42").id() != message.id());
  const Message copy = message;
  CHECK(copy.id() == message.id());
  CHECK(!copy.lease_lost());
}

TEST_CASE("make_message: each field is that of the message") {
  MessageFields fields;
  fields.id = "0197F3A4-5B6C-4D8E-9F01-23456789ABCD";  // random, not of a time
  fields.queue = "orders";
  fields.attempt = 4;
  fields.retries_left = 0;
  fields.lease_lost = true;
  const std::string bytes("\0\xff", 2);
  const Message message = make_message(bytes, fields);
  CHECK(message.id() == "0197f3a4-5b6c-4d8e-9f01-23456789abcd");
  CHECK(message.payload() == bytes);
  CHECK(message.queue() == "orders");
  CHECK(message.attempt() == 4);
  CHECK(message.retries_left() == 0);
  CHECK(message.lease_lost());
  CHECK(!message.sent_at());
  fields.id = "order 42";
  CHECK_THROWS_AS(static_cast<void>(make_message("", fields)), std::invalid_argument);
}

TEST_CASE("verdict: only the factories make one") {
  static_assert(!std::is_convertible_v<bool, Verdict>);
  static_assert(!std::is_constructible_v<Verdict, bool>);
  static_assert(!std::is_default_constructible_v<Verdict>);
  static_assert(
      !std::is_constructible_v<Verdict, Verdict::Kind, std::optional<std::chrono::milliseconds>, std::string>);
  static_assert(!std::is_default_constructible_v<Message>);
}

TEST_CASE("verdict: each factory sets kind, wait and reason") {
  struct Row {
    Verdict verdict;
    Verdict::Kind kind;
    std::optional<std::chrono::milliseconds> after;
    std::string reason;
  };
  const std::string bytes("a\0b\xff", 4);
  const Row rows[] = {
      {ack(), Verdict::Kind::ack, std::nullopt, ""},
      {nack(), Verdict::Kind::nack, std::nullopt, ""},
      {nack("why"), Verdict::Kind::nack, std::nullopt, "why"},
      {nack(bytes), Verdict::Kind::nack, std::nullopt, bytes},
      {nack(5ms), Verdict::Kind::nack, 5ms, ""},
      {nack(0ms, "at once"), Verdict::Kind::nack, 0ms, "at once"},
      {nack(2min, "later"), Verdict::Kind::nack, 120'000ms, "later"},
      {reject(), Verdict::Kind::reject, std::nullopt, ""},
      {reject("never"), Verdict::Kind::reject, std::nullopt, "never"},
      {snooze(0ms), Verdict::Kind::snooze, 0ms, ""},
      {snooze(1h), Verdict::Kind::snooze, 3'600'000ms, ""},
      {pause_queue(1min), Verdict::Kind::pause_queue, 60'000ms, ""},
      {pause_queue(0ms, bytes), Verdict::Kind::pause_queue, 0ms, bytes},
  };
  for (const Row& row : rows) {
    CAPTURE(&row - rows);
    CHECK(row.verdict.kind() == row.kind);
    CHECK(row.verdict.after() == row.after);
    CHECK(row.verdict.reason() == row.reason);
  }
}

TEST_CASE("make_message: a handler is tested without a Redis") {
  const auto handler = [](const Message& message) { return message.attempt() == 1 ? nack(1s, "again") : ack(); };
  CHECK(handler(make_message("x")).after() == 1000ms);
  MessageFields second;
  second.attempt = 2;
  CHECK(handler(make_message("x", second)).kind() == Verdict::Kind::ack);
}

}  // namespace
}  // namespace delayqueue
