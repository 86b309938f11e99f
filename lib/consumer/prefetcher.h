// Prefetcher: takes messages for a lane as plan() says, and keeps what the takes have shown. Used by the consumer's
// thread only.
#pragma once

#include "consumer/answer_times.h"
#include "consumer/body_fetcher.h"
#include "consumer/delivery.h"
#include "consumer/plan.h"
#include "consumer/poison_guard.h"
#include "consumer/round_trip.h"
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

  // `line`: of the queue, see HandlerRunner; `lane`: the number of the lane. `handled`: see
  // ServedQueue::handled_since_retry. Counts each take in `answers`, and gives what it returns to `bodies`.
  Prefetcher(const std::string& queue, std::size_t line, std::size_t lane, milliseconds lease, std::size_t& handled,
             AnswerTimes& answers, BodyFetcher& bodies, PoisonRuns& poison_runs, Listener listener)
      : queue_(std::make_shared<const std::string>(queue)),
        line_(line),
        lane_(lane),
        lease_(lease),
        handled_(handled),
        answers_(answers),
        bodies_(bodies),
        listener_(std::move(listener)),
        poison_guard_(lease, poison_runs) {}

  // Writes what plan() has to know of it.
  void describe(planning::LaneView& view) const;

  bool more_ready() const { return more_ready_; }

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

  // Adds these takes, if there are any.
  void take(RoundTrip& round_trip, const store::Store& store, const planning::Take& take);

  // The same, of due messages from pending. If the lists are not empty, these only move the messages to ready, and a
  // take must follow.
  void take_due(RoundTrip& round_trip, const store::Store& store, const planning::Take& take, bool with_ids,
                const store::Watcher& watcher);

  // These deliveries have a verdict, or no handler gets them.
  void forget(const std::vector<InFlightPtr>& deliveries) { poison_guard_.forget(deliveries); }

 private:
  bool retry_waits() const { return retry_left_ > 0 && !poison_guard_.blocks_retry(); }
  void begin_take(const store::TakeLimits& limits);
  void end_take(const store::TakeLimits& limits);
  void read_taken(const store::TakeLimits& limits, Clock::time_point sent_at, const store::Taken& taken,
                  std::size_t more);
  void count_share(const store::Taken& taken);

  const std::shared_ptr<const std::string> queue_;  // its name, in every Message
  const std::size_t line_;
  const std::size_t lane_;
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
