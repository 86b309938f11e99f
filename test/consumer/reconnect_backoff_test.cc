// How long a consumer waits between attempts, and what it says of it when.
#include "consumer/reconnect_backoff.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

namespace delayqueue {
namespace {

using namespace std::chrono_literals;

constexpr ReconnectBackoff::Pauses kPatience{50ms, 1000ms};

TEST_CASE("trouble: pauses double up to the longest, less a random part of up to a half, and begin anew") {
  const ReconnectBackoff::Clock::time_point now{};
  std::set<ReconnectBackoff::Clock::duration> last;
  for (int run = 0; run < 50; ++run) {
    ReconnectBackoff trouble;
    CHECK(trouble.left(now) <= 0ms);
    for (const auto most : {50ms, 100ms, 200ms, 400ms, 800ms, 1000ms, 1000ms}) {
      trouble.failed("away", kPatience, now);
      CHECK(trouble.left(now) <= most);
      CHECK(trouble.left(now) >= most / 2);
    }
    last.insert(trouble.left(now));
    CHECK(trouble.left(now + 1s) <= 0ms);
    trouble.succeeded();
    CHECK(!trouble.is_failing());
    trouble.failed("away", kPatience, now);
    CHECK(trouble.left(now) <= 50ms);
  }
  CHECK(last.size() > 5);  // they differ
}

TEST_CASE("trouble: what is refused waits longer from the first time on, and back when it is only away") {
  const ReconnectBackoff::Clock::time_point now{};
  ReconnectBackoff trouble;
  trouble.failed("away", kPatience, now);
  trouble.failed("refused", {500ms, 5000ms}, now);
  CHECK(trouble.left(now) >= 250ms);
  for (int i = 0; i < 10; ++i) trouble.failed("refused", {500ms, 5000ms}, now);
  CHECK(trouble.left(now) >= 2500ms);
  trouble.failed("away", kPatience, now);
  CHECK(trouble.left(now) <= 1000ms);
}

TEST_CASE("trouble: one that lasts is a warning once a minute, with its length and attempts") {
  ReconnectBackoff trouble;
  ReconnectBackoff::Clock::time_point now{};
  const auto first = trouble.failed("no answer for 3001 ms", kPatience, now);
  CHECK(first.severity == Severity::warning);
  CHECK(first.text == "no answer for 3001 ms");
  int warnings = 0;
  for (int second = 1; second <= 180; ++second) {
    const auto line = trouble.failed("no answer for 3002 ms", kPatience, now + std::chrono::seconds(second));
    if (line.severity == Severity::warning) ++warnings;
    if (second == 60) {
      CHECK(line.severity == Severity::warning);
      CHECK(line.text == "no answer for 3002 ms (for 60 s, 61 attempts)");
    }
  }
  CHECK(warnings == 3);
}

TEST_CASE("trouble: another one is a warning at once; two that take turns are told once each; not without end") {
  ReconnectBackoff trouble;
  const ReconnectBackoff::Clock::time_point now{};
  CHECK(trouble.failed("away", kPatience, now).severity == Severity::warning);
  for (int i = 0; i < 5; ++i) {
    CHECK((trouble.failed("refused", kPatience, now).severity == Severity::warning) == (i == 0));
    CHECK(trouble.failed("away", kPatience, now).severity == Severity::debug);
  }
  int loud = 0;
  for (char c = 'a'; c <= 'z'; ++c) loud += trouble.failed({c}, kPatience, now).severity == Severity::warning;
  CHECK(loud == 6);
  trouble.succeeded();
  CHECK(trouble.failed("away", kPatience, now).severity == Severity::warning);
}

}  // namespace
}  // namespace delayqueue
