// Sender: sends messages to one queue, and cancels and reschedules them. Also the options and results of a send.
#pragma once

#include <delayqueue/detail/braces.h>
#include <delayqueue/detail/payloads.h>
#include <delayqueue/error.h>
#include <delayqueue/message.h>
#include <delayqueue/version.h>

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <future>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {

// What a send does if the queue has a message with the same unique key.
enum class OnConflict {
  keep,      // nothing is stored: SendResult::kept
  replace,   // that message gets the new payload and headers: SendResult::replaced; it keeps its due time and TTL
  postpone,  // as replace, and it gets the new due time, to which its TTL moves, too (debounce)
};

// At most one message with a key waits in the queue. The message has the key until it is acked, cancelled or purged,
// becomes a dead letter, or expires; see docs/unique.md. With replace and postpone, the TTL and the retries of the
// first send stay; and a message that a consumer holds is not changed: a send meanwhile creates a second message, which
// has the key from then on. Messages with keys are all in partition 0, and have the throughput of one master.
struct UniqueOptions {
  std::string key{};  // 1 to 128 bytes; empty: not unique
  OnConflict on_conflict = OnConflict::keep;
  // keep: a message that a consumer holds counts. False: a send meanwhile creates a second message, as with replace.
  bool while_in_flight = true;
  // keep: the message counts for at least so long after its send, also when it is gone (throttle); a cancel ends this.
  milliseconds window{0};
  // postpone: the due time is at most so long after the send that created the message; at least 1 ms; unset: no limit.
  std::optional<milliseconds> max_wait{};
};

// The options of one message. Set `delay` or `at`, not both. Durations are at most a hundred years.
struct SendOptions {
  milliseconds delay{0};  // until the message is due, by Redis' clock; at least 0
  // When the message is due: from 1970 to the end of 2199, rounded up to the ms.
  std::optional<std::chrono::system_clock::time_point> at{};
  std::optional<int> retries{};       // deliveries after the first; see ProducerOptions::retries, the default
  std::optional<milliseconds> ttl{};  // the message expires this long after its due time; at least 1 ms; unset: never
  // A UUID of 36 characters, stored in lower case; empty: the library makes a UUIDv7. With an id that it has chosen,
  // a program can repeat the send without a second message: see SendResult. In a queue with partitions messages with
  // such ids are all in partition 0, and have the throughput of one master: see docs/protocol.md.
  std::string id{};
  Headers headers{};  // see Headers for names and sizes; workers of the Go library ignore headers
  UniqueOptions unique{};
};

// The new due time: `delay` or `at`, as in SendOptions. With neither the message is due at once.
struct RescheduleOptions {
  milliseconds delay{0};
  std::optional<std::chrono::system_clock::time_point> at{};
};

// One message with its own options: of a batch, or for ProducerOptions::before_send.
struct OutgoingMessage {
  std::string payload{};
  SendOptions options{};
};

// What a send, or QueueAdmin::restore(), has done.
enum class SendResult {
  created,  // the message is stored
  // Nothing was stored: a message with this id exists. Exception: if the answer to a first attempt was lost and the
  // library has repeated the send, the result is `created`, because that attempt may have stored the message.
  existed,
  // Nothing was stored: the message with this id was cancelled while a consumer holds it. Send again after that
  // delivery has ended, or with another id.
  cancelled,
  kept,  // nothing was stored: the message Sent::id has the unique key, or had it within UniqueOptions::window
  // The message Sent::id, which has the unique key, has the new payload and headers. Or RestoreOptions::replace: the
  // message existed, and is the given one now.
  replaced,
  held,  // only with RestoreOptions::replace: it was not replaced, because a consumer holds it
};
DELAYQUEUE_EXPORT const char* to_string(SendResult result);

// The result of one send.
struct Sent {
  std::string id{};  // of the message; with SendResult::kept and replaced, of the one that has the unique key
  SendResult result = SendResult::existed;
  bool created() const { return result == SendResult::created; }
};

// The result of Sender::send_async(): a Sent, or the exception that send() would have thrown. A value: copies are
// independent.
class AsyncSent {
 public:
  AsyncSent(Sent sent) : sent_(std::move(sent)) {}  // NOLINT(google-explicit-constructor)
  AsyncSent(std::exception_ptr error, std::string id) {
    error_ = std::move(error);
    sent_.id = std::move(id);
  }

  explicit operator bool() const { return error_ == nullptr; }
  const Sent& get() const {  // throws the exception
    if (error_ != nullptr) std::rethrow_exception(error_);
    return sent_;
  }
  const std::string& id() const { return sent_.id; }  // also of an error; empty if the message was given none
  const std::exception_ptr& error() const { return error_; }

 private:
  Sent sent_{};
  std::exception_ptr error_{};
};

using SendCallback = std::function<void(const AsyncSent&)>;

struct ProducerOptions;  // see producer.h

// The interface for sending to one queue. Any thread. A Producer is one; a function that takes a Sender& can be tested
// with another one. Derive from it in tests only: minor versions add functions.
class DELAYQUEUE_EXPORT Sender {
 public:
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;
  virtual ~Sender();

  // Stores one message: its payload (any bytes, at most ProducerOptions::max_payload of them) and its headers. With
  // SendResult::created Redis has the whole message: it is delivered at least once, and not before its due time. A send
  // without SendOptions::id and unique always returns created. For the others see SendResult. Throws
  //   std::invalid_argument  nothing was sent
  //   SetupError             an embedded server cannot be started, or the system provides no random bytes for an id
  //   ReplyError             Redis refused the message: nothing was stored
  //   QueueFull              a ReplyError: the queue has its limit of messages: nothing was stored
  //   ConnectionError        no answer for ProducerOptions::send_timeout, or at once if Redis has been away for longer.
  //                          Or the message is stored, but not as durably as required: that is not repeated
  // Unless ConnectionError::not_sent(), the message may be stored: send again with SendOptions::id set to
  // ids().front(). While the first message is in the queue, this creates no second one.
  // With OnConflict::replace or postpone, the repeated send replaces again.
  Sent send(std::string_view payload, const SendOptions& options = {}) { return do_send(payload, options); }
  // Here and below: {"a", "b"} would be one string of two pointers.
  template <std::size_t kLength, class = internal::IfSeveral<kLength>>
  Sent send(const char* const (&payloads)[kLength], const SendOptions& = {}) = delete;

  // Sends many messages, in atomic steps: each step is stored completely or not at all. The results are in the order of
  // the messages. Throws as send(); some steps may be stored after a ReplyError, ConnectionError or SetupError. The
  // ids() of a ConnectionError or a QueueFull are those of all messages, in order. Of two messages with the same unique
  // key, the second one and all behind it are sent when the first one is done. While steps succeed, the call may take
  // longer than send_timeout. In a queue with partitions a later step may be stored while an earlier one is not.
  std::vector<Sent> send_batch(const std::vector<OutgoingMessage>& messages) { return do_send_batch(messages); }

  // The same with one set of options. The payloads are any range of strings or string views, which are not copied.
  // SendOptions::id and unique must be empty, because every message needs its own.
  template <class Range, class = internal::IfPayloads<Range>>
  std::vector<Sent> send_batch(const Range& payloads, const SendOptions& options = {}) {
    return send_views(std::vector<std::string_view>(std::begin(payloads), std::end(payloads)), options);
  }
  std::vector<Sent> send_batch(std::initializer_list<internal::Payload> payloads, const SendOptions& options = {}) {
    return send_views(std::vector<std::string_view>(payloads.begin(), payloads.end()), options);
  }

  // Sends without waiting for Redis. The result goes to `done`, or to the future, whose get() throws what send() would
  // have thrown. Invalid arguments throw std::invalid_argument at once, and SetupError is thrown if the system refuses
  // a thread; `done` is not called then.
  //
  // While too many sends have no result (10,000, or 16 MiB of payloads), send_async() blocks. try_send_async() returns
  // false then, leaves `payload` as it is and never calls `done`: use it in the thread of an event loop.
  //
  // The messages of one thread are sent in the order of its calls; in a queue with partitions this holds within each. A
  // message that is repeated, or sent to another partition because its master is away, may come later than its
  // successors. When send_timeout is over, all that wait fail together.
  //
  // `done` is called once, never within the call, in a thread of the Producer, for each partition in the order in which
  // its messages were sent. Other results wait while it runs, so it must return soon. It may call send_async(), which
  // does not block there. It must not throw: an exception is logged as an error. It must not destroy the Producer,
  // whose destructor waits for all results.
  void send_async(std::string payload, const SendOptions& options, SendCallback done);
  [[nodiscard]] bool try_send_async(std::string&& payload, const SendOptions& options, SendCallback done);
  [[nodiscard]] std::future<Sent> send_async(std::string payload, const SendOptions& options = {});
  template <std::size_t kLength, class = internal::IfSeveral<kLength>>
  void send_async(const char* const (&payloads)[kLength], const SendOptions& = {}, const SendCallback& = {}) = delete;

  // Waits until all sends of earlier send_async() calls have their results. False: some have none after `timeout`. In
  // `done` it returns false at once, because the result that is being delivered does not count yet.
  [[nodiscard]] bool flush(milliseconds timeout) { return do_flush(timeout); }

  // Cancels the message, or the one that has the Key, and returns the state it was in:
  //   pending, ready, retry, dead  it is removed and will not be delivered; in a backoff the state is retry
  //   unack                        a consumer holds it; this delivery may still succeed, but it is the last one
  //   unknown                      no such message, or an earlier call has cancelled it (its reply was lost, or it was
  //                                not durable in time)
  // Throws as send(). After a ConnectionError it may be repeated. The library repeats it only while nothing of it was
  // written: the repeat of a cancel whose answer was lost returns unknown.
  [[nodiscard]] State cancel(const MessageRef& message) { return do_cancel(message); }

  // Sets a new due time of a message, or of the one that has the Key, that no consumer holds: it is pending then, or
  // ready if the time has come. Its retries stay as they are. The end of its TTL moves by as much as the due time.
  // Returns done, held, wrong_state (a dead letter: see QueueAdmin::redrive) or unknown. Throws as send(). If the
  // library repeats the call, `delay` counts from the first attempt, and the result is that of the last one: held or
  // unknown if a consumer took the message meanwhile. A caller may repeat it after a ConnectionError; `delay` then
  // counts from the new call.
  [[nodiscard]] Outcome reschedule(const MessageRef& message, const RescheduleOptions& when) {
    return do_reschedule(message, when);
  }

 protected:
  Sender() = default;
  Sender(Sender&&) noexcept = default;
  Sender& operator=(Sender&&) noexcept = default;

  // The checks of a Producer, for Senders of tests. They throw std::invalid_argument with the same texts. The last one
  // returns the id in lower case; empty: it is a Key.
  static void check(const ProducerOptions& options);
  static void check(std::string_view payload, const SendOptions& options, const ProducerOptions& producer);
  static void check(const RescheduleOptions& when);
  static std::string checked(const MessageRef& message);

 private:
  std::vector<Sent> send_views(const std::vector<std::string_view>& payloads, const SendOptions& options);
  virtual Sent do_send(std::string_view payload, const SendOptions& options) = 0;
  virtual std::vector<Sent> do_send_batch(const std::vector<OutgoingMessage>& messages) = 0;
  virtual std::vector<Sent> do_send_views(const std::vector<std::string_view>& payloads,
                                          const SendOptions& options) = 0;
  // False: it would block, and may_block is false. Then it leaves `payload` as it is. `done` is not empty.
  virtual bool do_send_async(std::string& payload, const SendOptions& options, SendCallback& done, bool may_block) = 0;
  virtual bool do_flush(milliseconds timeout) = 0;
  virtual State do_cancel(const MessageRef& message) = 0;
  virtual Outcome do_reschedule(const MessageRef& message, const RescheduleOptions& when) = 0;
};

}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
