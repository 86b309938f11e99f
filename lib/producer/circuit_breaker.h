// Circuit breaker for the partitions of a queue: those that fail, while their servers answer, get no new messages until
// a probe has succeeded. For servers see Outages.
//
// A probe is a request that is no message of a user: so no send is put in doubt to find out whether a server is back.
// The breaker decides when which partition is probed; a thread of the Router sends the probes.
#pragma once

#include "queue/failure_reporter.h"

#include <delayqueue/message.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace delayqueue {

// Any number of threads may use one CircuitBreaker.
class CircuitBreaker {
 public:
  using Clock = std::chrono::steady_clock;

  struct Circuit {
    unsigned partition;
    std::string why;
    milliseconds pause;    // between two probes
    milliseconds longest;  // to which it grows
    bool denied = false;   // by a missing right
    bool warned = false;
    Clock::time_point next{};

    std::string name() const { return "partition " + std::to_string(partition); }
  };

  // `failures` must outlive this object.
  explicit CircuitBreaker(FailureReporter& failures);

  bool allows_all() const { return !any_open_; }

  bool allows(unsigned partition) const;  // whether it may get new messages

  // The server cannot serve this partition now; it can serve others.
  void partition_failed(unsigned partition, const std::string& why);

  // The user of this process lacks a right to this partition. Logs a warning, at most once a minute. Of all such
  // partitions one is probed: when that succeeds, all of them may get messages.
  void access_denied(unsigned partition, const std::string& why);

  // For one thread, which probes. Waits until a circuit is to be probed; unset: after stop().
  std::optional<Circuit> wait_for_probe();
  void probed(const Circuit& circuit, bool succeeded);

  void stop();

 private:
  void open(Circuit circuit);
  void close(const Circuit& circuit);
  void retry(const Circuit& circuit);
  void schedule(Circuit& circuit);
  Circuit* find(unsigned partition);
  FailureReporter::Source source_of(const Circuit& circuit);

  FailureReporter& failures_;
  std::atomic<bool> any_open_{false};
  mutable std::mutex mutex_;  // guards all members below
  std::condition_variable changed_;
  std::vector<Circuit> open_;
  std::set<unsigned> sources_;  // the partitions whose circuits were open
  std::minstd_rand random_;
  bool stopping_ = false;
};

}  // namespace delayqueue
