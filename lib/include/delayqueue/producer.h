// Producer: the Sender of messages to a queue in Redis.
#pragma once

#include <delayqueue/client.h>
#include <delayqueue/detail/braces.h>
#include <delayqueue/detail/owned.h>
#include <delayqueue/error.h>
#include <delayqueue/export.h>
#include <delayqueue/producer_options.h>
#include <delayqueue/queue_name.h>
#include <delayqueue/sender.h>
#include <delayqueue/stats.h>
#include <delayqueue/types.h>

#include <cstddef>
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
class DELAYQUEUE_EXPORT Producer final : public Sender {
 public:
  // A Client is made of a URL, too: Producer("redis://localhost", "orders"). Does not connect. Throws
  // std::invalid_argument that names the wrong part of the URL, the queue or the option. Throws SetupError if this
  // process may open no more files (only with Sentinels). The first call connects, and throws if it cannot use the TLS
  // files or the path of the embedded folder, or if the queue exists with the other KeyOptions::hash_tag.
  Producer(const Client& client, const QueueName& queue, ProducerOptions options = {});

  // Waits until the sends of send_async() have their results, also those that their callbacks have made.
  ~Producer() override;
  Producer(Producer&&) noexcept;
  Producer& operator=(Producer&&) noexcept;

  // These two need no server. metrics() also has the durations of sends, for a monitoring system: see metrics.h.
  ProducerStats stats() const;
  [[nodiscard]] ProducerMetrics metrics() const;

 private:
  class DELAYQUEUE_HIDDEN Impl;
  Sent do_send(std::string_view payload, const SendOptions& options) override;
  std::vector<Sent> do_send_batch(const std::vector<OutgoingMessage>& messages) override;
  std::vector<Sent> do_send_views(const std::vector<std::string_view>& payloads, const SendOptions& options) override;
  bool do_send_async(std::string& payload, const SendOptions& options, SendCallback& done, bool may_block) override;
  bool do_flush(milliseconds timeout) override;
  State do_cancel(const MessageRef& message) override;
  Outcome do_reschedule(const MessageRef& message, const RescheduleOptions& when) override;

  internal::Owned<Impl> impl_;
};

}  // namespace delayqueue
