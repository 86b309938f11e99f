// The connection of a consumer to a server: makes it, replaces it after failures, and decides how long to wait before
// the next attempt. Used by the consumer's thread only.
#pragma once

#include "consumer/clock_monitor.h"
#include "consumer/reporter.h"
#include "consumer/verdict_durability.h"
#include "queue/endpoint.h"
#include "queue/health.h"
#include "queue/server_risks.h"
#include "redis/connection.h"

#include <delayqueue/options.h>

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

namespace delayqueue {

class ConsumerConnection {
 public:
  using Clock = std::chrono::steady_clock;

  // Connects to the server of this endpoint.
  ConsumerConnection(Endpoint& endpoint, VerdictDurability& durability, Reporter& reporter)
      : endpoint_(&endpoint), durability_(durability), reporter_(reporter) {}

  // From now on it connects to the server of this endpoint. Only while it is closed, and make() does not run.
  void lead_to(Endpoint& endpoint) { endpoint_ = &endpoint; }

  struct Made {
    std::unique_ptr<redis::Connection> connection;
    std::unique_ptr<redis::Connection> confirming;  // that of VerdictDurability, if it has one
    std::optional<std::vector<Risk>> risks{};
  };

  // make() is about to be called.
  void begin_attempt() { attempt_began_ = Clock::now(); }

  // Makes the connections for use(), and finds the risks of the server. Accesses no key of the queue. Throws what the
  // library's calls throw. Another thread may call it.
  Made make();

  // Replaces the connections, and logs the risks.
  void use(Made made);

  void close();

  bool is_open() const { return connection_ != nullptr; }

  // Only while it is open.
  redis::Connection& get() const { return *connection_; }

  // Whether requests have succeeded since the last failure.
  bool works() const { return health_.works(); }

  // The time until the next attempt; not positive: now.
  Clock::duration pause() const { return health_.pause(); }
  void retry_now() { health_.retry_now(); }

  // Requests on the connection succeeded.
  void succeeded();

  // Reports a failure, and closes the connection. No round trip may be under way.
  void failed(const std::exception& e);

  // Closes the connection if it cannot be used again. No round trip may be under way.
  void close_if_stale();

  // Reports jumps of Redis' clock.
  void observe_clock(const ClockSample& sample);

 private:
  Endpoint* endpoint_;
  VerdictDurability& durability_;
  Reporter& reporter_;
  std::unique_ptr<redis::Connection> connection_;
  Clock::time_point attempt_began_{};
  HealthMonitor health_;
  RiskWatch risk_watch_;
  ClockMonitor clock_monitor_;
};

}  // namespace delayqueue
