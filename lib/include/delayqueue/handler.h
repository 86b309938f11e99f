// Handler: the function that a Consumer calls for each message. Before it: Delivery, a message that is settled later,
// from any thread, and the Settlement of its verdict. After it: Middleware, a function around each call of a handler.
#pragma once

#include <delayqueue/detail/handler_form.h>
#include <delayqueue/message.h>
#include <delayqueue/version.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {

namespace internal {
class Handlers;
class VerdictInbox;
struct InFlightMessage;
}  // namespace internal

namespace testing {
class Player;
}  // namespace testing

// The result of a verdict that Delivery::settle() has accepted.
enum class Settlement {
  settled,   // Redis has executed it; `durability` is not waited for
  stale,     // it came too late and changed nothing: another consumer has the message, or it was removed
  in_doubt,  // not confirmed: the message may be delivered again. The consumer has ended; or the answer to a nack or
             // snooze was lost, and by the repeat the message no longer belonged to the consumer
};
DELAYQUEUE_EXPORT const char* to_string(Settlement settlement);  // "settled", "stale", "in_doubt"

// Called once for an accepted verdict, in a thread that runs handlers. For in_doubt it may be called in the thread that
// stops or destroys the consumer, or that destroys the Delivery; so it must not own the Delivery. An exception is
// logged while the consumer exists.
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
  bool pause_queue(std::chrono::milliseconds after, std::string reason = {}) &&;

  // Moves it to shared ownership, for executors whose tasks must be copyable. Several owners may settle it at the same
  // time: std::move(*shared).ack(). One of the calls returns true. If none does, the last owner drops it.
  std::shared_ptr<Delivery> share() &&;

 private:
  friend class internal::Handlers;
  Delivery(std::shared_ptr<internal::InFlightMessage> message, std::shared_ptr<internal::VerdictInbox> inbox)
      : message_(std::move(message)), inbox_(std::move(inbox)) {}
  void drop() noexcept;

  std::shared_ptr<internal::InFlightMessage> message_;
  std::shared_ptr<internal::VerdictInbox> inbox_;
};

// A handler: a function of one of two forms, which a Consumer calls for several messages at the same time.
//   Verdict(const Message&)  returns its verdict. An exception is a nack with its text as reason: see
//                            current_exception_text()
//   void(Delivery)           owns the message until it is settled, in any thread, at any time. It should return soon,
//                            and not wait for other deliveries, whose handlers need the same threads
// A function with an `auto` parameter has the first form. The function need not be copyable: copies of a Handler share
// it.
class DELAYQUEUE_EXPORT Handler {
 public:
  // Throws std::invalid_argument for a null pointer and an empty std::function.
  template <class F, class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, Handler>>>
  Handler(F&& function) {  // NOLINT(google-explicit-constructor)
    using Function = std::decay_t<F>;
    constexpr internal::HandlerForm kForm = internal::handler_form<Function>();
    constexpr bool kValid = kForm == internal::HandlerForm::of_message || kForm == internal::HandlerForm::of_delivery;
    constexpr bool kMade = std::is_constructible_v<Function, F>;
    internal::check_form<Function, kForm>();
    static_assert(kMade || !kValid, "handler: it cannot be copied; pass it by std::move");
    if constexpr (kValid && kMade) {
      if constexpr (internal::kMayBeEmpty<Function>) check_function(!(function == nullptr));
      if constexpr (kForm == internal::HandlerForm::of_message) {
        on_message_ = [](void* own, const Message& message) -> Verdict {
          return (*static_cast<Function*>(own))(message);
        };
      } else {
        on_delivery_ = [](void* own, Delivery delivery) { (*static_cast<Function*>(own))(std::move(delivery)); };
      }
      function_ = std::make_shared<Function>(std::forward<F>(function));
    }
  }

  // True: it has the form void(Delivery).
  bool settles_later() const { return on_delivery_ != nullptr; }

 private:
  friend class internal::Handlers;
  friend class testing::Player;
  static void check_function(bool given);

  std::shared_ptr<void> function_{};
  Verdict (*on_message_)(void* function, const Message& message) = nullptr;
  void (*on_delivery_)(void* function, Delivery delivery) = nullptr;
};

// Calls the handler, and throws what it throws. Returns its verdict, or nothing if it settles a Delivery.
using NextHandler = std::function<std::optional<Verdict>()>;

// A function around each call of a handler, in the same thread, for what all handlers of a consumer have in common: the
// span of a trace, a log line, a check. It calls next() and returns its result. An exception in it, also one of next(),
// counts as the handler's. Its time is part of the handler's. It must not keep `next` or the message after it returns.
//
// If the handler returns a Verdict, the function may return another one, and may call next() again, or not at all.
//
// If the handler takes a Delivery, it settles that itself, perhaps later: next() may be called only once (a second call
// throws std::logic_error), and what is returned after it is not used. If next() is not called, the returned verdict
// counts.
//
// If the result counts and is empty, the message is nacked.
using Middleware = std::function<std::optional<Verdict>(const Message& message, const NextHandler& next)>;

}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
