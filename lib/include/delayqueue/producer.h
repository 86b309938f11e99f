// Producer: sends messages to one queue, and cancels and reschedules them by id.
#pragma once

#include <delayqueue/client.h>
#include <delayqueue/detail/braces.h>
#include <delayqueue/detail/owned.h>
#include <delayqueue/detail/payloads.h>
#include <delayqueue/error.h>
#include <delayqueue/export.h>
#include <delayqueue/message_ref.h>
#include <delayqueue/producer_options.h>
#include <delayqueue/send_options.h>
#include <delayqueue/stats.h>
#include <delayqueue/types.h>

#include <cstddef>
#include <future>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace delayqueue {

struct ProducerMetrics;

// Any number of threads may use one Producer. They share one connection, or two while five or more send at once,
// and concurrent sends share round trips. The first call connects, so a Producer can be constructed while the server
// cannot be reached. After a broken connection the next call reconnects.
//
// A queue may have several partitions (see QueueAdmin::set_partitions). Messages whose ids the library makes are spread
// over all of them: the Producer goes to the next one after 200 messages or a round trip. These ids name the partition,
// so a repeated send and the calls by id go there. Messages with any other id are in partition 0. A Producer reads the
// number of partitions again with a send to partition 0 or 1, at most every 2 s.
//
// If a master of a Cluster is away, messages that were not written yet go to partitions of other masters at once. A
// send that waits does so when the master has not answered others for about 50 ms. Messages that may have been written
// fail with a ConnectionError after at most one command_timeout, and their ids belong to their partition. The first
// failure starts a thread, which sends requests without a message to that master. When one succeeds, its partitions get
// new messages again. While the slot of a partition moves, Redis refuses messages there, and they go to other
// partitions in the same way. A partition that the user has no right to is left out with a warning.
//
// After a fork() the child process must create its own Producers, Consumers, Inspectors and QueueAdmins; it may use a
// Client of the parent for them. In the child every call to an object of the parent throws std::logic_error. The
// destructor of such an object returns at once, sends nothing and does not touch the parent's connections. A call to an
// object that was moved from throws std::logic_error, too.
class DELAYQUEUE_EXPORT Producer {
 public:
  // A Client is made of a URL, too: Producer("redis://localhost", "orders"). Does not connect. Throws
  // std::invalid_argument that names the wrong part of the URL, the queue or the option. Throws SetupError if this
  // process may open no more files (only with Sentinels). The first call connects, and throws if it cannot use the TLS
  // files or the path of the embedded folder, or if the queue exists with the other KeyOptions::hash_tag.
  Producer(const Client& client, const std::string& queue, ProducerOptions options = {});

  // Here and below: {"a", "b"} would be one std::string or std::string_view of two pointers.
  template <std::size_t kLength, class = internal::IfSeveral<kLength>>
  Producer(const Client& client, const char* const (&queues)[kLength], ProducerOptions = {}) = delete;
  ~Producer();
  Producer(Producer&&) noexcept;
  Producer& operator=(Producer&&) noexcept;

  // Stores the message: its payload, any bytes but at most ProducerOptions::max_payload of them, and its headers. If
  // the result is SendResult::created, Redis has stored the whole message: it is delivered at least once, not before
  // its due time. Without SendOptions::id it always is. With the id of a message that is in the queue nothing is stored:
  // see SendResult.
  //
  // Throws std::invalid_argument, SetupError (an embedded server cannot be started, or the system provides no random
  // bytes for an id), ReplyError (nothing was stored), or ConnectionError (unknown whether it was stored: send again
  // with SendOptions::id set to ids().front(); this creates no second message while the first one is in the queue).
  Sent send(std::string_view payload, const SendOptions& options = {});
  template <std::size_t kLength, class = internal::IfSeveral<kLength>>
  Sent send(const char* const (&payloads)[kLength], const SendOptions& = {}) = delete;

  // Sends many messages, in steps of at most 200 messages and 256 KiB; a larger message is a step alone. Each step is
  // stored completely or not at all. The results are in the order of the messages. Throws as send(). After a
  // ReplyError, ConnectionError or SetupError some steps may be stored. The ids() of a ConnectionError are those of all
  // messages, in order. In a queue with partitions the steps go to different ones, and a later step may be stored while
  // an earlier one is not. If these partitions are on several masters, the call sends to the masters at the same time:
  // the calling thread to one of them, and a new thread to each other one that gets 200 messages or 256 KiB. One call
  // of a Producer at a time does so. Other calls send to one partition after the other, and so does the calling thread
  // for the threads that the system refuses.
  std::vector<Sent> send_batch(const std::vector<OutgoingMessage>& messages);

  // The same with one set of options. The payloads are any range of strings or string views, which are not copied.
  // SendOptions::id must be empty, because every message needs its own id.
  template <class Range, class = internal::IfPayloads<Range>>
  std::vector<Sent> send_batch(const Range& payloads, const SendOptions& options = {}) {
    return send_views(std::vector<std::string_view>(std::begin(payloads), std::end(payloads)), options);
  }
  std::vector<Sent> send_batch(std::initializer_list<internal::Payload> payloads, const SendOptions& options = {}) {
    return send_views(std::vector<std::string_view>(payloads.begin(), payloads.end()), options);
  }

  // Like send(), but does not wait for Redis: the future receives the result or the error of the send. Invalid
  // arguments throw std::invalid_argument at once. Messages of one thread are sent in the order of its calls; in a
  // queue with partitions, those of each partition are, except for those that came from another one. Blocks
  // while 10,000 messages, or 16 MiB of payloads, have no reply yet.
  //
  // The first call starts a thread that sends these messages and calls on_event for them. If the system refuses the
  // thread, the call throws SetupError and sends nothing. on_event may call send_async, which does not block in that
  // thread. The destructor of the Producer waits until all futures are ready.
  [[nodiscard]] std::future<Sent> send_async(std::string payload, const SendOptions& options = {});
  template <std::size_t kLength, class = internal::IfSeveral<kLength>>
  std::future<Sent> send_async(const char* const (&payloads)[kLength], const SendOptions& = {}) = delete;

  // Cancels the message and returns the state it was in:
  //   pending, ready, retry, dead  it is removed and will not be delivered; in a backoff the state is retry
  //   unack                        a consumer holds it; this delivery may still succeed, but it is the last one
  //   unknown                      no such message, or an earlier call has cancelled it (its reply was lost, or it was
  //                                not durable in time)
  // Throws as send(). After a ConnectionError it may be repeated.
  [[nodiscard]] State cancel(const MessageRef& message);

  // Sets a new due time of a message that no consumer holds: it is pending then, or ready if the time has come. Its
  // retries stay as they are. The end of its TTL moves by as much as the due time. Returns done, held, wrong_state (a
  // dead letter: see QueueAdmin::redrive) or unknown. Throws as send(). After a ConnectionError it may be repeated; a
  // repeated `delay` counts from the new call.
  [[nodiscard]] Outcome reschedule(const MessageRef& message, const RescheduleOptions& when);

  // These two need no server. metrics() also has the durations of sends, for a monitoring system: see metrics.h.
  ProducerStats stats() const;
  [[nodiscard]] ProducerMetrics metrics() const;

 private:
  class DELAYQUEUE_HIDDEN Impl;
  std::vector<Sent> send_views(const std::vector<std::string_view>& payloads, const SendOptions& options);

  internal::Owned<Impl> impl_;
};

}  // namespace delayqueue
