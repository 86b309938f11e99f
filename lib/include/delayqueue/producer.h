// Producer: the Sender of messages to a queue in Redis.
#pragma once

#include <delayqueue/client.h>
#include <delayqueue/detail/braces.h>
#include <delayqueue/detail/owned.h>
#include <delayqueue/error.h>
#include <delayqueue/log.h>
#include <delayqueue/message.h>
#include <delayqueue/sender.h>
#include <delayqueue/version.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {

// To be changed only after a measurement: see docs/operations.md.
struct ProducerTuning {
  // How long a thread that sends alone may wait busily for the answer to one message before it sleeps: up to 1000 us;
  // 0: not at all. Costs at most this much CPU time for each send. The Producer measures: of each 1000 sends, 16 wait
  // busily as a trial, and the others do only if the trials were at least a tenth faster. No wait is busy
  //   - while several threads of the process send (the thread of send_async counts while it sends),
  //   - if the process can use fewer than two CPUs, by the machine or by the quota of a container, or
  //   - if the thread and Redis are pinned to the same core, which is known only over a unix socket.
  std::chrono::microseconds busy_wait{60};
};

struct ProducerOptions {
  // For sends without SendOptions::retries; at least 0. With 0 a message can become a dead letter without a call of the
  // handler: if its consumer dies after it has taken the message.
  int retries = 3;
  std::size_t max_payload = 1024 * 1024;  // of a message, in bytes; up to 512 MiB (Redis' limit)
  Durability durability{};                // of sends, cancels and reschedules

  // How long a call goes on while Redis is away: it repeats itself with the same id until Redis answers, or has been
  // away for this long, and then throws ConnectionError. Calls that begin later fail at once, until a thread of the
  // Client has reached the server again. So 2 s bridge a restart; for batch programs, and for handlers of consumers,
  // 30 s bridge a failover. At least Durability::timeout(), which is not included. 0: each call makes one attempt. See
  // Sender for what is repeated, and docs/operations.md.
  milliseconds send_timeout{2000};

  Logger logger{};

  // Called once for each message of send(), send_batch() and send_async(), in the calling thread, before any message of
  // the call is sent. Several threads may call it at the same time. It may change the message, which is checked
  // afterwards. The id is empty unless the caller has set SendOptions::id. If it throws, the call throws that and sends
  // nothing. When the library repeats a send, it is not called again. If it is set, send() and send_batch() copy the
  // payloads.
  std::function<void(OutgoingMessage&)> before_send{};

  EventCallback on_event{};
  ProducerTuning tuning{};
};

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
// are repeated to their partition for ProducerOptions::send_timeout. The first failure starts a thread, which sends
// requests without a message to that master. When one succeeds, its partitions get new messages again. While the slot
// of a partition moves, Redis refuses messages there, and they go to other partitions in the same way. A partition that
// the user has no right to is left out with a warning.
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

  // Counters and durations, for a monitoring system: see metrics.h. It needs no server.
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

}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
