// The options of a Consumer.
#pragma once

#include <delayqueue/backoff.h>
#include <delayqueue/delivery.h>
#include <delayqueue/events.h>
#include <delayqueue/export.h>
#include <delayqueue/options.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace delayqueue {

struct ConsumerOptions {
  // Handlers at the same time, each in its own thread: 1 to 10,000. With a DeliveryHandler: deliveries that are not
  // settled, 1 to a million. Default: the number of processor cores.
  std::size_t concurrency = hardware_concurrency();
  // That run handlers if a queue has a DeliveryHandler, up to 10,000; 0: the number of cores, or as many handlers as the
  // queues with a Handler may run if that is more, at most `concurrency`. Without a DeliveryHandler: unset.
  std::size_t threads = 0;
  // Time until messages of a dead process are delivered again; a living one renews it. At least 10 ms.
  milliseconds lease{30'000};
  Backoff backoff = Backoff::exponential(std::chrono::seconds(1), std::chrono::minutes(10));  // after exceptions, and
                                                                                              // nacks without a wait
  // A message whose sender wakes no consumer (Go library) is noticed within this time; with more than 10 queues later,
  // see the constructor. At least 1 ms.
  milliseconds poll_interval{1000};
  milliseconds processing_timeout{30 * 60'000};       // a handler running longer, or a Delivery not settled within it,
                                                      // loses its lease; at least 1 ms
  milliseconds dead_retention{7 * 24 * 3'600'000LL};  // how long dead letters are kept; 0: not at all
  std::uint64_t dead_limit = 0;                       // most dead letters kept, the oldest go first; 0: no limit
  milliseconds reconnect_grace{2000};  // for this long after a connect, messages of other consumers are not taken over
                                       // when their lease ends: those consumers may be reconnecting, too. Keep it above
                                       // 1 s, the longest reconnect pause. Does not delay the end of a backoff
  Durability durability{};      // of verdicts; its timeout is at most a third of the lease. A verdict that is not
                                // confirmed in time is logged and counted, not repeated: at worst the message is
                                // delivered again
  std::size_t prefetch = 1000;  // most messages held in addition to the running ones, up to a million. Only as many
                                // are taken as will start within 10 ms, or up to 100 ms behind a slow link, so a
                                // consumer with slow handlers holds none. Raise it for fast handlers behind a link of
                                // several milliseconds
  Logger logger{};
  Around around{};  // called around each handler of all queues: see delivery.h
  EventCallback on_event{};
  bool report_events = false;     // publish to the Go library's event channel dq:<queue>:reportEvents
  bool strict_priority = false;   // with several queues: the weights are priorities, see SubscriptionOptions
  bool register_consumer = true;  // write what it does into the registry of each queue, every 10 s or poll_interval,
                                  // whichever is longer: see Inspector::workers()
  std::string name{};             // its name there, such as that of the service; its first 100 bytes are stored
  ConnectionOptions connection{};
  QueueOptions queue{};

  DELAYQUEUE_EXPORT static std::size_t hardware_concurrency();  // at least 1
};

}  // namespace delayqueue
