// The options of a Consumer.
#pragma once

#include <delayqueue/backoff.h>
#include <delayqueue/durability.h>
#include <delayqueue/events.h>
#include <delayqueue/export.h>
#include <delayqueue/handler.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace delayqueue {

// To be changed only after a measurement: see docs/operations.md.
struct ConsumerTuning {
  // Threads that run handlers, if a queue has a handler of a Delivery: up to 10,000. 0: the number of cores; or the
  // most handlers that return a Verdict at the same time, if that is larger; but at most `concurrency`. Without a
  // handler of a Delivery it must be 0: there are `concurrency` threads.
  std::size_t threads = 0;

  // Most messages held in addition to those whose handlers run: up to a million. If the queues are on several masters
  // of a Cluster, the bound is this number times theirs. The consumer takes only as many messages as will start within
  // 10 ms, or up to 100 ms behind a slow link; with slow handlers it holds none. Raise it for fast handlers behind a
  // link of several milliseconds.
  std::size_t prefetch = 1000;

  // Upper bound for noticing a message whose sender wakes no consumer (the Go library). At least 1 ms. With more than
  // 10 queues it may take up to 10 times as long: see the constructor of Consumer.
  milliseconds poll_interval{1000};

  // For this long after a connect, the consumer does not take over messages of other consumers whose lease has ended:
  // those may be reconnecting, too. Keep it above 1 s, the longest reconnect pause. At least 0. It does not delay the
  // end of a backoff.
  milliseconds reconnect_grace{2000};

  // Write what the consumer does into the registry of each queue, every 10 s or every poll_interval, whichever is
  // longer: see Inspector::workers().
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

}  // namespace delayqueue
