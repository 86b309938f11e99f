// Consumer: takes due messages from one queue or several, and calls a handler for each. Before it: Backoff, the options
// of a consumer and of each queue, and StopSignals.
#pragma once

#include <delayqueue/client.h>
#include <delayqueue/detail/owned.h>
#include <delayqueue/error.h>
#include <delayqueue/handler.h>
#include <delayqueue/log.h>
#include <delayqueue/message.h>
#include <delayqueue/version.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {

// The wait as a function of the number of the delivery that failed, which is 1 for the first delivery. The consumer
// calls it in its own thread, which also renews the leases, so it must return soon. A wait below 0 counts as 0, and one
// above a hundred years as a hundred years: see nack().
class DELAYQUEUE_EXPORT Backoff {
 public:
  // The same wait after every delivery: 0 to a hundred years. Throws std::invalid_argument.
  static Backoff fixed(milliseconds wait);

  // The waits `first`, 2 x `first`, 4 x `first` ..., at most `most`. Each is shortened at random, by at most the share
  // `jitter` (0.2: by up to 20%). `first` is at least 1 ms, `most` at least `first`, `jitter` 0 to 1. Throws
  // std::invalid_argument.
  static Backoff exponential(milliseconds first, milliseconds most, double jitter = 0.2);

  // Any function of that number. If it throws, the wait is 1 s and the logger gets a warning.
  template <class Function, class = std::enable_if_t<std::is_invocable_r_v<milliseconds, Function&, int> &&
                                                     !std::is_same_v<std::decay_t<Function>, Backoff>>>
  Backoff(Function wait) : wait_(std::move(wait)) {}  // NOLINT(google-explicit-constructor)

  milliseconds operator()(int attempt) const { return wait_(attempt); }

 private:
  std::function<milliseconds(int attempt)> wait_;
};

// Internals that rarely need a change: measure before and after. See docs/operations.md, "Tuning".
struct ConsumerTuning {
  // Threads that run handlers, if a queue has a handler of a Delivery: up to 10,000. 0: the number of cores; or the
  // most handlers that return a Verdict at the same time, if that is larger; but at most `concurrency`. Without a
  // handler of a Delivery it must be 0: there are `concurrency` threads.
  std::size_t threads = 0;

  // Most messages held in addition to those whose handlers run, for each master of a Cluster: up to a million. The
  // consumer takes only what will start soon; with slow handlers it holds none. Raise it for fast handlers on a slow
  // link.
  std::size_t prefetch = 1000;

  // How late a message is noticed at most whose sender wakes no consumer (the Go library). At least 1 ms. Longer with
  // many queues: see docs/operations.md.
  milliseconds poll_interval{1000};

  // After a connect the consumer waits this long before it takes over messages whose lease has ended: their consumers
  // may be reconnecting, too. At least 0; keep it above the longest reconnect pause, 1 s. Backoffs end without this
  // wait.
  milliseconds reconnect_grace{2000};

  // Write into the registry of each queue what the consumer does: see Inspector::workers().
  bool register_consumer = true;
};

struct ConsumerOptions {
  // Most handlers at the same time, each in its own thread: 1 to 10,000. With a handler of a Delivery: most deliveries
  // that are not settled, 1 to a million. Default: the number of processor cores.
  std::size_t concurrency = hardware_concurrency();

  // Time until messages of a dead process are delivered again; a living one renews the lease. At least 10 ms.
  milliseconds lease{30'000};

  // The wait after an exception of a handler, and after a nack without a wait.
  Backoff backoff = Backoff::exponential(std::chrono::seconds(1), std::chrono::minutes(10));

  // A handler that runs longer, or a Delivery that is not settled within this time, loses its lease. At least 1 ms.
  milliseconds processing_timeout{30 * 60'000};

  milliseconds dead_retention{7 * 24 * 3'600'000LL};  // how long dead letters are kept; 0: not at all
  std::uint64_t dead_limit = 0;                       // most dead letters kept, the oldest go first; 0: no limit

  // Of verdicts; its timeout is at most a third of the lease. A verdict that is not confirmed in time is logged and
  // counted, but not repeated: at worst the message is delivered again.
  Durability durability{};

  Logger logger{};
  Middleware middleware{};  // called around each handler of all queues: see handler.h
  EventCallback on_event{};
  bool strict_priority = false;  // with several queues: the weights are priorities, see SubscriptionOptions

  // Its name in Inspector::workers(), such as that of the service; the first 100 bytes are stored.
  std::string name{};
  ConsumerTuning tuning{};

  DELAYQUEUE_EXPORT static std::size_t hardware_concurrency();  // at least 1
};

// The options of one queue. A member that is unset has the value in ConsumerOptions.
struct SubscriptionOptions {
  // The share of the queue while several queues have messages: 1 to 1,000. Of two queues with the weights 6 and 3 the
  // first gets two of three deliveries. A queue gets all workers while no other queue has messages. With
  // ConsumerOptions::strict_priority a queue is served only while no queue of a higher weight has messages for a
  // worker.
  unsigned weight = 1;
  std::optional<std::size_t> concurrency{};  // at most that of the consumer
  std::optional<milliseconds> lease{};
  std::optional<Backoff> backoff{};
  std::optional<milliseconds> processing_timeout{};
  std::optional<milliseconds> dead_retention{};
  std::optional<std::uint64_t> dead_limit{};
};

struct Subscription {
  QueueName queue;
  Handler handler;
  SubscriptionOptions options{};
};

// Signals that stop a consumer. Consumer::run() catches them from its beginning until it returns, in whichever thread
// they arrive, and gives them their former actions then. The first one stops the consumer. The second one has its
// default action: as a rule, the process ends. A signal that no thread of the process accepts is unblocked in the
// thread of run(). A value: copies are independent.
class DELAYQUEUE_EXPORT StopSignals {
 public:
  StopSignals();  // SIGINT and SIGTERM
  explicit StopSignals(std::initializer_list<int> signals) : signals_(signals) {}

  // For the stop() after a signal. Default: 30 s.
  StopSignals& timeout(milliseconds timeout) {
    timeout_ = timeout;
    return *this;
  }

 private:
  friend class Consumer;

  std::vector<int> signals_;
  milliseconds timeout_ = std::chrono::seconds(30);
};

struct ConsumerMetrics;  // see metrics.h

// Delivers each message at least once. A message is delivered again after a nack, an exception in the handler, the
// death of the process or the end of the lease, until it has no retries left. A handler must therefore tolerate a
// second call with the same id. Any thread.
//
// Threads: `concurrency` worker threads call the handler. One is added for each handler that has lost its lease and
// still runs. One more thread does all other work: it calls logger, on_event and backoff, and renews the leases, so a
// handler may run longer than one lease.
//
// With a handler of a Delivery, ConsumerTuning::threads worker threads call the handler, and the verdict may come
// later, from any thread. Up to `concurrency` deliveries may be outstanding. A delivery leaves its place to another
// message
//   - when it has lost its lease without a verdict, usually because of processing_timeout, or
//   - when it has its verdict, but its handler runs for longer than processing_timeout.
// While more than `concurrency` deliveries have left their places but not ended, the consumer takes no message, and the
// logger gets a warning.
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
  // Connections, threads and requests: see docs/operations.md. With many queues each one is polled less often.
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

  // As run(); each of the signals stops the consumer, too. If a signal arrives and start() then throws, the signal is
  // raised again with its former action. Throws std::invalid_argument for a signal that cannot be caught, and
  // std::logic_error while another consumer of the process is in this call. A program that handles signals in its own
  // way calls stop().
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

  // Counters and durations of all queues, for health checks and monitoring. Include <delayqueue/metrics.h> to use them.
  [[nodiscard]] ConsumerMetrics metrics() const;

 private:
  class DELAYQUEUE_HIDDEN Impl;
  internal::Owned<Impl> impl_;
};

}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
