// Consumer: takes due messages from one queue or several, and calls a handler for each.
#pragma once

#include <delayqueue/client.h>
#include <delayqueue/consumer_options.h>
#include <delayqueue/detail/owned.h>
#include <delayqueue/error.h>
#include <delayqueue/export.h>
#include <delayqueue/handler.h>
#include <delayqueue/message.h>
#include <delayqueue/queue_name.h>
#include <delayqueue/stats.h>
#include <delayqueue/stop_signals.h>
#include <delayqueue/subscription.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue {

struct ConsumerMetrics;

// Delivers each message at least once. A message is delivered again after a nack, an exception in the handler, the
// death of the process or the end of the lease, until it has no retries left. A handler must therefore tolerate a
// second call with the same id.
//
// Threads: `concurrency` worker threads call the handler. One is added for each handler that has lost its lease and
// still runs. One more thread does all other work: it calls logger, on_event and backoff, and renews the leases, so a
// handler may run longer than one lease.
//
// With a handler of a Delivery the verdict may come from any thread, after the handler has returned.
// ConsumerTuning::threads worker threads call the handler, and up to `concurrency` deliveries may be outstanding. One
// leaves its place to another message
//   - if it has lost its lease, usually because of processing_timeout, and is not settled, or
//   - if it is settled, but its handler runs for longer than processing_timeout.
// While more than `concurrency` such deliveries are outstanding, no message is taken, and the logger gets a warning.
//
// Lost connection: the consumer logs a warning (once, then every minute) and reconnects after pauses of up to a second
// (5 s while Redis refuses the password or a permission). Handlers continue meanwhile; their verdicts are settled after
// the reconnect.
//
// After a fork() the child process must create its own Consumers. Those of the parent are unusable there: see Producer.
class DELAYQUEUE_EXPORT Consumer {
 public:
  // One queue, or several with the same handler. Does not connect: start() and run() do. Throws std::invalid_argument,
  // and SetupError if this process may open no more files, or the system provides no random bytes.
  Consumer(const Client& client, const QueueNames& queues, Handler handler, ConsumerOptions options = {});

  // Several queues of one server, Sentinel group or Cluster, each once. They share the threads, the connections, and
  // the bound of prefetched messages (ConsumerTuning::prefetch, for each master of a Cluster). Some handlers may
  // return their verdicts, and others own their Deliveries.
  //
  // A queue that Redis refuses (keys of a wrong type, no permission), that is paused, or whose handlers hang delays no
  // other, as long as workers are free. Set SubscriptionOptions::concurrency for handlers that could take all of them.
  // start() throws a ReplyError only if all queues are refused. Otherwise it logs the refusals, and the consumer tries
  // these queues again.
  //
  // Connections: one for all queues, and one that waits for their wake-ups. In a Cluster: one to each node for all
  // queues there, and one that waits for each queue, at most 16; further queues are polled. With more than 10 queues
  // whose wake-ups work, about 10 are polled in each poll_interval: so each queue is polled less often, at most by a
  // factor of 10.
  Consumer(const Client& client, std::vector<Subscription> queues, ConsumerOptions options = {});
  Consumer(const Client&, std::initializer_list<const char*> names_without_handler, ConsumerOptions = {}) = delete;

  // Calls stop() with a timeout of 30 s, then waits for all running handlers without a limit, because their code must
  // not outlive the consumer. Call stop() first to choose the timeout. In a handler or callback of this consumer the
  // destructor returns at once, and another thread does all this. If the system refuses that thread, the consumer takes
  // no more messages, but is never freed.
  ~Consumer();
  Consumer(const Consumer&) = delete;
  Consumer& operator=(const Consumer&) = delete;

  // Connects and starts to deliver. Waits at most 500 ms for the server, then returns; the consumer continues to
  // connect in the background. So start() throws no ConnectionError. It throws an error that a retry cannot cure, if
  // the error occurs within the 500 ms:
  //   ReplyError             the server refuses (password, version, keys of a wrong type, stored format). But missing
  //                          scripts, see load_scripts(), are logged and retried
  //   std::invalid_argument  an option cannot be used (a TLS file, the other KeyOptions::hash_tag, a long folder)
  //   SetupError             an embedded server cannot be started, or the system refuses a thread
  // After such an exception start() may be called again. Later errors of these kinds are logged and retried. So are, at
  // any time, errors that can be cured on the server: an invalid certificate, or a port with another protocol (no TLS
  // for a rediss URL, TLS for a redis URL, or no Redis at all).
  //
  // Throws std::logic_error if the consumer is started already, or was stopped.
  void start();

  // Calls start(), with its exceptions. Then waits until another thread, a handler or a callback has called stop(), and
  // the consumer has stopped. After a stop() in a handler or callback it calls stop() with a timeout of 30 s. Returns
  // the result of stop().
  bool run();

  // The same; one of the signals stops the consumer, too. If start() throws after one has arrived, the signal is raised
  // again with its former action. Throws std::invalid_argument for a signal that cannot be caught, and std::logic_error
  // while another consumer of the process is in this call. A program that handles signals in its own way calls stop().
  bool run(const StopSignals& signals);

  // Stops the consumer. It takes no more messages. Messages whose handler has not started return to the queue; this
  // uses no retry. stop() waits for at most `timeout` until running handlers have returned and deliveries are settled,
  // and sends their verdicts to Redis. It returns within `timeout` even if the server, a Sentinel or a name server
  // never responds, and at once if it holds no message and is not connected. True: all are settled. False: a handler
  // was still running, a Delivery was not settled, a verdict did not reach Redis, or Redis did not answer a request
  // that takes messages; these messages are delivered again when their lease ends.
  //
  // Any thread may call it, also repeatedly: once the consumer has stopped, it returns the first result. In a handler
  // or callback it only requests the stop, and returns false. Do not call it in a signal handler: see run(StopSignals).
  [[nodiscard]] bool stop(milliseconds timeout = std::chrono::seconds(30));

  // Requests a stop and returns at once: for a thread that must not wait in stop() because it settles deliveries, such
  // as that of an event loop. The consumer takes no more messages from then on. Another thread calls stop(timeout),
  // then `stopped` with the result. The destructor waits for that thread, unless it is called in `stopped`. An
  // exception of `stopped` ends the process.
  //
  // Any thread, handler or callback may call it. Throws SetupError if the system refuses the thread; then nothing has
  // changed.
  void request_stop(std::function<void(bool clean)> stopped = {}, milliseconds timeout = std::chrono::seconds(30));

  // With several queues: the sums, and the last of the errors; `connected` is true if it is for each queue. Any thread
  // may call stats() and metrics().
  [[nodiscard]] ConsumerStats stats() const;

  // Of one queue. With several queues, `connects` and the errors of the connection are only in the sums. Throws
  // std::invalid_argument if this consumer does not have the queue.
  [[nodiscard]] ConsumerStats stats(const QueueName& queue) const;

  // The counters of all queues with histograms, for a monitoring system: see metrics.h.
  [[nodiscard]] ConsumerMetrics metrics() const;

 private:
  class DELAYQUEUE_HIDDEN Impl;
  internal::Owned<Impl> impl_;
};

}  // namespace delayqueue
