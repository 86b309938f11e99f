// One message in flight: leased to this consumer, from the take until it is settled.
#pragma once

#include "consumer/delivery_table.h"

#include <delayqueue/detail/owned.h>
#include <delayqueue/handler.h>
#include <delayqueue/message.h>

#include <atomic>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue {

inline namespace DELAYQUEUE_ABI {
namespace internal {

// The lease of one delivery, as far as the consumer can trust it. Written by the consumer's thread, read by handlers.
class Lease {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Lease(Clock::time_point ends) { renew(ends); }

  // `ends`: by this machine's steady clock, and not after the end that Redis has confirmed.
  void renew(Clock::time_point ends) { ends_.store(ends.time_since_epoch().count(), std::memory_order_relaxed); }

  // Ends the lease for good: another consumer may have the message.
  void lose() { ends_.store(kLost, std::memory_order_relaxed); }

  bool lost() const { return Clock::now().time_since_epoch().count() >= ends_.load(std::memory_order_relaxed); }
  bool lost_for_good() const { return ends_.load(std::memory_order_relaxed) == kLost; }

 private:
  static constexpr Clock::rep kLost = 0;
  std::atomic<Clock::rep> ends_;
};

}  // namespace internal
}  // namespace DELAYQUEUE_ABI
using internal::Lease;

inline namespace DELAYQUEUE_ABI {
namespace internal {

// Makes and fills a Message, whose members are private.
struct MessageContents {
  static Message make(std::string id, std::shared_ptr<const std::string> queue, int attempt, int retries_left,
                      std::shared_ptr<const Lease> lease) {
    Message message;
    message.id_ = std::move(id);
    message.queue_ = std::move(queue);
    message.attempt_ = attempt;
    message.retries_left_ = retries_left;
    message.lease_ = std::move(lease);
    return message;
  }

  static void set_payload(Message& message, std::string payload) { message.payload_ = std::move(payload); }
  static void set_headers(Message& message, Headers headers) { message.headers_ = std::move(headers); }
};

}  // namespace internal
}  // namespace DELAYQUEUE_ABI
using internal::MessageContents;

inline namespace DELAYQUEUE_ABI {
namespace internal {

// Its stage is in delivery_table.h.
struct InFlightMessage {
  // What a take returns about one message.
  struct Taken {
    std::string id;
    std::shared_ptr<const std::string> queue_name;
    int attempt = 1;
    int retries_left = 0;
    std::int64_t receipt_us = 0;
    std::size_t queue = 0;
    std::size_t lane = 0;
  };

  InFlightMessage(Taken taken, Lease::Clock::time_point ends)
      : lease(std::make_shared<Lease>(ends)),
        message(MessageContents::make(std::move(taken.id), std::move(taken.queue_name), taken.attempt,
                                      taken.retries_left, lease)),
        queue(taken.queue),
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

  Stage stage() const { return stage_.load(std::memory_order_acquire); }
  StageFacts facts() const { return facts_of(stage()); }

  // A worker is about to call the handler. The payload must be set. False if it must not: the lease is lost.
  bool begin() {
    began_.store(Lease::Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
    return change(StageEvent::begin).kind == StageChange::Kind::made;
  }

  // A Delivery is settled or destroyed. True if its verdict counts; then the caller writes it, and passes the message
  // to the consumer's thread.
  bool settle() {
    if (!change(StageEvent::settle).takes_verdict) return false;
    settled_at = Lease::Clock::now();
    return true;
  }

  // The handler returns with this verdict, or has destroyed its Delivery (unset): it counts if there is none yet.
  StageChange finish(std::optional<Verdict>&& given) { return end(StageEvent::finish, std::move(given)); }

  // The handler returns without a verdict: its Delivery is, or was, somewhere else.
  StageChange leave() { return change(StageEvent::leave); }

  // No handler will be called. The message is settled with this verdict.
  StageChange release(Verdict given) { return end(StageEvent::release, std::move(given)); }

  // Another delivery may begin in place of this one. True if the caller must free the place.
  bool lose_place() { return change(StageEvent::lose_place).frees_place; }

  // Whether its handler runs without its place, and its worker has not been replaced.
  bool keeps_worker() const { return change_of(stage(), StageEvent::replace_worker).kind == StageChange::Kind::made; }

  // Another worker has been started. True if that is needed: the worker of this one ends when the handler returns.
  bool replace_worker() { return change(StageEvent::replace_worker).kind == StageChange::Kind::made; }

  void change(SettlingEvent event) {
    const std::optional<Settling> after = settling_after(settling, event);
    assert(after);
    settling = after.value_or(settling);
  }

  // Whether the request that settles it is under way.
  bool is_sent() const { return settling == Settling::sent || settling == Settling::sent_again; }

  // Whether Redis may have settled it already: the answer to a request never came.
  bool may_be_settled() const {
    return settling == Settling::unanswered || settling == Settling::unanswered_refused ||
           settling == Settling::sent_again;
  }

  // When its handler has begun.
  Lease::Clock::time_point began() const {
    return Lease::Clock::time_point(Lease::Clock::duration(began_.load(std::memory_order_relaxed)));
  }

  // Whether it has begun so long ago, and has no verdict yet.
  bool runs_longer_than(std::chrono::milliseconds most) const {
    const StageFacts now = facts();
    return now.has_begun && !now.has_verdict && began_before(most);
  }

  // Whether its handler has been running for so long, with a verdict or without.
  bool handler_runs_longer_than(std::chrono::milliseconds most) const {
    return facts().handler_runs && began_before(most);
  }

  const std::shared_ptr<Lease> lease;
  Message message;
  // The numbers of its queue and lane, among those of the consumer.
  const std::size_t queue;
  const std::size_t lane;
  // When the message was due, by this machine's clock; the start of the clock: not known. Set before a worker gets it.
  Lease::Clock::time_point due{};

  // Written by the thread whose verdict counts; then of the consumer's thread.
  std::optional<Verdict> verdict = ack();   // unset: the Delivery was destroyed; the consumer's thread chooses one
  Lease::Clock::time_point settled_at{};    // when there was a verdict
  SettlementCallback on_settled{};          // for the verdict; a worker calls and destroys it
  std::shared_ptr<InFlightMessage> next{};  // in the VerdictInbox

  // Of the consumer's thread only.
  std::int64_t receipt_us;                               // the lease end as confirmed by Redis
  bool requested = false;                                // a request for the body, or its size, is under way
  std::optional<Lease::Clock::time_point> lone_since{};  // when its body was first fetched alone
  bool is_fetched_alone = false;                         // its body, of any size: see BodyFetcher
  std::optional<std::size_t> size{};                     // of the body, if that was read before it
  bool may_have_key = false;                             // others of its queue had some when it was taken, or it has
  bool may_have_headers = false;                         // others of its queue had some when it was taken, or it has
  // What the take or the fetch has found: only a message has a handler; the others are removed.
  // `skipped`: an occurrence of a schedule, of which an earlier one is alive.
  enum class Content : unsigned char { message, expired, skipped, foreign } content = Content::message;
  Settling settling = Settling::held;
  // Which of the two things that end a delivery has arrived in the consumer's thread, before the other one.
  enum class Arrived : unsigned char { nothing, the_return, the_verdict } arrived = Arrived::nothing;
  InFlightMessage* begun_before = nullptr;  // its neighbours in the list of Handlers; the worker writes it first
  InFlightMessage* begun_after = nullptr;

 private:
  StageChange change(StageEvent event) {
    Stage from = stage();
    for (;;) {
      const StageChange change = change_of(from, event);
      assert(change.kind != StageChange::Kind::impossible);
      if (change.kind != StageChange::Kind::made) return change;
      if (stage_.compare_exchange_weak(from, change.next, std::memory_order_acq_rel)) return change;
    }
  }

  // In a worker, or before one has it: the consumer's thread reads the verdict after the caller has passed it on.
  StageChange end(StageEvent event, std::optional<Verdict>&& given) {
    const StageChange ended = change(event);
    if (ended.takes_verdict) {
      verdict = std::move(given);
      settled_at = Lease::Clock::now();
    }
    return ended;
  }

  bool began_before(std::chrono::milliseconds most) const { return Lease::Clock::now() - began() >= most; }

  std::atomic<Stage> stage_{Stage::taken};
  std::atomic<Lease::Clock::rep> began_{0};
};

}  // namespace internal
}  // namespace DELAYQUEUE_ABI
using internal::InFlightMessage;

using InFlightPtr = std::shared_ptr<InFlightMessage>;

inline namespace DELAYQUEUE_ABI {
namespace internal {

// The verdicts of deliveries, on their way from any thread to the consumer's thread.
//
// A list whose nodes are the messages themselves, so that push() allocates nothing. Deliveries own it together with the
// consumer, and may outlive that. It refers to no handler and no queue.
class VerdictInbox {
 public:
  // Calls `wake` in a thread that makes the list non-empty, until close().
  explicit VerdictInbox(std::function<void()> wake) : wake_(std::move(wake)) {}
  ~VerdictInbox() { close(); }
  VerdictInbox(const VerdictInbox&) = delete;
  VerdictInbox& operator=(const VerdictInbox&) = delete;

  // Adds a message for which the caller's verdict counts. False after close(), and in a fork, where the mutex may stay
  // locked.
  bool push(const InFlightPtr& message) noexcept {
    if (process_ != internal::this_process()) return false;
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    const bool first = last_ == nullptr;
    (first ? first_ : last_->next) = message;
    last_ = message.get();
    ++size_;
    if (first) wake_();
    return true;
  }

  // Removes all messages, and returns them in the order of push().
  std::vector<InFlightPtr> take() {
    std::vector<InFlightPtr> messages;
    InFlightPtr message;
    {
      const std::lock_guard lock(mutex_);
      messages.reserve(size_);  // first: it may throw
      message = std::exchange(first_, nullptr);
      last_ = nullptr;
      size_ = 0;
    }
    while (message != nullptr) {
      InFlightPtr next = std::exchange(message->next, nullptr);
      messages.push_back(std::move(message));
      message = std::move(next);
    }
    return messages;
  }

  // From now on push() accepts nothing. Drops what is left.
  void close() {
    InFlightPtr message;
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      message = std::exchange(first_, nullptr);
      last_ = nullptr;
      size_ = 0;
    }
    while (message != nullptr) message = std::exchange(message->next, nullptr);  // one by one: no deep recursion
  }

 private:
  const std::function<void()> wake_;
  const long process_ = internal::this_process();
  std::mutex mutex_;  // guards all members below
  bool closed_ = false;
  InFlightPtr first_;
  InFlightMessage* last_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace internal
}  // namespace DELAYQUEUE_ABI
using internal::VerdictInbox;

// The delivery that a handler of a Delivery handles in this thread.
//
// A handler that throws destroys its Delivery before the exception can be caught. So a delivery that is dropped in the
// thread where its handler runs gets its verdict from the worker when the handler has ended: then the exception's text
// is the reason. Until then it has none, so processing_timeout applies to a handler that goes on.
class HandlerScope {
 public:
  explicit HandlerScope(const InFlightMessage& message) : message_(message), before_(std::exchange(current(), this)) {}
  ~HandlerScope() { current() = before_; }
  HandlerScope(const HandlerScope&) = delete;
  HandlerScope& operator=(const HandlerScope&) = delete;

  // Returns whether the handler of this delivery runs in this thread, and has dropped() return true then.
  static bool keep_dropped(const InFlightMessage& message) noexcept {
    HandlerScope* const scope = current();
    if (scope == nullptr || &scope->message_ != &message) return false;
    return scope->dropped_ = true;
  }

  bool dropped() const { return dropped_; }

 private:
  static HandlerScope*& current() {
    thread_local HandlerScope* scope = nullptr;
    return scope;
  }

  const InFlightMessage& message_;
  HandlerScope* const before_;
  bool dropped_ = false;
};

}  // namespace delayqueue
