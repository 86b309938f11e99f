// Logging and events: what producers and consumers report to their program.
#pragma once

#include <delayqueue/export.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace delayqueue {

enum class Severity { debug, info, warning, error };

// Receives log lines. Called in the thread that reports: a calling thread, or the consumer's own thread. No lock that
// sends or handlers need is held during the call. A logger must not wait for a start() or stop() of the same consumer.
// Exceptions from a logger are dropped.
//
// A line of a consumer begins with its queue and the last 8 characters of its id, "queue orders, consumer 1a2b3c4d: ".
// A line of a producer begins with its queue, "queue orders: ".
//
// Without a logger, warnings and errors are written to stderr, one line each: "delayqueue: warning: ...". no_log() is a
// logger that writes nothing. Risks in the settings of the server (see server_info.h) are logged only if a logger is
// set, once per process for each server.
using Logger = std::function<void(Severity, const std::string& line)>;
DELAYQUEUE_EXPORT Logger no_log();

// The kind of an event. The numbers are the codes of the Go library's event channel.
enum class EventKind { sent = 1, ready = 2, delivered = 3, acked = 4, nacked = 5, retried = 6, dead_lettered = 7 };

struct Event {
  EventKind kind{};
  std::chrono::system_clock::time_point at{};  // this process' clock; from the channel: the sender's, in seconds
  std::uint64_t count = 0;
  std::vector<std::string> ids{};  // `count` ids; from the channel: empty, because it carries none
};

// Receives events. Called after the event, in the thread that caused it (sends) or in the consumer's own thread (all
// others). Use events for monitoring only: a crash can lose an event, and a repeated call can report it twice.
// Exceptions from the callback are logged and dropped.
using EventCallback = std::function<void(const Event&)>;

}  // namespace delayqueue
