#include <delayqueue/message.h>

#include <doctest/doctest.h>

#include <chrono>
#include <optional>
#include <string>
#include <type_traits>

namespace delayqueue {
namespace {

using namespace std::chrono_literals;

TEST_CASE("message: a default Message is a first delivery whose lease never ends") {
  const Message message;
  CHECK(message.attempt == 1);
  CHECK(!message.lost());
  CHECK(message.id.empty());
  CHECK(message.payload.empty());
  const Message copy = message;
  CHECK(!copy.lost());
}

TEST_CASE("verdict: a bool converts to ack or nack, and no other type converts") {
  const Verdict yes = true;
  const Verdict no = false;
  CHECK(yes.kind == Verdict::Kind::ack);
  CHECK(no.kind == Verdict::Kind::nack);
  CHECK(!no.after);
  CHECK(no.reason.empty());
  static_assert(std::is_convertible_v<bool, Verdict>);
  static_assert(!std::is_convertible_v<int, Verdict>);
  static_assert(!std::is_convertible_v<void*, Verdict>);
  static_assert(!std::is_convertible_v<const char*, Verdict>);
  static_assert(!std::is_convertible_v<std::nullptr_t, Verdict>);
  static_assert(!std::is_convertible_v<std::string, Verdict>);
}

TEST_CASE("verdict: each factory sets kind, delay and reason") {
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
  };
  for (const Row& row : rows) {
    CAPTURE(&row - rows);
    CHECK(row.verdict.kind == row.kind);
    CHECK(row.verdict.after == row.after);
    CHECK(row.verdict.reason == row.reason);
  }
}

TEST_CASE("verdict: a handler may return a Verdict or a bool") {
  const Handler by_bool = [](const Message& message) { return message.attempt == 1; };
  const Handler by_verdict = [](const Message& message) { return message.attempt == 1 ? ack() : nack(1s, "again"); };
  Message message;
  CHECK(by_bool(message).kind == Verdict::Kind::ack);
  CHECK(by_verdict(message).kind == Verdict::Kind::ack);
  message.attempt = 2;
  CHECK(by_bool(message).kind == Verdict::Kind::nack);
  CHECK(by_verdict(message).after == 1000ms);
}

}  // namespace
}  // namespace delayqueue
