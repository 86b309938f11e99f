// What is sent, and when it is due.
#pragma once

#include <delayqueue/headers.h>
#include <delayqueue/types.h>

#include <chrono>
#include <optional>
#include <string>

namespace delayqueue {

// The options of one message. It is due after `delay` by Redis' clock (default: at once), or at the absolute time `at`
// (from 1970 to the end of 2199, rounded up to the ms). Set only one of the two. Durations are at most a hundred years.
struct SendOptions {
  milliseconds delay{0};
  std::optional<std::chrono::system_clock::time_point> at{};
  std::optional<int> retries{};       // deliveries after the first; unset: ProducerOptions::retries
  std::optional<milliseconds> ttl{};  // the message expires this long after its due time; at least 1 ms; unset: never
  // A UUID of 36 characters, stored in lower case; empty: a new UUIDv7. See Sent::created. A queue with partitions
  // keeps all messages with ids that the library has not made in partition 0: they have the throughput of one master.
  std::string id{};
  Headers headers{};  // see Message::headers(); names must not begin with "dq-". Workers of the Go library ignore them
};

// The new due time: `delay` or `at`, as in SendOptions.
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
