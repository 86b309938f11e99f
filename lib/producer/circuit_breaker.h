// Circuit breaker for the partitions of a queue: those that fail get no new messages until a probe has succeeded.
//
// A probe is a request that is no message of a user: so no send is put in doubt to find out whether a server is back.
// The first failure starts a thread, which sends the probes.
#pragma once

#include "os/interrupt.h"
#include "queue/event_sink.h"

#include <delayqueue/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace delayqueue {

// Any number of threads may use one CircuitBreaker.
class CircuitBreaker {
 public:
  enum class Probe {
    succeeded,
    refused,  // the server refuses requests about this partition, such as while its slot moves
    failed,   // the server cannot be reached, does not answer, or can serve no partition now
  };

  // What the breaker has to know about partitions. Its thread calls these functions, and those that call the breaker.
  // They must not throw.
  struct Partitions {
    // The address of the server that has a partition; empty: it is unknown, or one server has all partitions.
    std::function<std::string(unsigned partition)> server;
    std::function<Probe(unsigned partition)> probe;
  };

  CircuitBreaker(Partitions partitions, const EventSink& sink);
  ~CircuitBreaker();
  CircuitBreaker(const CircuitBreaker&) = delete;
  CircuitBreaker& operator=(const CircuitBreaker&) = delete;

  // Whether a partition may get new messages.
  bool allows(unsigned partition) const;

  // The server of this partition cannot be reached, does not answer, or can serve no partition now: none of its
  // partitions gets new messages. Returns false, and changes nothing, if no other server is known.
  bool server_failed(unsigned partition, const std::string& why);

  // The server cannot serve this partition now; it can serve others.
  void partition_failed(unsigned partition, const std::string& why);

  // The user of this process lacks a right to this partition. Logs a warning, at most once a minute. Of all such
  // partitions one is probed: when that succeeds, all of them may get messages.
  void access_denied(unsigned partition, const std::string& why);

 private:
  using Clock = std::chrono::steady_clock;

  // An open circuit: that of a server, or of one partition.
  struct Open {
    std::string server;  // empty: only the partition
    unsigned partition;  // to probe
    std::string why;
    milliseconds pause;    // between two probes
    milliseconds longest;  // to which it grows
    Clock::time_point next{};
    bool warned = false;
    bool denied = false;  // by a missing right

    bool is_same(const Open& other) const {
      return server == other.server && (!server.empty() || partition == other.partition);
    }
    std::string name() const;
  };

  bool open(Open circuit);
  void run();
  void probe(const Open& circuit);
  void close(const Open& circuit);
  void retry(const Open& circuit);
  void schedule(Open& circuit);
  Open* find(const Open& circuit);

  const Partitions partitions_;
  const EventSink& sink_;
  std::atomic<bool> any_open_{false};
  mutable std::mutex mutex_;  // guards all members below
  std::condition_variable changed_;
  std::vector<Open> open_;
  Clock::time_point next_warning_{};  // of refused access, at the earliest
  std::minstd_rand random_;
  bool stopping_ = false;
  std::unique_ptr<Interrupt> interrupt_;  // made with the thread
  std::thread thread_;
};

}  // namespace delayqueue
