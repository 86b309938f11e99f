// Message and Verdict: the argument and the result of a handler.
#pragma once

#include <delayqueue/export.h>
#include <delayqueue/headers.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace delayqueue {

class Lease;             // the consumer's lease on a message; internal
struct MessageContents;  // internal

// One delivery of a message. A consumer creates it; for the test of a handler, make_message() in testing.h does. A copy
// may outlive the handler, and is safe to read in any thread.
class DELAYQUEUE_EXPORT Message {
 public:
  const std::string& id() const { return id_; }            // a UUID, in the usual form of 36 characters
  const std::string& payload() const { return payload_; }  // the bytes that were sent
  const std::string& queue() const { return *queue_; }     // the name of the queue
  // Those of SendOptions::headers. If what is stored is damaged, there are none, and the consumer logs a warning.
  const Headers& headers() const { return headers_; }

  int attempt() const { return attempt_; }            // 1 for the first delivery; cannot detect duplicates
  int retries_left() const { return retries_left_; }  // 0: a nack makes the message a dead letter

  // When the message was sent, by the sender's clock, to the millisecond. It is in the id; unset if the id is not a
  // UUIDv7, such as that of a Go worker.
  std::optional<std::chrono::system_clock::time_point> sent_at() const;

  // True after the consumer has lost the lease: the lease ended, processing_timeout passed, or Redis replied that
  // another consumer has the message or that it does not exist any more. Another consumer may be handling it now, so do
  // not begin an effect that cannot be undone. The verdict may still count: an ack until the message is delivered
  // again, rescheduled, released, extended or redriven; any other verdict until a consumer has noticed that the lease
  // ended. Any thread may call it.
  bool lease_lost() const;

 private:
  friend struct MessageContents;
  Message() = default;

  std::string id_{}, payload_{};
  Headers headers_{};
  std::shared_ptr<const std::string> queue_{};
  std::shared_ptr<const Lease> lease_{};
  int attempt_ = 1, retries_left_ = 0;
};

// The result of a delivery, created by the functions below.
class DELAYQUEUE_EXPORT Verdict {
 public:
  enum class Kind { ack, nack, reject, snooze };

  Kind kind() const { return kind_; }
  // The wait of a nack or snooze; unset: of a nack, the backoff.
  const std::optional<std::chrono::milliseconds>& after() const { return after_; }
  const std::string& reason() const { return reason_; }  // its first 1 KiB is stored

  // Equal: the same kind, wait and reason.
  friend bool operator==(const Verdict& a, const Verdict& b) {
    return a.kind_ == b.kind_ && a.after_ == b.after_ && a.reason_ == b.reason_;
  }
  friend bool operator!=(const Verdict& a, const Verdict& b) { return !(a == b); }

 private:
  friend Verdict ack();
  friend Verdict nack();
  friend Verdict nack(std::string reason);
  friend Verdict nack(std::chrono::milliseconds after, std::string reason);
  friend Verdict reject(std::string reason);
  friend Verdict snooze(std::chrono::milliseconds after);
  Verdict(Kind kind, std::optional<std::chrono::milliseconds> after, std::string reason)
      : kind_(kind), after_(after), reason_(std::move(reason)) {}

  Kind kind_;
  std::optional<std::chrono::milliseconds> after_;
  std::string reason_;
};

DELAYQUEUE_EXPORT const char* to_string(Verdict::Kind kind);  // "ack", "nack", "reject", "snooze"

// The work is done: the message is deleted.
[[nodiscard]] DELAYQUEUE_EXPORT Verdict ack();

// The work is not done: the message is delivered again after `after` (default: the consumer's backoff), or becomes a
// dead letter if it has no retries left. Uses one retry. The reason is stored with the message.
//
// A negative wait counts as 0, and one of more than a hundred years as a hundred years. The logger gets a warning with
// the value, at most once a minute for each of nack, snooze and backoff.
[[nodiscard]] DELAYQUEUE_EXPORT Verdict nack();
[[nodiscard]] DELAYQUEUE_EXPORT Verdict nack(std::string reason);
[[nodiscard]] DELAYQUEUE_EXPORT Verdict nack(std::chrono::milliseconds after, std::string reason = {});

// The work cannot be done: the message becomes a dead letter at once, with the reason, even if it has retries left.
[[nodiscard]] DELAYQUEUE_EXPORT Verdict reject(std::string reason = {});

// The work cannot be done now: the message is delivered again after `after`. Uses no retry, and is not counted as an
// attempt.
[[nodiscard]] DELAYQUEUE_EXPORT Verdict snooze(std::chrono::milliseconds after);

}  // namespace delayqueue
