// The pauses between a consumer's reconnects, and the severity of their log lines.
#include "consumer/reconnect_backoff.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

namespace delayqueue {
namespace {

using namespace std::chrono_literals;

constexpr ReconnectBackoff::Pauses kPauses{50ms, 1000ms};

TEST_CASE("backoff: pauses double up to a limit, with up to half of jitter, and start again after a success") {
  const ReconnectBackoff::Clock::time_point now{};
  std::set<ReconnectBackoff::Clock::duration> last;
  for (int run = 0; run < 50; ++run) {
    ReconnectBackoff backoff;
    CHECK(backoff.left(now) <= 0ms);
    for (const auto most : {50ms, 100ms, 200ms, 400ms, 800ms, 1000ms, 1000ms}) {
      backoff.failed("away", kPauses, now);
      CHECK(backoff.left(now) <= most);
      CHECK(backoff.left(now) >= most / 2);
    }
    last.insert(backoff.left(now));
    CHECK(backoff.left(now + 1s) <= 0ms);
    backoff.succeeded();
    CHECK(!backoff.is_failing());
    backoff.failed("away", kPauses, now);
    CHECK(backoff.left(now) <= 50ms);
  }
  CHECK(last.size() > 5);  // the jitter differs
}

TEST_CASE("backoff: a refusal has longer pauses from the first on, and an outage after it has short ones again") {
  const ReconnectBackoff::Clock::time_point now{};
  ReconnectBackoff backoff;
  backoff.failed("away", kPauses, now);
  backoff.failed("refused", {500ms, 5000ms}, now);
  CHECK(backoff.left(now) >= 250ms);
  for (int i = 0; i < 10; ++i) backoff.failed("refused", {500ms, 5000ms}, now);
  CHECK(backoff.left(now) >= 2500ms);
  backoff.failed("away", kPauses, now);
  CHECK(backoff.left(now) <= 1000ms);
}

TEST_CASE("backoff: a lasting failure warns once a minute, with its duration and number of attempts") {
  ReconnectBackoff backoff;
  ReconnectBackoff::Clock::time_point now{};
  const auto first = backoff.failed("no answer for 3001 ms", kPauses, now);
  CHECK(first.severity == Severity::warning);
  CHECK(first.text == "no answer for 3001 ms");
  int warnings = 0;
  for (int second = 1; second <= 180; ++second) {
    const auto line = backoff.failed("no answer for 3002 ms", kPauses, now + std::chrono::seconds(second));
    if (line.severity == Severity::warning) ++warnings;
    if (second == 60) {
      CHECK(line.severity == Severity::warning);
      CHECK(line.text == "no answer for 3002 ms (for 60 s, 61 attempts)");
    }
  }
  CHECK(warnings == 3);
}

TEST_CASE("backoff: a new error text warns at once, alternating texts warn once each, and warnings are limited") {
  ReconnectBackoff backoff;
  const ReconnectBackoff::Clock::time_point now{};
  CHECK(backoff.failed("away", kPauses, now).severity == Severity::warning);
  for (int i = 0; i < 5; ++i) {
    CHECK((backoff.failed("refused", kPauses, now).severity == Severity::warning) == (i == 0));
    CHECK(backoff.failed("away", kPauses, now).severity == Severity::debug);
  }
  int loud = 0;
  for (char c = 'a'; c <= 'z'; ++c) loud += backoff.failed({c}, kPauses, now).severity == Severity::warning;
  CHECK(loud == 6);
  backoff.succeeded();
  CHECK(backoff.failed("away", kPauses, now).severity == Severity::warning);
}

}  // namespace
}  // namespace delayqueue
