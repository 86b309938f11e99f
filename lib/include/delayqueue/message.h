// Message and Verdict: the argument and the result of a handler.
#pragma once

#include <delayqueue/export.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace delayqueue {

class Lease;  // the consumer's lease on a message; internal

// One delivery of a message. A copy may outlive the handler. A Message that a caller constructs (to test a handler) has
// a lease that never ends.
struct DELAYQUEUE_EXPORT Message {
  std::string id{};       // a UUID, in the usual form of 36 characters
  std::string payload{};  // the bytes that were sent
  int attempt = 1;        // 1 for the first delivery; not fit to detect duplicates

  // True after the consumer has lost the lease: the lease ended, processing_timeout passed, or Redis replied that
  // another consumer has the message or that it does not exist any more. The handler's verdict then counts only if no
  // other consumer has received the message yet. Any thread may call it.
  bool lost() const;

  std::shared_ptr<const Lease> lease{};  // set by the consumer
};

// The result of a delivery, created by the functions below. A bool converts to it: true is ack(), false is nack().
class Verdict {
 public:
  enum class Kind { ack, nack, reject, snooze };

  // Converts from bool only, not from a pointer or a number.
  template <class Bool, class = std::enable_if_t<std::is_same_v<Bool, bool>>>
  Verdict(Bool done) : kind(done ? Kind::ack : Kind::nack) {}  // NOLINT(google-explicit-constructor)
  Verdict(Kind k, std::optional<std::chrono::milliseconds> a, std::string r)
      : kind(k), after(a), reason(std::move(r)) {}

  Kind kind;
  std::optional<std::chrono::milliseconds> after;  // the wait; unset in a nack: ConsumerOptions::backoff computes it
  std::string reason{};                            // its first 1 KiB is stored
};

// The work is done: the message is deleted.
DELAYQUEUE_EXPORT Verdict ack();

// The work is not done: the message is delivered again after `after` (default: the consumer's backoff), or becomes a
// dead letter if it has no retries left. Uses one retry. The reason is stored with the message.
//
// A negative wait counts as 0, and one of more than a hundred years as a hundred years. The logger gets a warning with
// the value, at most once a minute for each of nack, snooze and backoff.
DELAYQUEUE_EXPORT Verdict nack();
DELAYQUEUE_EXPORT Verdict nack(std::string reason);
DELAYQUEUE_EXPORT Verdict nack(std::chrono::milliseconds after, std::string reason = {});

// The work cannot be done: the message becomes a dead letter at once, with the reason, even if it has retries left.
DELAYQUEUE_EXPORT Verdict reject(std::string reason = {});

// The work cannot be done now: the message is delivered again after `after`. Uses no retry, and is not counted as an
// attempt.
DELAYQUEUE_EXPORT Verdict snooze(std::chrono::milliseconds after);

// Called for each message, in one of the ConsumerOptions::concurrency threads of the consumer. An exception counts as a
// nack with the exception's text as reason.
using Handler = std::function<Verdict(const Message&)>;

}  // namespace delayqueue
