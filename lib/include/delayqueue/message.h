// The message that a handler receives, and the verdict that it returns.
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

class Lease;  // the consumer's lease on a message; not for users

// One delivery of a message. A copy may outlive the handler. One constructed by a caller (in a test of a handler) has a
// lease that never ends.
struct DELAYQUEUE_EXPORT Message {
  std::string id{};       // a UUID in its usual form of 36 characters
  std::string payload{};  // all bytes that were sent
  int attempt = 1;        // 1 for the first delivery; deliveries are at least once, so 1 is no promise of "never seen"

  // True after the consumer has lost the lease: it ended, processing_timeout passed, or Redis answered that another
  // consumer has the message or that it is gone. The handler's verdict then counts only if no other consumer has
  // received the message yet. Thread-safe.
  bool lost() const;

  std::shared_ptr<const Lease> lease{};  // set by the consumer
};

// The result of a delivery, made by the functions below. A bool converts to it: true is ack(), false is nack().
class Verdict {
 public:
  enum class Kind { ack, nack, reject, snooze };

  // From bool only: a pointer or a number does not convert.
  template <class Bool, class = std::enable_if_t<std::is_same_v<Bool, bool>>>
  Verdict(Bool done) : kind(done ? Kind::ack : Kind::nack) {}  // NOLINT(google-explicit-constructor)
  Verdict(Kind k, std::optional<std::chrono::milliseconds> a, std::string r)
      : kind(k), after(a), reason(std::move(r)) {}

  Kind kind;
  std::optional<std::chrono::milliseconds> after;  // of a nack, unset: as ConsumerOptions::backoff says
  std::string reason{};                            // cut to 1 KiB when stored
};

// Done: the message is deleted.
DELAYQUEUE_EXPORT Verdict ack();

// Not done: delivered again after `after` (default: the consumer's backoff), or a dead letter if no retries are left.
// Spends a retry. The reason is kept with the message. A negative wait, of a nack, a snooze or a backoff, counts as 0,
// and one of more than a hundred years as a hundred years; the logger gets a warning with the value, once a minute for
// each kind.
DELAYQUEUE_EXPORT Verdict nack();
DELAYQUEUE_EXPORT Verdict nack(std::string reason);
DELAYQUEUE_EXPORT Verdict nack(std::chrono::milliseconds after, std::string reason = {});

// Cannot be done: a dead letter at once, with the reason, even if retries are left.
DELAYQUEUE_EXPORT Verdict reject(std::string reason = {});

// Not now: delivered again after `after`. Spends no retry and counts as no attempt.
DELAYQUEUE_EXPORT Verdict snooze(std::chrono::milliseconds after);

// Called for each message, in one of the consumer's ConsumerOptions::concurrency threads. An exception counts as a nack
// with the exception's text as reason.
using Handler = std::function<Verdict(const Message&)>;

}  // namespace delayqueue
