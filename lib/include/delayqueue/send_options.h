// The options of sends and reschedules, and a message with its options.
#pragma once

#include <delayqueue/headers.h>
#include <delayqueue/types.h>

#include <chrono>
#include <optional>
#include <string>

namespace delayqueue {

// The options of one message. Set `delay` or `at`, not both. Durations are at most a hundred years.
struct SendOptions {
  milliseconds delay{0};  // until the message is due, by Redis' clock; at least 0
  // When the message is due: from 1970 to the end of 2199, rounded up to the ms.
  std::optional<std::chrono::system_clock::time_point> at{};
  std::optional<int> retries{};       // deliveries after the first; see ProducerOptions::retries, the default
  std::optional<milliseconds> ttl{};  // the message expires this long after its due time; at least 1 ms; unset: never
  // A UUID of 36 characters, stored in lower case; empty: a new UUIDv7. See SendResult. In a queue with partitions
  // messages with ids of version 4 are in partition 0: they have the throughput of one master. See docs/protocol.md.
  std::string id{};
  Headers headers{};  // names must not begin with "dq-" or "DQ-"; workers of the Go library ignore headers
};

// The new due time: `delay` or `at`, as in SendOptions. With neither the message is due at once.
struct RescheduleOptions {
  milliseconds delay{0};
  std::optional<std::chrono::system_clock::time_point> at{};
};

// One message with its own options: of a batch, or for ProducerOptions::before_send.
struct OutgoingMessage {
  std::string payload{};
  SendOptions options{};
};

}  // namespace delayqueue
