// A message as a handler sees it, and what a handler says of it.
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

class Lease;  // what the consumer knows of its hold on a message; not for users

// One delivery. A handler gets it by reference; it may be copied and outlive the handler. Made by hand (in a test of
// a handler) it is a message whose lease never ends.
struct DELAYQUEUE_EXPORT Message {
  std::string id{};       // a UUID in its usual form of 36 characters
  std::string payload{};  // the bytes that were sent, all of them
  int attempt = 1;        // 1 for the first delivery; deliveries are at least once, so 1 is no promise of "never seen"

  // True once the consumer no longer holds the lease: it ended, or processing_timeout did, or Redis said that another
  // consumer has the message or that it is gone. What the handler then returns counts only if nobody else has got the
  // message yet. Any thread may ask.
  bool lost() const;

  std::shared_ptr<const Lease> lease{};  // set by the consumer
};

// What became of a delivery. Made by the functions below; a plain bool means ack or nack.
class Verdict {
 public:
  enum class Kind { ack, nack, reject, snooze };

  // From bool alone: a pointer or a number is no verdict.
  template <class Bool, class = std::enable_if_t<std::is_same_v<Bool, bool>>>
  Verdict(Bool done) : kind(done ? Kind::ack : Kind::nack) {}  // NOLINT(google-explicit-constructor)
  Verdict(Kind k, std::optional<std::chrono::milliseconds> a, std::string r)
      : kind(k), after(a), reason(std::move(r)) {}

  Kind kind;
  std::optional<std::chrono::milliseconds> after;  // nack: unset means by ConsumerOptions::backoff
  std::string reason{};                            // cut to 1 KiB when stored
};

// Done: every trace of the message is removed.
DELAYQUEUE_EXPORT Verdict ack();

// Not done: delivered again after `after` (default: the consumer's backoff), or given up when no retries are left.
// The reason is kept with the message. A negative `after`, of a nack, a snooze or a backoff, counts as 0, and one of more
// than a hundred years as a hundred years; the logger gets a warning that names it, once a minute for each kind.
DELAYQUEUE_EXPORT Verdict nack();
DELAYQUEUE_EXPORT Verdict nack(std::string reason);
DELAYQUEUE_EXPORT Verdict nack(std::chrono::milliseconds after, std::string reason = {});

// Never to be done: given up at once, into the dead letters, with its reason.
DELAYQUEUE_EXPORT Verdict reject(std::string reason = {});

// Not now: delivered again after `after` as if it had not been delivered. Spends no retry and counts as no attempt.
DELAYQUEUE_EXPORT Verdict snooze(std::chrono::milliseconds after);

using Handler = std::function<Verdict(const Message&)>;

}  // namespace delayqueue
