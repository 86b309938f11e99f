// A round trip to Redis: one pipeline, and what to do with the answers to its requests. Used by the consumer's thread
// only.
#pragma once

#include "redis/pipeline.h"

#include <delayqueue/error.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <functional>
#include <utility>

namespace delayqueue {

// A round trip settles (and renews leases, fetches bodies, does maintenance), or takes messages (after moving those
// that are due), or does both. At most one round trip of each purpose is under way: Redis works on one while the
// consumer works on the answers of the other. The two are independent, except for the order: the consumer's own leases
// are renewed before overdue leases are taken back.
struct Purpose {
  bool settle = false;
  bool take = false;
};

class RoundTrip {
 public:
  RoundTrip(redis::Connection& connection, Purpose purpose) : pipeline_(connection), purpose_(purpose) {}
  ~RoundTrip() {
    for (Continuation& continuation : continuations_) {
      if (continuation.drop) continuation.drop();
    }
  }
  RoundTrip(const RoundTrip&) = delete;
  RoundTrip& operator=(const RoundTrip&) = delete;

  const Purpose& purpose() const { return purpose_; }

  // For adding requests.
  redis::Pipeline& pipeline() { return pipeline_; }

  // Registers what to do with the answer to a request: `finish` is called with the Answer, whose get() throws if Redis
  // refused the request. `drop` is called instead if this object is destroyed before. Answers to other requests are
  // ignored.
  template <class T, class Finish>
  void expect(const redis::Answer<T>& answer, Finish finish, std::function<void()> drop = nullptr) {
    continuations_.push_back({[answer, finish = std::move(finish)] { finish(answer); }, std::move(drop)});
  }

  bool empty() const { return pipeline_.size() == 0; }
  void send() { pipeline_.send(); }

  // Receives the answers and calls each `finish`, in the order of expect(). An Error thrown by one of them does not
  // stop the others; the last one is thrown at the end. Any other exception drops the rest. Throws ConnectionError, and
  // has called none, if the answers do not all arrive: see is_finished().
  void finish() {
    pipeline_.receive();
    finished_ = true;
    std::exception_ptr refused;
    while (!continuations_.empty()) {
      const Continuation next = std::move(continuations_.front());
      continuations_.pop_front();
      try {
        next.finish();
      } catch (const Error&) {
        refused = std::current_exception();
      } catch (...) {
        if (next.drop) next.drop();
        throw;
      }
    }
    if (refused != nullptr) std::rethrow_exception(refused);
  }

  // Whether all answers have arrived.
  bool is_finished() const { return finished_; }

 private:
  struct Continuation {
    std::function<void()> finish, drop;
  };

  redis::Pipeline pipeline_;
  const Purpose purpose_;
  std::deque<Continuation> continuations_;
  bool finished_ = false;
};

// Those under way, in the order of their answers.
using RoundTrips = std::deque<RoundTrip>;

inline bool is_under_way(const RoundTrips& round_trips, bool Purpose::*purpose) {
  return std::any_of(round_trips.begin(), round_trips.end(),
                     [&](const RoundTrip& round_trip) { return round_trip.purpose().*purpose; });
}

}  // namespace delayqueue
