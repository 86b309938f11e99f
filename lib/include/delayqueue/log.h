// Logger and EventCallback: how a Producer and a Consumer report to their program.
#pragma once

#include <delayqueue/version.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {

enum class Severity { debug, info, warning, error };
DELAYQUEUE_EXPORT const char* to_string(Severity severity);  // "debug", "info" ...

// One entry of the log. Loggers of plain text print `line`, which is complete; those of records use `text` and the
// fields. A field that is not known is empty. What came from Redis is escaped in all of them.
//
// `line` is `text` after the names of what reports. A line of a consumer begins with its queue and the last 8
// characters of its id, "queue orders, consumer 1a2b3c4d: ". If it concerns several queues of the consumer, such as a
// lost connection, it begins with "consumer 1a2b3c4d: ". A line of a producer begins with its queue, "queue orders: ".
struct LogEntry {
  Severity severity{};
  std::string line{};
  std::string text{};
  std::string queue{};       // its name as the program gave it, with any bytes
  std::string consumer{};    // the id of the consumer, 36 characters: each Consumer has a new one
  std::string server{};      // the address of the server, if the entry is about one: "10.0.0.1:6379", "unix:/path"
  std::string message_id{};  // if it is about one message
};

// Receives log entries. Called in the thread that reports: a calling thread, a thread of the producer, or a thread of
// the consumer. Several threads of one Producer may call it at the same time. In the consumer's thread it must return
// soon, because that thread renews the leases. No lock that sends or handlers need is held during the call. A logger
// must not wait for a start() or stop() of the same consumer. Exceptions from a logger are dropped.
//
// Without a logger, warnings and errors are written to stderr, one line each: "delayqueue: warning: ...". no_log() is a
// logger that writes nothing. Risks in the settings of the server (see server.h) are logged only if a logger is
// set, once per process for each server.
using Logger = std::function<void(const LogEntry&)>;
DELAYQUEUE_EXPORT Logger no_log();

// The kind of an event. The numbers are the codes of the Go library's event channel. A Producer reports sent, a
// Consumer all others.
enum class EventKind {
  sent = 1,           // stored by a send; not reported if the message existed
  ready = 2,          // became due and left pending; not reported for messages that are due when they are sent
  delivered = 3,      // taken by a consumer; the handler runs later, or not if the consumer stops
  acked = 4,          // settled as done
  nacked = 5,         // settled as not done: nacks, exceptions and rejects
  retried = 6,        // the backoff or lease has ended, and a retry is spent
  dead_lettered = 7,  // became a dead letter
};
DELAYQUEUE_EXPORT const char* to_string(EventKind kind);  // "sent", "ready" ...

struct Event {
  EventKind kind{};
  std::chrono::system_clock::time_point at{};  // this process' clock; from the channel: the sender's, in seconds
  std::uint64_t count = 0;
  std::vector<std::string> ids{};  // `count` ids; from the channel: empty, because it carries none
  std::string queue{};             // the name of the queue; from the channel: empty
};

// Receives events. Called after the event: for sends in the thread that sent, so several threads may call it at the
// same time; for all other kinds in the consumer's own thread, where it must return soon, because that thread renews
// the leases. Use events for monitoring only: a crash can lose an event, and a repeated call can report it twice.
// Exceptions from the callback are logged and dropped.
using EventCallback = std::function<void(const Event&)>;

}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
