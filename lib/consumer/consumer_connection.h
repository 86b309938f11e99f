// The connection of a consumer: makes it, replaces it after failures, and decides how long to wait before the next
// attempt. Used by the consumer's thread only.
#pragma once

#include "consumer/clock_monitor.h"
#include "consumer/reconnect_backoff.h"
#include "consumer/reporter.h"
#include "consumer/verdict_durability.h"
#include "queue/endpoint.h"
#include "queue/server_risks.h"
#include "redis/connection.h"

#include <delayqueue/options.h>

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace delayqueue {

// The pauses after this failure. `lease`: of messages whose leases can be renewed when requests succeed again; unset:
// there are none.
ReconnectBackoff::Pauses pauses_after(const std::exception& e, std::optional<milliseconds> lease);

class ConsumerConnection {
 public:
  using Clock = std::chrono::steady_clock;

  ConsumerConnection(Endpoint& endpoint, const VerdictDurability& durability, Reporter& reporter, milliseconds lease)
      : endpoint_(endpoint), durability_(durability), reporter_(reporter), lease_(lease) {}

  // Replaces the connection. `prepare` sends the first requests on the new one; if it throws, there is none afterwards.
  // Throws what the library's calls throw.
  void open(const std::function<void(redis::Connection&)>& prepare);
  void close();

  bool is_open() const { return connection_ != nullptr; }

  // Only while it is open.
  redis::Connection& get() const { return *connection_; }

  // Whether requests have succeeded since the last failure.
  bool works() const { return reporter_.counters().connected; }

  // The time until the next attempt; not positive: now.
  Clock::duration pause() const { return reconnect_backoff_.left(Clock::now()); }

  // Requests on the connection succeeded.
  void succeeded();

  // Reports a failure, and closes the connection if it cannot be used again. No round trip may be under way.
  // `holds_leases`: the consumer holds messages.
  void failed(const std::exception& e, bool holds_leases);

  // Reports jumps of Redis' clock.
  void observe_clock(const ClockSample& sample);

 private:
  Endpoint& endpoint_;
  const VerdictDurability& durability_;
  Reporter& reporter_;
  const milliseconds lease_;
  std::unique_ptr<redis::Connection> connection_;
  ReconnectBackoff reconnect_backoff_;
  RiskWatch risk_watch_;
  ClockMonitor clock_monitor_;
};

}  // namespace delayqueue
