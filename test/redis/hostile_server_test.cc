// Hostile servers: their answers would make a client wait, or allocate memory, without end.
#include "support/test.h"

#include "redis/connection.h"
#include "redis/pipeline.h"
#include "store/moves.h"
#include "support/fed_transport.h"
#include "support/sanitized.h"
#include "support/scripted_server.h"

namespace delayqueue::redis {
namespace {

using test::hello;

// Sends `start` and then `again` without end; closes the connection if `again` is empty.
test::FedTransport::Next endless(const std::string& start, const std::string& again) {
  return [started = false, start, again](std::size_t) mutable {
    return std::exchange(started, true) ? std::string_view(again) : std::string_view(start);
  };
}

Connection link_to(test::FedTransport::Next server, milliseconds timeout = 60s) {
  const auto options = with(&ClientOptions::command_timeout, timeout);
  Address address;
  address.host = "nowhere";
  return {std::make_unique<test::FedTransport>(std::move(server)), address, {}, options, nullptr, Clock::now() + 60s};
}

std::string error_of_reading(Connection link) {
  try {
    link.read();
  } catch (const ConnectionError& e) {
    CHECK(link.is_stale());
    return e.what();
  }
  return "an answer";
}

TEST_CASE("hostile: an array of too many elements is refused as soon as its length arrives") {
  for (const std::string header : {"*1048577\r\n", "*2147483647\r\n", "*1\r\n*500000000\r\n"}) {
    const std::string text = error_of_reading(link_to(endless(hello() + header, "")));
    CHECK(has(text, "the answer of nowhere:6379 is too large: arrays of more than 1048576 elements"));
  }
}

TEST_CASE("hostile: the limit is for the elements of all arrays of an answer, at any depth") {
  // The outer arrays have half of the allowed elements, and the length of each inner one takes few bytes.
  for (const std::string inner : {"*1000\r\n*0\r\n", "*1\r\n*1000\r\n", "*1\r\n*1\r\n*1\r\n*1\r\n*1000\r\n"}) {
    std::string elements;
    for (int i = 0; i < 1000; ++i) elements += ":1\r\n";
    const std::string text = error_of_reading(link_to(endless(hello() + "*524288\r\n", inner + elements)));
    CHECK(has(text, "the answer of nowhere:6379 is too large: arrays of more than 1048576 elements"));
  }
}

TEST_CASE("hostile: endlessly nested arrays are refused") {
  const std::string text = error_of_reading(link_to(endless(hello(), "*1\r\n")));
  const bool refused = has(text, "nested deeper than 8") || has(text, "depth > 7");  // by us, or by an old hiredis
  CHECK_MESSAGE(refused, text);
}

TEST_CASE("hostile: the elements of one answer do not count for the next") {
  std::string answers = hello();
  for (int i = 0; i < 2; ++i) {
    answers += "*700000\r\n";
    for (int k = 0; k < 700'000; ++k) answers += ":1\r\n";
  }
  Connection link = link_to(test::in_pieces(answers, answers.size()));
  for (int i = 0; i < 2; ++i) CHECK(Reply(link.read().get()).size() == 700'000);
}

TEST_CASE("hostile: the largest array that is allowed is read") {
  std::string elements;
  for (int i = 0; i < 1'048'576; ++i) elements += ":1\r\n";
  Connection link = link_to(endless(hello() + "*1048576\r\n", elements));
  CHECK(Reply(link.read().get()).size() == 1'048'576);
}

// Sends `start`, and then `again` without end, a byte every 10 ms: there is never a silence as long as the timeout.
test::FedTransport::Next trickle(const std::string& start, const std::string& again) {
  return [start, again, started = false, sent = std::size_t{0}](std::size_t) mutable -> std::string_view {
    if (!std::exchange(started, true)) return start;
    std::this_thread::sleep_for(10ms);
    return std::string_view(again).substr(sent++ % again.size(), 1);
  };
}

TEST_CASE("hostile: an endless answer of a byte now and then delays a call no longer than the command timeout") {
  for (const std::string start : {"+", "$1000000000000\r\n", "*1000000\r\n"}) {
    CAPTURE(start);
    const std::string again = start == "*1000000\r\n" ? "*-1\r\n" : std::string(1000, 'x');
    const auto begun = Clock::now();
    const std::string text = error_of_reading(link_to(trickle(hello() + start, again), 50ms));
    CHECK(has(text, "the answer of nowhere:6379 is too slow: "));
    CHECK(has(text, "; the link needs 32 KiB/s"));
    CHECK(Clock::now() - begun >= 50ms);
    CHECK(Clock::now() - begun < 30s);
  }
}

TEST_CASE("hostile: read_until reads once, and keeps the part of the answer that has arrived") {
  const std::string slow = hello() + "+" + std::string(5000, 'x') + "\r\n";
  Connection link = link_to(test::in_pieces(slow, 1000));
  int reads = 0;
  ReplyPtr reply;
  for (; reply == nullptr; ++reads) reply = link.read_until(Clock::now());
  CHECK(reads == 5);
  CHECK(Reply(reply.get()).text().size() == 5000);
}

#if !TEST_SANITIZED  // with a sanitizer it takes a minute
TEST_CASE("hostile: a string longer than the largest payload is refused before all of it is in memory") {
  const std::string start = hello() + "$1000000000000\r\n";
  const std::string again(64 * 1024, 'x');
  std::size_t sent = 0;
  const std::string text = error_of_reading(link_to([&](std::size_t) -> std::string_view {
    const std::string& now = sent == 0 ? start : again;
    sent += now.size();
    return now;
  }));
  CHECK(has(text, "the answer of nowhere:6379 is too large: a string of more than 512 MiB"));
  CHECK(sent > 512 * 1024 * 1024);
  CHECK(sent < 513 * 1024 * 1024);
}
#endif

TEST_CASE("hostile: a move's answer for more messages than a call can have is a ReplyError") {
  for (const std::string number : {"201", "1000000000000", "9223372036854775807"}) {
    Connection link = link_to(endless(hello() + ":" + number + "\r\n", ""));
    Pipeline pipeline(link);
    const auto acked = store::Moves(store::make_keys("q", {})).ack(pipeline, {{"id", 1}});
    pipeline.run();
    CHECK_THROWS_AS(acked.get(), ReplyError);
  }
}

TEST_CASE("hostile: adding a time near the integer limit to another time does not overflow") {
  const std::string most = std::to_string(std::numeric_limits<std::int64_t>::max());
  const std::string n = ":" + most + "\r\n";
  Connection link = link_to(endless(hello() + "*4\r\n" + n + n + "+\r\n:1\r\n*2\r\n" + n + "+\r\n", ""));
  Pipeline pipeline(link);
  const store::Moves moves(store::make_keys("q", {}));
  const auto promoted = moves.pending2ready(pipeline, true, {"me", std::chrono::seconds(1)});
  const auto renewed = moves.renew(pipeline, {{"id", 1}}, 1);
  pipeline.run();
  CHECK(Clock::now() + promoted.get().next.value() > Clock::now());
  CHECK(renewed.get().now_us < 9'000'000'000'000'001);
}

}  // namespace
}  // namespace delayqueue::redis
