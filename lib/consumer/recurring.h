// Recurring: a lane's work for schedules. It looks which are due, and stores their next occurrences. Used by the
// consumer's thread only.
#pragma once

#include "consumer/delivery.h"
#include "consumer/link.h"
#include "consumer/served_queue.h"
#include "schedules/advancer.h"
#include "store/schedules.h"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace delayqueue {

// Of partition 0 of a queue. Every consumer does it, and the script lets one advance each schedule: there is no leader.
//
// The consumer that takes an occurrence looks at once, so the next one is stored when this one is due. While the queue
// has active schedules, each consumer also looks every `poll_interval`; in a queue without any it reads a few names
// every kSeldom, which finds none. A failure is logged once, and fails nothing else.
class Recurring {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Recurring(const ServedPartition& partition);

  // A connection was made: its first look, whose calls are answered before the first take. So late occurrences are
  // taken back, or made up for, before they are delivered.
  void add_first_look(RoundTrip& round_trip, milliseconds poll_interval);
  // The connection was lost, or replaced.
  void leave();

  // Adds the calls that looks have planned. They precede the moves and takes of the round trip.
  void add_calls(RoundTrip& round_trip);
  bool has_calls() const { return !calls_.empty(); }
  // Adds what is due.
  void add(RoundTrip& round_trip, milliseconds poll_interval);
  Clock::time_point due() const { return names_.empty() ? std::min(look_due_, sample_due_) : Clock::time_point(); }

  // A take has returned these.
  void taken(const std::vector<InFlightPtr>& deliveries);
  // Something has changed: a pause may have ended, or Redis' clock has jumped.
  void look_again() {
    if (exists_ && !is_looking_) look_due_ = {};
  }

  // Nothing is to be taken now: what was missed before the connection, or during a pause, is not decided yet. The queue
  // has schedules and was paused at the last look, or the calls of the look after it have no answer.
  bool holds_takes() const { return paused_ || !undecided_.expired(); }

 private:
  static constexpr std::chrono::seconds kSeldom{10};

  void add(const std::vector<schedules::PlannedAdvancePtr>& calls, bool decides);
  void look(RoundTrip& round_trip, milliseconds poll_interval);
  void sample(RoundTrip& round_trip);
  void read_some(RoundTrip& round_trip);
  void finish_look(const store::Answer<store::ReadSchedules>& answer, milliseconds poll_interval);
  void finish_call(const schedules::PlannedAdvance& planned, const store::Answer<store::Advanced>& answer);
  void failed(const std::string& what, const std::string& why);

  const ServedPartition& partition_;
  schedules::Advancer advancer_;
  // A call, and what it keeps undecided as long as it has no answer: a server that has to load the script runs it after
  // the rest of the round trip.
  struct Call {
    schedules::PlannedAdvancePtr planned;
    std::shared_ptr<const bool> undecided;
  };
  std::vector<Call> calls_;
  std::weak_ptr<const bool> undecided_;
  bool decides_ = true;             // the next look is the first one of a connection
  std::vector<std::string> names_;  // of schedules that are to be read, for repairs
  bool exists_ = false;             // there are active schedules, as far as is known
  bool paused_ = false;
  bool is_looking_ = false, is_sampling_ = false;
  bool has_failed_ = false;  // the last time
  Clock::time_point look_due_ = Clock::time_point::max();
  Clock::time_point sample_due_{};
  Clock::time_point retry_at_{};  // after a call that Redis has refused
};

}  // namespace delayqueue
