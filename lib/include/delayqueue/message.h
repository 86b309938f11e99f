// Message and Verdict: the argument and the result of a handler. Before them: State, Outcome, Headers, and the ids of
// messages (MessageRef, new_id(), id_from_name()).
#pragma once

#include <delayqueue/detail/braces.h>
#include <delayqueue/version.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {

namespace internal {
class Lease;
struct MessageContents;
struct StoredHeaders;
}  // namespace internal

using std::chrono::milliseconds;

// The state of a message. See the picture in the README.
enum class State {
  unknown,  // not in the queue: never sent, done, or cancelled
  pending,  // not due yet
  ready,    // due; no consumer has it yet
  unack,    // in flight (leased to a consumer), or in the backoff after a nack
  retry,    // a delivery failed; due again, and no consumer has it yet
  dead,     // a dead letter: out of retries, rejected, or made one by an operator; kept with the reason
};

// The name of the state: "pending", "ready" ...
DELAYQUEUE_EXPORT const char* to_string(State state);

// The result of a change of one message by its id. The comment of each call lists those that it returns.
enum class Outcome {
  done,         // the message was changed
  already,      // bury(): it is a dead letter already
  held,         // unchanged: a consumer holds it
  wrong_state,  // reschedule(): unchanged, it is a dead letter
  no_payload,   // redrive(): its payload is missing, so it cannot be delivered: it was removed
  key_taken,    // redrive(): unchanged, since another message has its unique key
  unknown,      // no such message; redrive(), release(), extend(): or it is in a state that the call does not change
};
DELAYQUEUE_EXPORT const char* to_string(Outcome outcome);

// Names with values, in the order in which they were set. Each name occurs once. It has 1 to 127 characters of
// printable ASCII without spaces and '='; upper and lower case differ. A value is any bytes, or empty.
//
// A message has at most kMost headers. Their names and values have at most kMostBytes together, where each name and
// each value counts one byte more for its length, or two bytes if it has 128 or more. Names that begin with "dq-", in
// upper or lower case, are reserved: set() refuses them. By convention, "content-type" has the type of the payload.
//
// A value type: copies are independent. An object must not be changed while another thread uses it.
class DELAYQUEUE_EXPORT Headers {
 public:
  using value_type = std::pair<std::string, std::string>;  // name and value
  using const_iterator = std::vector<value_type>::const_iterator;

  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kMostBytes = 8 * 1024;

  Headers() = default;
  // Calls set() for each pair.
  Headers(std::initializer_list<std::pair<internal::Name, internal::Name>> pairs);

  // Adds a header, or replaces the value of the one with this name, which keeps its place. Throws
  // std::invalid_argument, which names the header, if the name is not valid or reserved, or if there would be too many
  // headers or bytes. Then nothing is changed.
  void set(internal::Name name, internal::Name value);
  // The same for headers that a message had, and that were kept elsewhere, such as in a file: for
  // QueueAdmin::restore(). The name may be a reserved one, which no send accepts.
  void set_stored(internal::Name name, internal::Name value);

  // Returns false if there was none with this name.
  bool erase(std::string_view name);

  // The value, valid until the headers change; null: there is no header with this name.
  const std::string* find(std::string_view name) const;

  const_iterator begin() const { return pairs_.begin(); }
  const_iterator end() const { return pairs_.end(); }
  std::size_t size() const { return pairs_.size(); }
  bool empty() const { return pairs_.empty(); }

  // Equal: the same pairs in the same order.
  friend bool operator==(const Headers& a, const Headers& b) { return a.pairs_ == b.pairs_; }
  friend bool operator!=(const Headers& a, const Headers& b) { return a.pairs_ != b.pairs_; }

 private:
  friend struct internal::StoredHeaders;
  void add(std::string name, std::string value);

  std::vector<value_type> pairs_{};
};

// A unique key, as an argument: see UniqueOptions. Explicit, because a text alone is an id.
class Key {
 public:
  explicit Key(internal::Name key) : key_(std::move(key)) {}

  const std::string& str() const { return key_; }

 private:
  std::string key_;
};

// A message, as an argument: its id, from a string, a string view or a literal; or, for Sender::cancel() and
// reschedule() and Inspector::find(), the Key that it has. {"a", "b"} does not compile where one is expected. The call
// that gets it throws std::invalid_argument if the id is not a UUID, or the key not 1 to 128 bytes.
class MessageRef {
 public:
  MessageRef(Key key) : key_(std::move(key)) {}  // NOLINT(google-explicit-constructor)
  template <class Text, class = std::enable_if_t<std::is_convertible_v<const Text&, std::string_view>>>
  MessageRef(const Text& id) {  // NOLINT(google-explicit-constructor)
    if constexpr (std::is_pointer_v<Text>) {
      if (id == nullptr) throw std::invalid_argument("id: null; expected a UUID");
    }
    id_ = std::string_view(id);
  }
  MessageRef(std::nullptr_t) = delete;

  const std::string& id() const { return id_; }  // empty: it has a key
  const std::optional<Key>& key() const { return key_; }

 private:
  std::string id_;
  std::optional<Key> key_;
};

// The ids of one message or of several, as an argument: an id, ids in braces, or a vector of strings.
class MessageRefs {
 public:
  template <class Text, class = std::enable_if_t<std::is_convertible_v<const Text&, MessageRef>>>
  MessageRefs(const Text& message) : messages_{MessageRef(message)} {}  // NOLINT(google-explicit-constructor)
  MessageRefs(std::initializer_list<MessageRef> messages) : messages_(messages) {}
  MessageRefs(const std::vector<std::string>& ids)  // NOLINT(google-explicit-constructor)
      : messages_(ids.begin(), ids.end()) {}
  MessageRefs(std::nullptr_t) = delete;

  auto begin() const { return messages_.begin(); }
  auto end() const { return messages_.end(); }
  auto size() const { return messages_.size(); }

 private:
  std::vector<MessageRef> messages_;
};

// A new id: a UUID of version 7 with the current time, for callers that store an id before they send. Any thread may
// call it. Throws SetupError if the system provides no random bytes. Partitions: see SendOptions::id.
[[nodiscard]] DELAYQUEUE_EXPORT std::string new_id();

// The namespace of id_from_name(), unless the caller has one.
inline constexpr char kIdNamespace[] = "5d0c3c1b-4a8e-5f0f-9d3a-0f5b7f2f6c11";

// The id that belongs to a name, such as "order 42 is not paid": a UUID of version 5. The same name and namespace (a
// UUID) always give the same id, so a program need not store it. Throws std::invalid_argument if the namespace is not a
// UUID. Partitions: see SendOptions::id.
[[nodiscard]] DELAYQUEUE_EXPORT std::string id_from_name(std::string_view name,
                                                         std::string_view name_space = kIdNamespace);

// {"a", "b"} would be one std::string_view of two pointers.
template <std::size_t kLength, class = internal::IfSeveral<kLength>>
std::string id_from_name(const char* const (&names)[kLength], std::string_view = {}) = delete;

// What a recurring message is for: see Schedule.
struct Occurrence {
  std::string schedule;                        // its name
  std::chrono::system_clock::time_point slot;  // the time for which it was made; a late delivery does not change it
};

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

  // Set if a schedule has made the message.
  std::optional<Occurrence> occurrence() const;

  // True after the consumer has lost the lease: the lease ended, processing_timeout passed, or Redis replied that
  // another consumer has the message or that it does not exist any more. Another consumer may be handling it now, so do
  // not begin an effect that cannot be undone. The verdict may still count: an ack until the message is delivered
  // again, rescheduled, released, extended or redriven; any other verdict until a consumer has noticed that the lease
  // ended. Any thread may call it.
  bool lease_lost() const;

 private:
  friend struct internal::MessageContents;
  Message() = default;

  std::string id_{}, payload_{};
  Headers headers_{};
  std::shared_ptr<const std::string> queue_{};
  std::shared_ptr<const internal::Lease> lease_{};
  int attempt_ = 1, retries_left_ = 0;
};

// The result of a delivery, created by the functions below.
class DELAYQUEUE_EXPORT Verdict {
 public:
  enum class Kind { ack, nack, reject, snooze, pause_queue };

  Kind kind() const { return kind_; }
  // The wait of a nack or snooze, the time of a pause; unset: of a nack, the backoff.
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
  friend Verdict pause_queue(std::chrono::milliseconds after, std::string reason);
  Verdict(Kind kind, std::optional<std::chrono::milliseconds> after, std::string reason)
      : kind_(kind), after_(after), reason_(std::move(reason)) {}

  Kind kind_;
  std::optional<std::chrono::milliseconds> after_;
  std::string reason_;
};

DELAYQUEUE_EXPORT const char* to_string(Verdict::Kind kind);  // "ack", "nack", "reject" ...

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

// No work of this queue can be done now, as when an API answers 429: the message returns to the queue as after a snooze
// of 0, and the queue is paused until `after` has passed since this verdict (0 counts as 1 ms). Then, or at the next
// poll, consumers go on. Inspector::paused() returns this pause, with "held off: " in front of the reason, and
// QueueAdmin::resume() ends it. It does not change a pause that is there: of two such verdicts the first counts.
//
// Handlers that run go on, and messages that other consumers hold already may still begin: their handlers return this
// verdict, too. Of several partitions only that of the message is paused: the others find out by themselves. Go workers
// ignore a pause. Throws std::invalid_argument if `after` is not 0 to a hundred years.
[[nodiscard]] DELAYQUEUE_EXPORT Verdict pause_queue(std::chrono::milliseconds after, std::string reason = {});

}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
