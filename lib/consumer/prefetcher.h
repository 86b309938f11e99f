// Prefetcher: decides how many messages a lane takes, and from which list. Used by the consumer's thread only.
#pragma once

#include "consumer/answer_times.h"
#include "consumer/body_fetcher.h"
#include "consumer/delivery.h"
#include "consumer/poison_guard.h"
#include "consumer/round_trip.h"
#include "consumer/worker_share.h"
#include "store/moves.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue {

class Prefetcher {
 public:
  using Clock = std::chrono::steady_clock;

  // What one take returned.
  struct Taken {
    std::vector<InFlightPtr> deliveries{};
    std::int64_t now_us = 0;  // Redis' time
    Clock::time_point sent_at{};
    std::vector<InFlightPtr> foreign{};  // their ids are not valid: the Settler removes them from unack
    std::size_t removed = 0;             // number of further foreign ids, which are removed already
    std::string foreign_id{};            // one of all these
  };

  struct Listener {
    // Before `taken`, if one request did both. `more`: it moved as many as it was asked for.
    std::function<void(const store::Promoted&, bool more)> promoted;
    std::function<void(const Taken&)> taken;
  };

  // `line`: of the queue, see HandlerRunner; `lane`: the number of the lane. `workers`: the most that the queue may
  // use. `handled`: see ServedQueue::handled_since_retry. Counts each take in `answers`, and gives what it returns to
  // `bodies`.
  Prefetcher(const std::string& queue, std::size_t line, std::size_t lane, std::size_t workers, milliseconds lease,
             std::size_t& handled, AnswerTimes& answers, BodyFetcher& bodies, PoisonRuns& poison_runs,
             Listener listener)
      : queue_(std::make_shared<const std::string>(queue)),
        line_(line),
        lane_(lane),
        workers_(workers),
        lease_(lease),
        handled_(handled),
        answers_(answers),
        bodies_(bodies),
        listener_(std::move(listener)),
        poison_guard_(lease, poison_runs) {}

  // How many more messages may be held, and how many of these one round trip takes at most.
  std::size_t room(const WorkerShare& share) const;
  std::size_t most_taken(const WorkerShare& share) const {
    return std::min(room(share), batches(share) * store::kBatch);
  }

  // What the bound of messages and the workers, which all queues of the consumer share, have to provide for this queue:
  // the messages that wait for their bodies, those that a take may return, and those that it may return from retry. A
  // take whose answer is late counts no more: its server may be frozen, and other queues must not wait for it.
  // Nothing while the answers are late, so that a server that does not answer keeps no places from other queues.
  std::size_t fetching() const { return answers_.is_late() ? 0 : bodies_.size(); }
  std::size_t coming() const { return answers_.is_late() ? 0 : coming_; }
  std::size_t coming_retries() const { return answers_.is_late() ? 0 : coming_retries_; }

  // Whether messages are left in retry, as far as is known, and it may take them.
  bool retry_waits() const { return retry_left_ > 0 && !poison_guard_.blocks_retry(); }

  // Whether a take may return something: the last one returned as much as it asked for, or left messages in retry for
  // which there is a worker now, or expect_more() was called since.
  bool has_more(const WorkerShare& share) const { return more_ready_ || (retry_waits() && free_workers(share) > 0); }

  // Whether to take again at once: the last take returned as much as it asked for, or was stopped by possible poison
  // messages, and another may get further.
  bool should_go_on(const WorkerShare& share) const {
    if (more_ready_ && can_take(share)) return true;
    return poison_guard_.should_rescan() && retry_waits() && free_workers(share) > 0;
  }
  bool more_ready() const { return more_ready_; }

  // How many messages a take may return, as far as is known: the places for others are for the next lane.
  std::size_t expected() const { return expected_ + retry_left_; }

  // There may be so many more to take later.
  void expect_more(std::size_t messages) {
    expected_ = std::max(messages, more_ready_ ? expected_ : 0);
    more_ready_ = true;
    lists_empty_ = false;
  }

  // pending2ready has moved so many messages. A take in the same round trip answers later.
  void promoted(std::size_t moved) {
    promoted_ += moved;
    if (moved > 0) expect_more(moved);
  }

  // A producer or another consumer has put messages into ready.
  void ready_grew() { lists_empty_ = false; }

  // So many messages came into retry. They may be behind possible poison messages: then rescan_due() is when to look
  // for them.
  void retry_grew(std::size_t messages) {
    poison_guard_.retry_grew();
    retry_left_ += messages;
    lists_empty_ = false;
  }
  Clock::time_point rescan_due() const { return poison_guard_.rescan_due(); }

  // Whether one worker must be kept free for retry. Under load every worker that becomes free would go on with first
  // deliveries, of this queue or of others, and retry would never get its share. It is counted over the messages that
  // were taken, and over those that were handled: with slow handlers none may be taken for long.
  bool retry_is_due() const;

  // Whether a take is under way, and whether another one of so many messages may overlap with it: the last answer was
  // all that was asked for, there is room, and nothing is known to wait in retry, which the other one would leave
  // alone.
  bool is_taking() const { return coming_ > 0; }
  bool may_overlap(const WorkerShare& share, std::size_t messages) const {
    return full_ && !answers_.is_late() && !retry_waits() && room(share) >= messages;
  }

  // Whether take() would add one. First deliveries may have to wait for the share of retry, and that for a worker.
  bool can_take(const WorkerShare& share) const { return limits(share).total > 0; }

  // Number of batches to take: 1; or up to kMostBatches if the last take was full, there is room for them, and no
  // messages of retry can be taken.
  std::size_t batches(const WorkerShare& share) const;

  // Adds takes of as many messages as there is room for, if any.
  void take(RoundTrip& round_trip, const store::Store& store, const WorkerShare& share);

  // Whether to take due messages with take_due(), in place of pending2ready and take(): there is room, and the lists
  // are empty as far as is known. If they are not, take_due() only moves the messages to ready, and a take must follow.
  bool takes_due(const WorkerShare& share) const { return lists_empty_ && room(share) > 0; }

  // Adds takes of due messages from pending, of as many as there is room for. Call it only if takes_due().
  void take_due(RoundTrip& round_trip, const store::Store& store, const WorkerShare& share, bool with_ids,
                const store::Watcher& watcher);

  // These deliveries have a verdict, or no handler gets them.
  void forget(const std::vector<InFlightPtr>& deliveries) { poison_guard_.forget(deliveries); }

 private:
  std::size_t free_workers(const WorkerShare& share) const;
  store::TakeLimits limits(const WorkerShare& share) const;
  std::vector<store::TakeLimits> limits_of_batches(const WorkerShare& share) const;
  void begin_take(const store::TakeLimits& limits);
  void end_take(const store::TakeLimits& limits);
  void read_taken(const store::TakeLimits& limits, Clock::time_point sent_at, const store::Taken& taken,
                  std::size_t more);
  void count_share(const store::Taken& taken);

  const std::shared_ptr<const std::string> queue_;  // its name, in every Message
  const std::size_t line_;
  const std::size_t lane_;
  const std::size_t workers_;
  const milliseconds lease_;
  std::size_t& handled_;
  AnswerTimes& answers_;
  BodyFetcher& bodies_;
  const Listener listener_;
  PoisonGuard poison_guard_;

  bool more_ready_ = false;
  std::size_t expected_ = 0;  // in ready, if there are more
  bool lists_empty_ = false;  // the last take returned nothing from ready and retry, except what was moved for it
  std::size_t promoted_ = 0;  // messages that pending2ready has moved since the last take
  std::size_t retry_left_ = 0;
  std::size_t since_retry_ = 0;     // messages taken since retry had its share
  std::size_t coming_ = 0;          // most messages that the takes under way return
  std::size_t coming_retries_ = 0;  // most of them from retry
  bool full_ = false;               // the last take returned all that it asked for
};

}  // namespace delayqueue
