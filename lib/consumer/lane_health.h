// Whether the requests of a lane succeed, and when it tries again after Redis refused one. Used by the consumer's
// thread only.
#pragma once

#include "consumer/link.h"
#include "consumer/served_partition.h"
#include "queue/health.h"

#include <delayqueue/options.h>

#include <chrono>
#include <optional>
#include <string>

namespace delayqueue {

// A lane joins a connection with its first requests there. When one of its requests is refused, the lane pauses, and no
// other does.
class LaneHealth {
 public:
  using Clock = std::chrono::steady_clock;

  explicit LaneHealth(const ServedPartition& partition) : partition_(partition) {}

  LaneRequests& requests() { return requests_; }

  // Whether it uses the connection of its server.
  bool has_joined() const { return health_.state() != Health::away; }
  // Its first requests there succeeded.
  void join() { health_.join(); }
  // The connection was lost, or replaced.
  void leave();

  // Whether its requests have succeeded since the last failure.
  bool works() const { return health_.works(); }

  // The time until the next attempt; not positive: now.
  Clock::duration pause() const { return health_.pause(); }
  void retry_now() { health_.retry_now(); }

  // What the lane may add to a round trip with this purpose. After a failure it has requests in one round trip at a
  // time, until one succeeds.
  Purpose purpose_in(Purpose round_trip, bool stopping) const;

  // Reports that the server `where` refused a request. `lease`: of the messages that the lane holds; unset: there are
  // none.
  void fail(const redis::Failure& failure, const std::string& where, std::optional<milliseconds> lease);

  // To be called when round trips have finished, and none of its requests was refused: reports that it works again.
  // `holds_back`: there are refused verdicts that wait, so that a success does not show that Redis accepts them.
  void read_success(const std::string& where, bool holds_back);

 private:
  const ServedPartition& partition_;
  HealthMonitor health_;
  LaneRequests requests_;
};

}  // namespace delayqueue
