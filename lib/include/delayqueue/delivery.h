// Delivery: a message whose verdict comes later than the end of its handler, from any thread.
#pragma once

#include <delayqueue/export.h>
#include <delayqueue/message.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace delayqueue {

class HandlerRunner;     // internal
class VerdictInbox;      // internal
struct InFlightMessage;  // internal

// The end of a verdict that Delivery::settle() has accepted.
enum class Settlement {
  settled,   // Redis has executed it; `durability` is not waited for
  stale,     // it came too late and changed nothing: another consumer has the message, or it was removed
  in_doubt,  // the consumer has ended before Redis confirmed it: the message may be delivered again
};

// Called once for an accepted verdict, in one of the threads that run handlers; if it is in doubt, in a
// thread that stops or destroys the consumer, or destroys the Delivery. So it must not own the Delivery. An exception is
// logged, as far as there is a consumer to log it.
using SettlementCallback = std::function<void(Settlement)>;

// A message that its handler owns until it is settled. The handler may move it elsewhere and return: to a thread pool,
// an event loop, the callback of a request. Meanwhile it takes one of the ConsumerOptions::concurrency places of the
// consumer but no thread, and the consumer renews the lease, up to ConsumerOptions::processing_timeout.
//
// Exactly one verdict counts: that of the first call that settles it, or, if it is destroyed without one,
//   nack("dropped without a verdict")  as a rule
//   nack with the exception's text     if its handler throws, and so destroys it
//   a return to the queue              while the consumer stops; this uses no retry
//
// Threads: any thread may use or destroy a Delivery. Two threads must not move or destroy the same object at the same
// time, but may settle it: see share(). No call waits for Redis or for a handler, and the destructor neither allocates
// memory nor throws.
//
// It may outlive its consumer, and is safe to use then, but settles nothing any more: the message is delivered again
// when its lease ends. The same holds in a fork of the process that has the consumer.
class DELAYQUEUE_EXPORT Delivery {
 public:
  Delivery(Delivery&& other) noexcept = default;
  Delivery& operator=(Delivery&& other) noexcept;  // settles the one that it replaces as the destructor does
  ~Delivery();

  // The message; valid as long as this object, also after it was settled. Throws std::logic_error if this was moved
  // from.
  const Message& message() const;

  // Settles the message with this verdict. Returns true if the consumer has accepted it: it sends the verdict to Redis
  // soon, and again if the answer is lost. Consumer::stop() returns false if it could not send an accepted verdict.
  // Returns false if nothing was settled: there is a verdict already, the consumer has stopped, or this was moved from.
  // `on_settled` is called for an accepted verdict only.
  [[nodiscard]] bool settle(Verdict verdict, SettlementCallback on_settled = {}) &&;

  // The same, with these verdicts.
  bool ack() &&;
  bool nack() &&;
  bool nack(std::string reason) &&;
  bool nack(std::chrono::milliseconds after, std::string reason = {}) &&;
  bool reject(std::string reason = {}) &&;
  bool snooze(std::chrono::milliseconds after) &&;

  // Moves it to shared ownership, for executors whose tasks must be copyable. Several owners may settle it at the same
  // time: std::move(*shared).ack(). One of the calls returns true. If none does, the last owner drops it.
  std::shared_ptr<Delivery> share() &&;

 private:
  friend class HandlerRunner;
  Delivery(std::shared_ptr<InFlightMessage> message, std::shared_ptr<VerdictInbox> inbox)
      : message_(std::move(message)), inbox_(std::move(inbox)) {}
  void drop() noexcept;

  std::shared_ptr<InFlightMessage> message_;
  std::shared_ptr<VerdictInbox> inbox_;
};

// Called for each message, in one of the ConsumerOptions::threads threads of the consumer, so for several messages at
// the same time. It should return soon, and not wait for other deliveries: these need the threads, too.
using DeliveryHandler = std::function<void(Delivery)>;

// Calls the handler, and throws what it throws. Returns the verdict of a Handler, and nothing for a DeliveryHandler.
using NextHandler = std::function<std::optional<Verdict>()>;

// A function around each call of a handler, in the same thread, for what all handlers of a consumer have in common: the
// span of a trace, a log line, a check. It calls next() and returns its result. An exception in it, also one of next(),
// counts as the handler's. Its time is part of the handler's. `next` and the message must not be used after it.
//
// Around a Handler it may return another verdict, and it may call next() again, or not at all.
//
// A DeliveryHandler settles its Delivery itself, perhaps after this call. So next() may be called once (a second call
// throws std::logic_error), and what is returned after it is not used. If it is not called, the returned verdict counts.
//
// If there is no verdict where one counts, the message is nacked.
using Around = std::function<std::optional<Verdict>(const Message& message, const NextHandler& next)>;

namespace internal {

// A function that a Handler can be made of is none, also if its parameter is `auto`.
template <class Function>
inline constexpr bool kIsDeliveryHandler =
    std::conjunction_v<std::negation<std::is_invocable_r<Verdict, Function&, const Message&>>,
                       std::is_invocable<Function&, Delivery>>;

}  // namespace internal

}  // namespace delayqueue
