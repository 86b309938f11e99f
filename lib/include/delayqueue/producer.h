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

// Internals that rarely need a change: measure before and after. See docs/operations.md, "Tuning".
struct ProducerTuning {
  // How long a thread that sends alone may wait in a busy loop for its answer before it sleeps: 0 to 1000 us, 0: never.
  // Costs at most this much CPU time for each send. The Producer uses it only where it measures that sends are faster.
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

struct ProducerMetrics;  // see metrics.h

// Any thread. Sends at the same time share connections and round trips: while one of them waits, also for Durability,
// others may wait behind it. The first call connects, so a Producer can be constructed while the server cannot be
// reached. After a broken connection the next call reconnects.
//
// A queue may have several partitions (see QueueAdmin::set_partitions). Messages whose ids the library makes are spread
// over all of them. These ids name the partition, so a repeated send and the calls by id go there. Messages with any
// other id are in partition 0. If a master of a Cluster is away, or the slot of a partition moves, new messages go to
// other partitions; messages that may have been written are repeated to their own for ProducerOptions::send_timeout. A
// partition that the user has no right to is left out with a warning. See docs/operations.md, "Partitions".
//
// After a fork() the child process must create its own Producers, Consumers, Inspectors and QueueAdmins; it may use a
// Client of the parent for them. In the child every call to an object of the parent throws std::logic_error. The
// destructor of such an object returns at once, sends nothing and does not touch the parent's connections. A call to an
// object that was moved from throws std::logic_error, too.
class DELAYQUEUE_EXPORT Producer final : public Sender {
 public:
  // A URL converts to a Client: Producer("redis://localhost", "orders"). Does not connect. Throws
  // std::invalid_argument that names the wrong part of the URL, the queue or the option. Throws SetupError if this
  // process may open no more files (only with Sentinels). The first call connects, and throws if it cannot use the TLS
  // files or the path of the embedded folder, or if the queue exists with the other KeyOptions::hash_tag.
  Producer(const Client& client, const QueueName& queue, ProducerOptions options = {});

  // Waits until all sends of send_async() have their results, also those that callbacks have made. Call flush() first
  // to choose the timeout.
  ~Producer() override;
  Producer(Producer&&) noexcept;
  Producer& operator=(Producer&&) noexcept;

  // Counters and durations, for a monitoring system. Needs no server. Include <delayqueue/metrics.h> to use them.
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
