// One message in flight: leased to this consumer, from the take until it is settled.
#pragma once

#include "consumer/message_contents.h"
#include "run/worker_pool.h"

#include <delayqueue/delivery.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace delayqueue {

// Two things end its delivery, in any order: its handler returns, and its verdict is there. A Handler's verdict is
// there when the handler returns, that of a Delivery when it is settled or destroyed. The second of the two frees the
// place of the delivery, unless that was freed when the lease was lost.
struct InFlightMessage {
  // What a take returns about one message.
  struct Taken {
    std::string id;
    std::shared_ptr<const std::string> queue;
    int attempt = 1;
    int retries_left = 0;
    std::int64_t receipt_us = 0;
    std::size_t line = 0;
    std::size_t lane = 0;
  };

  InFlightMessage(Taken taken, Lease::Clock::time_point ends)
      : lease(std::make_shared<Lease>(ends)),
        message(MessageContents::make(std::move(taken.id), std::move(taken.queue), taken.attempt, taken.retries_left,
                                      lease)),
        line(taken.line),
        lane(taken.lane),
        receipt_us(taken.receipt_us) {}

  // If on_settled was not called, the consumer has ended before Redis confirmed the verdict.
  ~InFlightMessage() {
    if (!on_settled) return;
    try {
      on_settled(Settlement::in_doubt);
    } catch (...) {  // there is no consumer that could log it
    }
  }
  InFlightMessage(const InFlightMessage&) = delete;
  InFlightMessage& operator=(const InFlightMessage&) = delete;

  // The handler begins. The payload must be set. False if the lease is lost: then the handler must not be called.
  bool begin() {
    started_.store(Lease::Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
    unsigned from = 0;
    return stages_.compare_exchange_strong(from, kBegun, std::memory_order_acq_rel);
  }

  // The caller's verdict counts, as the only one. False if there is one already.
  bool claim() {
    const unsigned before = stages_.fetch_or(kClaimed, std::memory_order_acq_rel);
    if ((before & kClaimed) != 0) return false;
    claimed_at = Lease::Clock::now();
    frees_place = (before & kReturned) != 0 && (before & kLost) == 0;
    return true;
  }

  // The handler has returned.
  run::WorkResult end_handler() {
    const unsigned before = stages_.fetch_or(kReturned, std::memory_order_acq_rel);
    return {(before & kReplaced) == 0, (before & kClaimed) != 0 && (before & kLost) == 0};
  }

  // The handler has returned with this verdict, or will not begin.
  run::WorkResult end(Verdict said) {
    verdict = std::move(said);
    verdict_at_return = true;
    const unsigned before = stages_.fetch_or(kClaimed | kReturned, std::memory_order_acq_rel);
    return {(before & kReplaced) == 0, (before & kLost) == 0 || (before & kBegun) == 0};
  }

  // Whether its handler runs, and its worker goes on afterwards.
  bool keeps_worker() const { return keeps_worker(stages_.load(std::memory_order_acquire)); }

  // Its worker ends when the handler returns: another one has replaced it. False if not keeps_worker().
  bool replace_worker() {
    unsigned from = stages_.load(std::memory_order_acquire);
    do {
      if (!keeps_worker(from)) return false;
    } while (!stages_.compare_exchange_weak(from, from | kReplaced, std::memory_order_acq_rel));
    return true;
  }

  // The lease is lost, and with it the place. True if the caller must free the place: it had one, and neither the
  // return of its handler nor its verdict frees it.
  bool lose_place() {
    const unsigned before = stages_.fetch_or(kLost, std::memory_order_acq_rel);
    const bool ended = (before & kClaimed) != 0 && (before & kReturned) != 0;
    return (before & kBegun) != 0 && (before & kLost) == 0 && !ended;
  }

  bool has_begun() const { return (stages_.load(std::memory_order_acquire) & kBegun) != 0; }

  // When its handler has begun.
  Lease::Clock::time_point began() const {
    return Lease::Clock::time_point(Lease::Clock::duration(started_.load(std::memory_order_relaxed)));
  }

  // Whether it has begun so long ago, and has no verdict yet.
  bool runs_longer_than(std::chrono::milliseconds most) const { return began_before(most, kClaimed); }

  // When its handler began; unset: it has not begun, or there is a verdict.
  std::optional<Lease::Clock::time_point> running_since() const {
    const unsigned stages = stages_.load(std::memory_order_acquire);
    if ((stages & kBegun) == 0 || (stages & kClaimed) != 0) return std::nullopt;
    return Lease::Clock::time_point(Lease::Clock::duration(started_.load(std::memory_order_relaxed)));
  }

  // Whether its handler has been running for so long, with a verdict or without.
  bool handler_runs_longer_than(std::chrono::milliseconds most) const { return began_before(most, kReturned); }

  const std::shared_ptr<Lease> lease;
  Message message;
  const std::size_t line;  // of its queue: see HandlerRunner
  const std::size_t lane;
  // When the message was due, by this machine's clock; the start of the clock: not known. Set before a worker gets it.
  Lease::Clock::time_point due{};

  // Written by the thread that claims it; then of the consumer's thread.
  Verdict verdict = ack();
  Lease::Clock::time_point claimed_at{};    // when the verdict of a Delivery was given
  SettlementCallback on_settled{};          // for the verdict; a worker calls and destroys it
  std::shared_ptr<InFlightMessage> next{};  // in the VerdictInbox
  bool dropped = false;                     // its Delivery was destroyed: the consumer's thread chooses the verdict
  bool frees_place = false;                 // its handler had returned before: the verdict's arrival frees the place
  bool verdict_at_return = false;           // the verdict arrives with the return of the handler, in no inbox

  // Of the consumer's thread only.
  std::int64_t receipt_us;                               // the lease end as confirmed by Redis
  bool requested = false;                                // a request for the body, or its size, is under way
  std::optional<Lease::Clock::time_point> lone_since{};  // when its body was first fetched alone
  unsigned unanswered = 0;                               // requests for the body whose answers never came
  std::optional<std::size_t> size{};                     // of the body, if that was read before it
  bool expired = false;                                  // the body was gone when the message was taken
  bool may_have_headers = false;                         // others of its queue had some when it was taken, or it has
  bool foreign = false;                                  // the id is not valid: another program wrote it
  bool settling = false;                                 // a request to settle it is under way
  bool in_doubt = false;  // the last answer does not tell whether it was settled: see Settler
  bool refused = false;   // Redis refused to settle it
  bool returned = false;  // its handler has returned
  bool has_verdict = false;
  bool refilled = false;                    // its place was freed: its lease is lost, or its handler hangs
  InFlightMessage* begun_before = nullptr;  // its neighbours in the list of HandlerRunner; the worker writes it first
  InFlightMessage* begun_after = nullptr;

 private:
  // The bits of stages_: events that have happened.
  static constexpr unsigned kBegun = 1;
  static constexpr unsigned kReturned = 2;
  static constexpr unsigned kClaimed = 4;
  static constexpr unsigned kReplaced = 8;  // its worker
  static constexpr unsigned kLost = 16;     // its lease, and with it its place

  static bool keeps_worker(unsigned stages) {
    return (stages & kBegun) != 0 && (stages & (kReturned | kReplaced)) == 0;
  }

  // Whether it has begun so long ago, and the event `end` has not happened.
  bool began_before(std::chrono::milliseconds most, unsigned end) const {
    const unsigned stages = stages_.load(std::memory_order_acquire);
    if ((stages & kBegun) == 0 || (stages & end) != 0) return false;
    const Lease::Clock::duration began(started_.load(std::memory_order_relaxed));
    return Lease::Clock::now().time_since_epoch() - began >= most;
  }

  std::atomic<unsigned> stages_{0};
  std::atomic<Lease::Clock::rep> started_{0};
};

using InFlightPtr = std::shared_ptr<InFlightMessage>;

}  // namespace delayqueue
