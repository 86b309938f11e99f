// Producer: sends messages to one queue, and cancels and reschedules them by id.
#pragma once

#include <delayqueue/detail/owned.h>
#include <delayqueue/detail/payloads.h>
#include <delayqueue/error.h>
#include <delayqueue/export.h>
#include <delayqueue/options.h>
#include <delayqueue/producer_options.h>
#include <delayqueue/send_options.h>
#include <delayqueue/stats.h>
#include <delayqueue/types.h>

#include <future>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace delayqueue {

struct ProducerMetrics;

// Any number of threads may use one Producer. All calls share one connection, and concurrent sends share round trips.
// The first call connects, so a Producer can be constructed while the server cannot be reached. After a broken
// connection the next call reconnects.
//
// If the queue has several partitions (see QueueAdmin::set_partitions), messages whose ids the library makes are spread
// over all of them: to the next one after 200 messages or a round trip. Their ids name the partition, so a repeated
// send and the calls by id go there. Messages with any other id are in partition 0. A Producer reads the number of
// partitions again with a send to partition 0 or 1, at most every 2 s.
//
// In a Cluster, messages that were not written yet when a master is away go to partitions of other masters at once; a
// waiting send moves on when the master has not answered others for about 50 ms. Messages that may have been written
// fail with a ConnectionError after at most one command_timeout, and their ids belong to their partition. The
// partitions of that master get new messages again after a request that is no message has succeeded there. A thread,
// which the first failure starts, sends these requests. A partition that the user has no right to is left out with a
// warning.
//
// Producers, Inspectors and QueueAdmins of one process with the same URL and equal ConnectionOptions share connections:
// a call uses one that no other object uses at that moment, and opens one if there is none. So no call waits for
// another object, and a process with one thread has one connection; in a Cluster, one to each master.
//
// After a fork() the child process must create its own Producers, Consumers, Inspectors and QueueAdmins. In the child
// every call to an object of the parent throws std::logic_error. The destructor of such an object returns at once,
// sends nothing and does not touch the parent's connections. A call to an object that was moved from throws
// std::logic_error, too.
class DELAYQUEUE_EXPORT Producer {
 public:
  // url: redis://[user:password@]host[:port][/db], unix:///path/to/socket[?db=n],
  // redis+sentinel://[user:password@]host[:port],host.../master[/db] or
  // redis+cluster://[user:password@]host[:port],host... (the TCP ones also with rediss, for TLS), embedded: or
  // embedded:/folder (see private_server.h). Throws std::invalid_argument that names the wrong part of the URL, the
  // queue or the option. TLS files, the path of an embedded folder, and a queue that exists with the other
  // QueueOptions::hash_tag are checked when the first call connects, and that call throws. Throws SetupError if this
  // process may open no more files (only with Sentinels), or if the folder is relative and the working directory was
  // removed.
  Producer(const std::string& url, const std::string& queue, ProducerOptions options = {});
  ~Producer();
  Producer(Producer&&) noexcept;
  Producer& operator=(Producer&&) noexcept;

  // Stores the message: any bytes, at most ProducerOptions::max_payload of them, and its headers. If Sent::created is
  // true on return, Redis has stored the whole message; it is delivered at least once, not before its due time. It is
  // always true without SendOptions::id; with the id of a message that is in the queue nothing is stored: see Sent.
  //
  // Throws std::invalid_argument, SetupError (an embedded server cannot be started, or the system provides no random
  // bytes for an id), ReplyError (nothing was stored), or ConnectionError (unknown whether it was stored: send again
  // with SendOptions::id set to ids().front(); this creates no second message while the first one is in the queue).
  Sent send(std::string_view payload, const SendOptions& options = {});

  // Sends many messages, in atomic steps of at most 200 messages and 256 KiB (a larger message is a step alone). The
  // results are in the order of the messages. Throws as send(). After a ReplyError, ConnectionError or SetupError some
  // steps may be stored, each completely; the ids() of a ConnectionError are those of all messages, in order. In a
  // queue with partitions the steps go to different ones: each is stored completely or not at all, as in one partition,
  // but a later step may be stored while an earlier one is not.
  std::vector<Sent> send_batch(const std::vector<OutgoingMessage>& messages);

  // The same with one set of options. The payloads are any range of strings or string views, which are not copied.
  // SendOptions::id must be empty, because every message needs a different id.
  template <class Range, class = internal::IfPayloads<Range>>
  std::vector<Sent> send_batch(const Range& payloads, const SendOptions& options = {}) {
    return send_views(std::vector<std::string_view>(std::begin(payloads), std::end(payloads)), options);
  }
  std::vector<Sent> send_batch(std::initializer_list<std::string_view> payloads, const SendOptions& options = {}) {
    return send_views(payloads, options);
  }

  // Like send(), but does not wait for Redis: the future receives the result or the error of the send. Invalid
  // arguments throw std::invalid_argument at once. The messages of one calling thread are sent in the order of its
  // calls; in a queue with partitions, those of each partition are. Blocks while 10,000 messages, or 16 MiB of
  // payloads, have no reply yet.
  //
  // The first call starts a thread that sends these messages and calls on_event for them. If the system refuses the
  // thread, or random bytes for an id, the call throws SetupError and sends nothing. The callback may call send_async,
  // which does not block in that thread. The destructor of the Producer waits until all futures are ready.
  [[nodiscard]] std::future<Sent> send_async(std::string payload, const SendOptions& options = {});

  // Cancels the message and returns the state it was in:
  //   pending, ready, retry, dead  it is removed and will not be delivered; in a backoff the state is retry
  //   unack                        a consumer holds it; this delivery may still succeed, but it is the last one
  //   unknown                      no such message, or an earlier call has cancelled it (its reply was lost, or it was
  //                                not durable in time)
  // Throws as send(). After a ConnectionError it may be repeated.
  [[nodiscard]] State cancel(std::string_view id);

  // Sets a new due time of a message that no consumer holds: it is pending then, or ready if the time has come. Its
  // retries stay as they are. The end of its TTL moves by as much as the due time. Throws as send(). After a
  // ConnectionError it may be repeated; a repeated `delay` counts from the new call.
  [[nodiscard]] Moved reschedule(std::string_view id, const RescheduleOptions& when);

  // Need no server. metrics() also has the duration of the sends, for a monitoring system: see metrics.h.
  ProducerStats stats() const;
  [[nodiscard]] ProducerMetrics metrics() const;

 private:
  class DELAYQUEUE_HIDDEN Impl;
  std::vector<Sent> send_views(const std::vector<std::string_view>& payloads, const SendOptions& options);

  internal::Owned<Impl> impl_;
};

}  // namespace delayqueue
