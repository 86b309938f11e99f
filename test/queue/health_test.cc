// The pauses between attempts after failures, which failures are warnings, and the health of a connection.
#include "support/test.h"

#include "queue/failure_log.h"
#include "queue/health.h"

namespace delayqueue {
namespace {

using FailureKind = redis::Failure::Kind;

constexpr ReconnectBackoff::Pauses kPauses{50ms, 1000ms};

TEST_CASE("backoff: pauses double up to a limit, with up to half of jitter, and start again after a time of health") {
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
    backoff.succeeded(now);
    CHECK(!backoff.is_failing());
    CHECK(backoff.left(now) <= 0ms);
    CHECK(backoff.failed("away", kPauses, now + 9s) == "away (for 9000 ms, 8 attempts)");
    CHECK(backoff.left(now + 9s) >= 500ms);
    backoff.succeeded(now + 10s);
    CHECK(backoff.failed("away", kPauses, now + 20s) == "away");
    CHECK(backoff.left(now + 20s) <= 50ms);
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

TEST_CASE("backoff: from the second failure on the text has their duration and number") {
  const ReconnectBackoff::Clock::time_point now{};
  ReconnectBackoff backoff;
  CHECK(backoff.failed("no answer", kPauses, now) == "no answer");
  CHECK(backoff.is_new());
  CHECK(backoff.failed("no answer", kPauses, now + 60s) == "no answer (for 60 s, 2 attempts)");
  CHECK(!backoff.is_new());
}

TEST_CASE("backoff: attempts that succeed for a moment each do not follow each other without pauses") {
  ReconnectBackoff backoff;
  ReconnectBackoff::Clock::time_point now{};
  for (const milliseconds life : {1ms, 100ms, 500ms, 1500ms, 1900ms}) {
    CAPTURE(life.count());
    const auto end = now + 60s;
    int attempts = 0;
    for (; now < end; ++attempts) {
      backoff.succeeded(now);
      now += life;
      backoff.failed("closed", kPauses, now);
      now += std::chrono::duration_cast<milliseconds>(backoff.left(now)) + 1ms;
    }
    CHECK(attempts < 150);
  }
}

struct LinesByMinute {
  int first = 0;       // in the first minute
  int most_later = 0;  // in each later one
};

// Calls `fail` every `interval`, for ten minutes, with the time; it returns the number of its lines.
template <class Fail>
LinesByMinute lines_of(milliseconds interval, Fail fail) {
  std::vector<int> minutes(10);
  for (milliseconds at{0}; at < 10min; at += interval) {
    minutes[at / 1min] += fail(FailureLog::Clock::time_point(1h + at));
  }
  return {minutes[0], *std::max_element(minutes.begin() + 1, minutes.end())};
}

TEST_CASE("failure log: a lasting failure warns at once, and then once a minute, also if it succeeds between") {
  for (const bool succeeds : {false, true}) {
    CAPTURE(succeeds);
    FailureLog log;
    int count = 0;
    const LinesByMinute lines = lines_of(50ms, [&](FailureLog::Clock::time_point now) {
      ++count;
      const bool warns = log.warns(&log, "no answer for " + std::to_string(count) + " ms", count == 1, now);
      return (warns ? 1 : 0) + (succeeds && log.tells_recovery(&log, now + 1ms) ? 1 : 0);
    });
    CHECK(lines.first == (succeeds ? 2 : 1));
    CHECK(lines.most_later == (succeeds ? 2 : 1));
  }
}

TEST_CASE("failure log: at most 10 lines in the first minute and 2 in each later one, for any mix of failures") {
  for (const milliseconds interval : {20ms, 700ms, 5000ms, 25'000ms}) {
    for (const std::size_t sources : {1, 3, 300}) {
      for (const std::size_t texts : {1, 3, 1000}) {
        for (const bool heals : {false, true}) {
          CAPTURE(interval.count());
          CAPTURE(sources);
          CAPTURE(texts);
          CAPTURE(heals);
          FailureLog log;
          std::vector<char> all(sources);
          std::size_t count = 0;
          const LinesByMinute lines = lines_of(interval, [&](FailureLog::Clock::time_point now) {
            const char* const source = &all[count % sources];
            const bool warns = log.warns(source, std::string(1 + count % texts, 'x'), heals, now);
            ++count;
            return (warns ? 1 : 0) + (log.tells_recovery(source, now + 1ms) ? 1 : 0);
          });
          CHECK(lines.first >= 1);
          CHECK(lines.first <= 10);
          CHECK(lines.most_later >= 1);
          CHECK(lines.most_later <= 2);
        }
      }
    }
  }
}

TEST_CASE("failure log: a new failure is a warning at once: another text, another source, or after a time of health") {
  const FailureLog::Clock::time_point now(1h);
  FailureLog log;
  const int other = 0;
  CHECK(log.warns(&log, "away", true, now));
  CHECK_FALSE(log.warns(&log, "away", false, now + 1s));
  CHECK(log.warns(&log, "refused", false, now + 2s));
  CHECK(log.warns(&other, "away", true, now + 3s));
  CHECK(log.tells_recovery(&log, now + 4s));
  CHECK_FALSE(log.tells_recovery(&log, now + 5s));
  CHECK(log.warns(&log, "away", true, now + 20s));
  CHECK(log.tells_recovery(&other, now + 21s));
  CHECK_FALSE(log.warns(&log, "away", false, now + 59s));
  CHECK(log.warns(&log, "away", false, now + 61s));
  CHECK(log.warns(&log, "away", true, now + 10min));
  CHECK(log.warns(&log, "refused", false, now + 10min));
}

TEST_CASE("health: a connection works when a request has succeeded there, and not after a failure") {
  HealthMonitor health;
  CHECK((health.state() == Health::away));
  health.failed("away", kPauses);
  CHECK((health.state() == Health::away));
  CHECK(health.is_new_failure());
  CHECK(health.pause() > 0ms);
  health.retry_now();
  CHECK(health.pause() <= 0ms);
  health.join();
  CHECK((health.state() == Health::joining));
  health.joined_only();  // after a failure another request has to succeed
  CHECK((health.state() == Health::failing));
  CHECK(test::has(health.succeeded("there").value_or(""), "Redis answers again at there; it failed for "));
  CHECK(health.works());
  CHECK_FALSE(health.succeeded("there"));
  CHECK(test::has(health.failed("away", kPauses), "away (for "));  // no time of health between the two
  CHECK((health.state() == Health::failing));
  health.leave();
  CHECK((health.state() == Health::away));
  health.join();
  CHECK_FALSE(health.works());
}

TEST_CASE("health: after a first join without a failure nothing else has to succeed") {
  HealthMonitor health;
  health.join();
  health.joined_only();
  CHECK((health.state() == Health::joining));
  CHECK_FALSE(health.succeeded("there"));
  CHECK(health.works());
}

TEST_CASE("health: what a person has to change is tried rarely, but while leases are held at least thrice in each") {
  CHECK(pauses_after({FailureKind::connection, "away"}).longest == 1s);
  CHECK(pauses_after({FailureKind::access_denied, "NOPERM"}).longest == 5s);
  CHECK(pauses_after({FailureKind::setup, "no memory"}).longest == 5s);
  CHECK(pauses_after({FailureKind::access_denied, "NOPERM"}, 6s).longest == 2s);
  CHECK(pauses_after({FailureKind::access_denied, "NOPERM"}, 1s).longest == 1s);
  CHECK(pauses_after({FailureKind::access_denied, "NOPERM"}, 60s).longest == 5s);
}

}  // namespace
}  // namespace delayqueue
