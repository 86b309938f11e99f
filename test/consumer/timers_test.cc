// The time after a connect in which ended leases are left alone.
#include "support/test.h"

#include "consumer/intake.h"

namespace delayqueue {
namespace {

using Time = Timers::Time;

// Whether ended leases are taken back at this time, with a grace of 2 s and a lease of 30 s.
bool reclaims(const Timers& timers, Time now) { return !timers.reclaims_only_backoffs(now); }

TEST_CASE("timers: the grace begins with a connection, and again after an outage in which leases may have ended") {
  Timers timers(1s, 2s, 30min, 30s);
  const Time start(1h);
  timers.connected(start);
  CHECK_FALSE(reclaims(timers, start + 1999ms));
  CHECK(reclaims(timers, start + 2s));
  timers.reclaimed(start + 10s);
  timers.disconnected(start + 20s);
  timers.connected(start + 24s);
  CHECK(reclaims(timers, start + 24s));
  timers.disconnected(start + 25s);
  timers.connected(start + 40s);
  CHECK_FALSE(reclaims(timers, start + 41s));
  CHECK(reclaims(timers, start + 42s));
}

TEST_CASE("timers: links that are shorter than the grace add up to it") {
  for (const milliseconds life : {500ms, 1500ms, 1900ms}) {
    CAPTURE(life.count());
    Timers timers(1s, 2s, 30min, 30s);
    Time now(1h);
    milliseconds linked{0};
    for (; linked < 2s; linked += life) {
      timers.connected(now);
      CHECK_FALSE(reclaims(timers, now));
      now += life;
      timers.disconnected(now);
      now += 1s;
    }
    timers.connected(now);
    CHECK(reclaims(timers, now));
  }
}

TEST_CASE("timers: with short links between long outages the grace is over after a few of them") {
  Timers timers(1s, 2s, 30min, 30s);
  Time now(1h);
  int links = 0;
  for (; links < 100; ++links) {
    timers.connected(now);
    if (reclaims(timers, now)) break;
    now += 1s;
    timers.disconnected(now);
    now += 60s;
  }
  CHECK(links == 4);
  timers.reclaimed(now);
  now += 3s;
  timers.disconnected(now);
  timers.connected(now + 60s);  // one was over
  CHECK_FALSE(reclaims(timers, now + 61s));
}

}  // namespace
}  // namespace delayqueue
