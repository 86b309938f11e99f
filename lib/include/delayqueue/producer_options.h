// The options of a Producer.
#pragma once

#include <delayqueue/durability.h>
#include <delayqueue/events.h>
#include <delayqueue/send_options.h>

#include <chrono>
#include <cstddef>
#include <functional>

namespace delayqueue {

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

}  // namespace delayqueue
