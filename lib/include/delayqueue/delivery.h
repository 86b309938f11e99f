// Delivery: a message whose verdict comes later than the end of its handler, from any thread.
#pragma once

#include <delayqueue/export.h>
#include <delayqueue/message.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace delayqueue {

class Handlers;          // internal
class VerdictInbox;      // internal
struct InFlightMessage;  // internal

// The result of a verdict that Delivery::settle() has accepted.
enum class Settlement {
  settled,   // Redis has executed it; `durability` is not waited for
  stale,     // it came too late and changed nothing: another consumer has the message, or it was removed
  in_doubt,  // no answer confirms it: the message may be delivered again. Either the consumer has ended, or the answer
             // was lost, and when the consumer asked again after a nack or snooze, the message was no longer its own
};
DELAYQUEUE_EXPORT const char* to_string(Settlement settlement);  // "settled", "stale", "in_doubt"

// Called once for an accepted verdict, in one of the threads that run handlers. If the verdict is in doubt, it is
// called in a thread that stops or destroys the consumer, or that destroys the Delivery; so it must not own the
// Delivery. An exception is logged, if there is still a consumer to log it.
using SettlementCallback = std::function<void(Settlement)>;

// A message that its handler owns until it is settled. The handler may move it elsewhere and return: to a thread pool,
// an event loop, the callback of a request. Until it is settled, it takes one of the ConsumerOptions::concurrency
// places of the consumer but no thread, and the consumer renews its lease, up to ConsumerOptions::processing_timeout.
//
// Exactly one verdict counts: that of the first call that settles it. If it is destroyed without a verdict, this is
//   nack("dropped without a verdict")  as a rule
//   nack with the exception's text     if its handler throws, and so destroys it
//   a return to the queue              while the consumer stops; this uses no retry
//
// Threads: any thread may use or destroy a Delivery. Two threads must not move or destroy the same object at the same
// time. They may settle it at the same time: see share(). No call waits for Redis or for a handler, and the destructor
// neither allocates memory nor throws.
//
// It may outlive its consumer. It is safe to use then, but settles nothing: the message is delivered again when its
// lease ends. The same holds in a fork of the process that has the consumer.
class DELAYQUEUE_EXPORT Delivery {
 public:
  Delivery(Delivery&& other) noexcept = default;
  Delivery& operator=(Delivery&& other) noexcept;  // settles the replaced one, as its destructor does
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
  friend class Handlers;
  Delivery(std::shared_ptr<InFlightMessage> message, std::shared_ptr<VerdictInbox> inbox)
      : message_(std::move(message)), inbox_(std::move(inbox)) {}
  void drop() noexcept;

  std::shared_ptr<InFlightMessage> message_;
  std::shared_ptr<VerdictInbox> inbox_;
};

// Called for each message, in one of the ConsumerOptions::threads threads of the consumer, so for several messages at
// the same time. It should return soon, and not wait for other deliveries, whose handlers need these threads, too.
class DeliveryHandler : public std::function<void(Delivery)> {
 public:
  DeliveryHandler() = default;
  DeliveryHandler(std::nullptr_t) {}
  template <class Function, class = std::enable_if_t<!std::is_base_of_v<DeliveryHandler, Function> &&
                                                     std::is_invocable_v<Function&, Delivery>>>
  DeliveryHandler(Function handler) : std::function<void(Delivery)>(std::move(handler)) {
    static_assert(std::is_void_v<std::invoke_result_t<Function&, Delivery>>,
                  "a handler of a Delivery must return nothing, because a result would be lost: settle the Delivery");
  }
};

// Calls the handler, and throws what it throws. Returns the verdict of a Handler, and nothing for a DeliveryHandler.
using NextHandler = std::function<std::optional<Verdict>()>;

// A function around each call of a handler, in the same thread, for what all handlers of a consumer have in common: the
// span of a trace, a log line, a check. It calls next() and returns its result. An exception in it, also one of next(),
// counts as the handler's. Its time is part of the handler's. It must not keep `next` or the message after it returns.
//
// Around a Handler it may return another verdict, and it may call next() again, or not at all.
//
// A DeliveryHandler settles its Delivery itself, perhaps later. So next() may be called only once (a second call throws
// std::logic_error), and the returned value is not used. If next() is not called, the returned verdict counts.
//
// If a verdict counts and there is none, the message is nacked.
using Around = std::function<std::optional<Verdict>(const Message& message, const NextHandler& next)>;

}  // namespace delayqueue
