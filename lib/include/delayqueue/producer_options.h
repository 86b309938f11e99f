// The options of a Producer.
#pragma once

#include <delayqueue/events.h>
#include <delayqueue/options.h>
#include <delayqueue/send_options.h>

#include <chrono>
#include <cstddef>
#include <functional>

namespace delayqueue {

struct ProducerOptions {
  int retries = 3;                        // for sends without SendOptions::retries
  std::size_t max_payload = 1024 * 1024;  // bytes; up to 512 MiB (Redis' limit)
  Durability durability{};                // of sends, cancels and reschedules
  Logger logger{};
  // Called once for each message of send(), send_batch() and send_async(), in the calling thread, before any is sent. It
  // may change the message, which is checked afterwards. An exception leaves that call, and nothing is sent, also of a
  // batch. Repeats by the library do not call it, those by the program do. The id is empty unless the caller has set
  // SendOptions::id. Several threads may call it at the same time. If it is set, send() and send_batch() copy payloads.
  std::function<void(OutgoingMessage&)> before_send{};
  EventCallback on_event{};
  bool report_events = false;  // publish to the Go library's event channel dq:<queue>:reportEvents
  ConnectionOptions connection{};
  QueueOptions queue{};
  // How long a thread that sends alone may wait busily for the answer to one message before it sleeps; 0 to 1000 us, 0:
  // not at all. Costs at most this much CPU time for each send. The Producer measures: in each 1000 sends it tries 16
  // busy waits, and the rest are busy only if these were at least a tenth faster. No wait is busy while several threads
  // of the process send (the thread of send_async counts while it sends), if the process can use fewer than two CPUs
  // (by the machine, or by the quota of a container), or if the thread and Redis are pinned to the same core.
  std::chrono::microseconds busy_wait{60};
};

}  // namespace delayqueue
