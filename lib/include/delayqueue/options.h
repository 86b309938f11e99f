// All options: plain structs with a default for every member. Times are std::chrono durations.
//
// C++20: Consumer c(url, "orders", handler, {.concurrency = 4, .lease = 30s}); C++17: ConsumerOptions o; o.concurrency
// = 4; o.lease = 30s; Consumer c(url, "orders", handler, o);
//
// An invalid value (a negative delay, a lease of zero) throws std::invalid_argument that names the member and the
// value.
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

// ---- Logging and events --------------------------------------------------------------------------------------------

enum class Severity { debug, info, warning, error };

// Receives log lines. Called in the thread that reports: a calling thread, or the consumer's own thread. No lock that
// sends or handlers need is held during the call. A logger must not wait for a start() or stop() of the same consumer.
// Exceptions from a logger are dropped.
//
// A line of a consumer begins with its queue and the last 8 characters of its id, "queue orders, consumer 1a2b3c4d: ".
// A line of a producer begins with its queue, "queue orders: ".
//
// Without a logger, warnings and errors are written to stderr, one line each: "delayqueue: warning: ...". no_log() is a
// logger that writes nothing. Risks in the settings of the server (see Inspector::risks) are logged only if a logger is
// set, once per process for each server.
using Logger = std::function<void(Severity, const std::string& line)>;
DELAYQUEUE_EXPORT Logger no_log();

// The kind of an event; dead_lettered: messages became dead letters. The numbers are the codes of the Go library's event
// channel.
enum class EventKind { sent = 1, ready = 2, delivered = 3, acked = 4, nacked = 5, retried = 6, dead_lettered = 7 };

struct Event {
  EventKind kind{};
  std::chrono::system_clock::time_point at{};  // this process' clock; from the channel: the sender's, in seconds
  std::size_t count = 0;
  std::vector<std::string> ids{};  // `count` ids; from the channel: empty, because it carries none
};

// Receives events. Called after the event, in the thread that caused it (sends) or in the consumer's own thread (all
// others). Use events for monitoring only: a crash can lose an event, and a repeated call can report it twice.
// Exceptions from the callback are logged and dropped.
using EventCallback = std::function<void(const Event&)>;

// ---- Server and queue ----------------------------------------------------------------------------------------------

// TLS, for rediss URLs. The certificate of the server must be valid for the host in the URL.
struct TlsOptions {
  std::string ca_file{};      // PEM; empty: the system's certificate authorities
  std::string cert_file{};    // client certificate, PEM, with its chain; empty: none is sent
  std::string key_file{};     // private key of cert_file, PEM; required if cert_file is set
  std::string server_name{};  // the name to verify, also sent as SNI; empty: the URL's host
};

// How to connect to the Sentinels of a redis+sentinel:// or rediss+sentinel:// URL. The user and password of the URL
// and of ConnectionOptions are for the servers that the Sentinels monitor, and are never sent to a Sentinel.
struct SentinelOptions {
  std::string user{};               // ACL user; empty: the default user
  std::string password{};           // empty: none
  std::optional<bool> encrypted{};  // use TLS; unset: the scheme of the URL decides
  std::optional<TlsOptions> tls{};  // if encrypted; unset: ConnectionOptions::tls

  // Throw std::invalid_argument if a forged Sentinel could obtain the password; false: the logger gets a warning. This
  // is the case if connections to the Sentinels are not encrypted, connections to the servers are, and neither
  // ConnectionOptions::tls.ca_file nor its server_name is set: then any server with a valid certificate is accepted.
  bool refuse_unpinned = false;
};

// How to connect to the server. Members that are set override the same part of the URL.
struct ConnectionOptions {
  std::string user{};                  // ACL user; empty: the URL's, or the default user
  std::string password{};              // empty: the URL's, or none
  std::string client_name{};           // the name in CLIENT LIST; empty: "delayqueue"
  milliseconds connect_timeout{2000};  // for socket, TLS and login together; not for the lookup of the host name
  milliseconds command_timeout{3000};  // for each reply; 0 is not allowed: only a timeout detects a frozen server
  TlsOptions tls{};
  SentinelOptions sentinel{};
};

enum class HashTag { automatic, on, off };  // automatic: on in a Cluster, off elsewhere

// The names of the queue's keys. All programs that share a queue must use the same values.
struct QueueOptions {
  std::string prefix = "dp";              // keys are <prefix>:<queue>:...
  HashTag hash_tag = HashTag::automatic;  // on: {<prefix>:<queue>}:..., all in one Cluster slot

  // For queues that are shared with workers of the Go library HDT3213/delayqueue.
  bool bodies_under_dp = false;    // store payloads under dp:..., where the Go library expects them, with any prefix
  bool remove_from_lists = false;  // cancel and reschedule also remove the id from the lists (up to a length of 5,000):
                                   // a Go worker with a fetch limit fetches less for every id whose payload is missing
};

// Where a write must be stored before a call returns. Redis replies when the master has the write in memory.
//
// none: the call returns after this reply. With appendonly yes and appendfsync everysec a power cut can lose the last
// second or two of writes, and so can a kill -9 of the server while its disk is busy. A failover can lose writes that
// no replica had received. replicas(n): n replicas have the write in memory, too (WAIT). It survives the loss of the
// master if one of them is promoted. disk: the master has the write on its disk (WAITAOF). Needs Redis 7.2 or later, or
// Valkey, with appendonly yes. With appendfsync everysec a call takes up to a second. If the server cannot confirm
// this, the call throws ReplyError before anything is written.
//
// If this is not reached within the timeout, a call of a Producer throws ConnectionError: the message is stored, but
// not as durably as required. Send it again with its id: while it is in the queue, this creates no second message, and
// waits again.
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

// The options of one message. It is due after `delay` by Redis' clock (default: at once), or at the absolute time `at`
// (from 1970 to the end of 2199, rounded up to the ms). Set only one of the two. Durations are at most a hundred years.
struct SendOptions {
  milliseconds delay{0};
  std::optional<std::chrono::system_clock::time_point> at{};
  std::optional<int> retries{};       // deliveries after the first; unset: ProducerOptions::retries
  std::optional<milliseconds> ttl{};  // the message expires this long after its due time; unset: never
  std::string id{};                   // a UUID, chosen by the caller; empty: a new UUIDv7
};

// The new due time: `delay` or `at`, as in SendOptions.
struct RescheduleOptions {
  milliseconds delay{0};
  std::optional<std::chrono::system_clock::time_point> at{};
};

// ---- Consumer ------------------------------------------------------------------------------------------------------

// The number of processor cores, at least 1.
DELAYQUEUE_EXPORT int cores();

// Computes the wait between delivery number `attempt` (from 1), which failed, and the next one. If it throws, the wait
// is 1 s and the logger gets a warning.
using Backoff = std::function<milliseconds(int attempt)>;

// The same wait after every delivery.
DELAYQUEUE_EXPORT Backoff fixed(milliseconds delay);

// The waits first, 2 x first, 4 x first ..., at most `most`. Each is shortened by a random part of up to `jitter` (0 to
// 1) of it.
DELAYQUEUE_EXPORT Backoff exponential(milliseconds first, milliseconds most, double jitter = 0.2);

struct ConsumerOptions {
  int concurrency = cores();   // handlers at the same time, each in its own thread; at least 1
  milliseconds lease{30'000};  // time until messages of a dead process are delivered again; a living one renews it
  Backoff backoff{};           // after exceptions and nacks without a wait; unset: exponential(1s, 10min)
  milliseconds poll_interval{1000};  // upper bound for noticing a message whose sender wakes no consumer (Go library)
  milliseconds processing_timeout{30 * 60'000};       // a handler running longer loses its lease
  milliseconds dead_retention{7 * 24 * 3'600'000LL};  // how long dead letters are kept; 0: not at all
  std::int64_t dead_limit = 0;                        // most dead letters kept, the oldest go first; 0: no limit
  milliseconds reconnect_grace{2000};  // for this long after a connect, messages of other consumers are not taken over
                                       // when their lease ends: those consumers may be reconnecting, too. Keep it above
                                       // 1 s, the longest reconnect pause. Does not delay the end of a backoff
  Durability durability{};  // of verdicts. A verdict that is not confirmed in time is logged and counted, not
                            // repeated: at worst the message is delivered again
  int prefetch = 1000;      // most messages held in addition to the running ones. Only as many are taken as
                            // will start within milliseconds, so a consumer with slow handlers holds none
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
