// All options: plain structs with a default for every member; times are std::chrono durations.
//
// C++20:  Consumer c(url, "orders", handler, {.concurrency = 4, .lease = 30s});
// C++17:  ConsumerOptions o;  o.concurrency = 4;  o.lease = 30s;  Consumer c(url, "orders", handler, o);
//
// An impossible value (a negative delay, a lease of zero) throws std::invalid_argument that names the member and value.
#pragma once

#include <delayqueue/export.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace delayqueue {

using std::chrono::milliseconds;

// ---- What is reported ----------------------------------------------------------------------------------------------

enum class Severity { debug, info, warning, error };

// Called in the thread that reports: the caller's, or the consumer's own. No lock that sends or handlers need is held
// meanwhile. It must not wait for a start() or stop() of the same consumer. Its exceptions are dropped.
//
// A line of a consumer begins with its queue and the last 8 characters of its id, "queue orders, consumer 1a2b3c4d: ",
// a line of a producer with its queue, "queue orders: ".
//
// Without a logger, warnings and errors are written to stderr, a line each: "delayqueue: warning: ...". no_log() is a
// logger that writes nothing. Only with a logger are the risks of the server's settings logged (see Inspector::risks),
// once a process for each server.
using Logger = std::function<void(Severity, const std::string& line)>;
DELAYQUEUE_EXPORT Logger no_log();

// What happened to messages; gave_up: they became dead letters. The numbers are the codes of the Go library's event
// channel.
enum class EventKind { sent = 1, ready = 2, delivered = 3, acked = 4, nacked = 5, retried = 6, gave_up = 7 };

struct Event {
  EventKind kind{};
  std::chrono::system_clock::time_point at{};  // this process' clock; from the channel: whole seconds of the sender's
  std::size_t count = 0;
  std::vector<std::string> ids{};  // `count` ids; empty when read from the channel, which carries none
};

// Called after the event, in the thread that caused it (sends) or in the consumer's own (all else). Use events for
// monitoring only: a crash can lose one, a repeated call can report one twice. Exceptions are logged and dropped.
using EventCallback = std::function<void(const Event&)>;

// ---- Where the server and the queue are ----------------------------------------------------------------------------

// For rediss URLs. The server's certificate must be valid for the host in the URL.
struct TlsOptions {
  std::string ca_file{};      // PEM; empty: the system's certificate authorities
  std::string cert_file{};    // client certificate, PEM, with its chain; empty: none is sent
  std::string key_file{};     // its key, PEM; must be set when cert_file is
  std::string server_name{};  // the name to check, also sent as SNI; empty: the URL's host
};

// For redis+sentinel:// and rediss+sentinel:// URLs: how to connect to the Sentinels. The user and password of the URL
// and of ConnectionOptions are for the servers that the Sentinels watch, and are never sent to a Sentinel.
struct SentinelOptions {
  std::string user{};               // ACL user; empty: the default user
  std::string password{};           // empty: none
  std::optional<bool> encrypted{};  // use TLS; unset: as the URL's scheme says
  std::optional<TlsOptions> tls{};  // when encrypted; unset: the same as for the servers

  // Whether to throw std::invalid_argument where a false Sentinel could obtain the password: the Sentinels are not
  // encrypted, the servers are, and neither tls.ca_file nor tls.server_name restricts the certificate, so that any
  // server with a valid one is accepted. If false, the logger gets a warning.
  bool refuse_unpinned = false;
};

// How to connect. Members that are set override the same part of the URL.
struct ConnectionOptions {
  std::string user{};                  // ACL user; empty: the URL's, or the default user
  std::string password{};              // empty: the URL's, or none
  std::string client_name{};           // as CLIENT LIST shows it; empty: "delayqueue"
  milliseconds connect_timeout{2000};  // for socket, TLS and login together; not for the look-up of the host's name
  milliseconds command_timeout{3000};  // for each answer; 0 is not allowed: only a timeout detects a frozen server
  TlsOptions tls{};
  SentinelOptions sentinel{};
};

enum class HashTag { automatic, on, off };  // automatic: on in a Cluster, off elsewhere

// The names of the queue's keys. All programs that share a queue must set these alike.
struct QueueOptions {
  std::string prefix = "dp";              // keys are <prefix>:<queue>:...
  HashTag hash_tag = HashTag::automatic;  // on: {<prefix>:<queue>}:..., all in one Cluster slot

  // For queues that are shared with workers of the Go library HDT3213/delayqueue.
  bool bodies_under_dp = false;    // payloads under dp:... with any prefix, where the Go library expects them
  bool remove_from_lists = false;  // cancel and reschedule also search the lists (up to 5,000 long): a Go worker with
                                   // a fetch limit fetches less for every id whose body is missing
};

// Where a write must be before a call returns. Redis answers when the master has it in memory.
//
// none: returns then. With appendonly yes and appendfsync everysec a power cut can lose the last second or two of
// writes, and so can a kill -9 of the server while its disk is busy; a failover can lose what no replica had yet.
// replicas(n): n replicas have it in memory, too (WAIT). It survives the loss of the master if one of them is promoted.
// disk: the master has it on its disk (WAITAOF). Needs Redis 7.2 or later, or Valkey, with appendonly yes; with
// appendfsync everysec a call takes up to a second. A server that cannot confirm it is a ReplyError, before
// anything is written.
//
// When this is not reached within the timeout, a Producer's call throws ConnectionError: the message is stored, but not
// as durable as asked for. Send it again with its id: no second message is made, and the call waits again.
struct Durability {
  enum class Kind { none, replicas, disk };

  Kind kind = Kind::none;
  int replicas = 0;
  milliseconds timeout{0};
};

DELAYQUEUE_EXPORT Durability replicas(int count, milliseconds timeout = milliseconds(1000));
DELAYQUEUE_EXPORT Durability disk(milliseconds timeout = milliseconds(2000));

// ---- Producer ------------------------------------------------------------------------------------------------------

struct ProducerOptions {
  int retries = 3;                        // for sends without SendOptions::retries
  std::size_t max_payload = 1024 * 1024;  // bytes; up to 512 MiB (Redis' limit)
  Durability durability{};                // of sends, cancels and reschedules
  Logger logger{};
  EventCallback on_event{};
  bool report_events = false;  // publish to the Go library's event channel dq:<queue>:reportEvents
  ConnectionOptions connection{};
  QueueOptions queue{};
};

// The options of one message. It is due after `delay` by Redis' clock (default: at once), or `at` an absolute time
// (rounded up to the ms) from 1970 to the end of 2199. Only one of the two may be set. Durations are at most a hundred
// years.
struct SendOptions {
  milliseconds delay{0};
  std::optional<std::chrono::system_clock::time_point> at{};
  std::optional<int> retries{};       // deliveries after the first; unset: ProducerOptions::retries
  std::optional<milliseconds> ttl{};  // how long after its due time the message is still wanted; unset: for ever
  std::string id{};                   // a UUID of the caller's; empty: a new UUIDv7
};

// The new due time: `delay` or `at`, as in SendOptions.
struct RescheduleOptions {
  milliseconds delay{0};
  std::optional<std::chrono::system_clock::time_point> at{};
};

// ---- Consumer ------------------------------------------------------------------------------------------------------

// The number of processor cores, at least 1.
DELAYQUEUE_EXPORT int cores();

// Returns the wait before delivery number attempt + 1, after delivery number `attempt` (from 1) failed. If it throws,
// the wait is 1 s and the logger gets a warning.
using Backoff = std::function<milliseconds(int attempt)>;

DELAYQUEUE_EXPORT Backoff fixed(milliseconds delay);

// first, 2 x first, 4 x first ... at most `most`; each is shortened by a random part, up to `jitter` (0 to 1) of it.
DELAYQUEUE_EXPORT Backoff exponential(milliseconds first, milliseconds most, double jitter = 0.2);

struct ConsumerOptions {
  int concurrency = cores();         // handlers at the same time, each in its own thread; at least 1
  milliseconds lease{30'000};        // time until messages of a dead process are redelivered; a living one renews it
  Backoff backoff{};                 // for nacks without a wait and exceptions; unset: exponential(1s, 10min)
  milliseconds poll_interval{1000};  // upper bound for noticing a message whose sender wakes no consumer (Go workers)
  milliseconds processing_timeout{30 * 60'000};       // a handler running longer loses its lease
  milliseconds dead_retention{7 * 24 * 3'600'000LL};  // how long dead letters are kept; 0: not at all
  std::int64_t dead_limit = 0;                        // most dead letters kept, the oldest go first; 0: no limit
  milliseconds reconnect_grace{2000};  // for so long after a connect, messages of other consumers whose lease has
                                       // ended are not taken over: their consumers may be reconnecting, too. Keep it
                                       // above 1 s, the longest reconnect pause. Does not delay ends of backoffs
  Durability durability{};  // of verdicts. One that is not confirmed in time is logged and counted, not repeated:
                            // at worst the message is delivered again
  int prefetch = 1000;      // most messages held beyond those running; only as many are taken as
                            // will start within milliseconds, so slow handlers hold none
  Logger logger{};
  EventCallback on_event{};
  bool report_events = false;  // publish to the Go library's event channel dq:<queue>:reportEvents
  ConnectionOptions connection{};
  QueueOptions queue{};
};

// ---- Inspector -----------------------------------------------------------------------------------------------------

struct InspectorOptions {
  ConnectionOptions connection{};
  QueueOptions queue{};
};

}  // namespace delayqueue
