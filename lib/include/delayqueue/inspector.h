// Reads, manages and repairs one queue: for operators, tools and metrics. Works on queues with workers of the Go
// library, too. Calls go in bounded steps: at any length of the queue none occupies Redis for more than 2 ms, but for
// large payloads.
#pragma once

#include <delayqueue/error.h>
#include <delayqueue/export.h>
#include <delayqueue/options.h>
#include <delayqueue/owned.h>
#include <delayqueue/producer.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace delayqueue {

// Totals since the queue's first message. Sends and deliveries of Go workers are not counted.
struct Totals {
  std::uint64_t sent = 0, delivered = 0, acked = 0, nacked = 0, retried = 0, dead = 0, expired = 0, cancelled = 0,
                redriven = 0, purged = 0;
  std::uint64_t foreign = 0;  // ids that were no UUIDs (another program wrote them), removed, not delivered
};

// How many messages are in each state, read at one moment. ready and retry are upper bounds: ids of cancelled or
// rescheduled messages stay in those lists until a consumer removes them.
struct Counts {
  std::uint64_t pending = 0, ready = 0, unack = 0, retry = 0, dead = 0, garbage = 0;
  std::uint64_t due = 0;                                                // of pending: due, not yet moved to ready
  std::uint64_t overdue = 0;                                            // of unack: lease or backoff has ended
  std::optional<std::chrono::system_clock::time_point> oldest_due{};    // the earliest due time in pending
  std::optional<std::chrono::system_clock::time_point> oldest_lease{};  // the earliest end of a lease or backoff
  std::chrono::system_clock::time_point now;                            // Redis' clock
  bool paused = false;
  Totals totals;
};

struct MessageInfo {
  std::string id{};
  State state = State::unknown;
  // pending: when it is due. unack: when its lease or backoff ends. dead: when it became a dead letter. ready, retry:
  // unset.
  std::optional<std::chrono::system_clock::time_point> at{};
  std::optional<std::chrono::system_clock::time_point> sent{};  // from the id, if it is a UUIDv7
  bool held = false;                    // unack only: in flight; false: it waits for the end of a backoff
  int deliveries = 0;                   // so far; in ready and retry 0 may also mean 1
  std::optional<int> retries{};         // left; unset: none recorded (cancelled while held, or dead)
  std::string reason{};                 // why the last delivery failed
  std::optional<std::uint64_t> size{};  // bytes of the payload; unset: it is missing (expired, evicted, deleted)
  std::string payload{};                // its first ListOptions::payload bytes; all of them from find()
  std::optional<milliseconds> ttl{};    // until the payload expires; unset: never
};

struct ListOptions {
  std::size_t limit = 20;    // at most 1,000 at a time
  std::string cursor{};      // MessagePage::next of the page before; empty: from the start
  std::size_t payload = 64;  // most bytes to read of each payload
};

// A page of messages, the next first: pending and unack by time, ready and retry in the order of delivery, dead by the
// time they became dead letters.
struct DELAYQUEUE_EXPORT MessagePage {
  std::vector<MessageInfo> messages{};
  std::string next{};  // empty: this was the last page

  // The cursor of the next page after `freed` messages of this page have left the state: use it in place of `next`
  // between calls that redrive, cancel or purge messages of this page (of purge(): Removed::places).
  std::string next_after(std::uint64_t freed) const;

  auto begin() const { return messages.begin(); }
  auto end() const { return messages.end(); }
  auto size() const { return messages.size(); }
  bool empty() const { return messages.empty(); }
};

enum class Redriven {
  redriven,  // it is ready again, as a new message, with new retries
  no_body,   // its payload is gone, so it cannot be delivered; it was removed
  unknown,   // no dead letter
};

enum class Released {
  released,  // it is ready, and the next to be delivered
  held,      // a consumer holds it; only `force` releases it
  unknown,   // ready or in retry already, a dead letter (redrive it), or no such message
};

enum class Killed {
  killed,   // it is a dead letter now, with the reason
  already,  // it was a dead letter before; its reason is unchanged
  held,     // a consumer holds it; only `force` kills it
  unknown,  // no such message, or it was cancelled while it was held
};

enum class Extended {
  extended,
  held,     // a consumer of this library holds it, and renews its lease while it lives
  unknown,  // not in unack, or cancelled while it was held
};

struct Removed {
  std::uint64_t messages = 0;
  std::uint64_t places = 0;     // places freed in the state: see MessagePage::next_after
  std::vector<bool> removed{};  // whether this call deleted it: for each id, in their order
};

// What keeps a queue from being forgotten. ready and retry are upper bounds.
struct Remains {
  std::uint64_t pending = 0, ready = 0, unack = 0, retry = 0, dead = 0;
  std::uint64_t retries = 0;  // recorded for messages that are in no state: see check()
  bool wrong_type = false;    // a key of the queue holds something else: see check()
  bool served = false;        // a consumer of this library waits for messages

  bool none() const { return pending + ready + unack + retry + dead + retries == 0 && !wrong_type && !served; }
};

struct Pause {
  std::string why{};
  std::optional<std::chrono::system_clock::time_point> until{};  // by Redis' clock; unset: until resume()
};

// Version, state and settings of a server. Empty or unset where the server does not answer (INFO or CONFIG GET is
// forbidden or hidden).
struct ServerReport {
  std::string where{};    // address
  std::string product{};  // "Redis", "Valkey"
  std::string version{};
  std::string role{};  // "master", "slave"
  std::string mode{};  // "standalone", "sentinel", "cluster"
  std::optional<std::chrono::seconds> uptime{};
  std::optional<std::uint64_t> clients{};
  std::optional<std::uint64_t> memory{};        // bytes used
  std::optional<std::uint64_t> memory_limit{};  // maxmemory; 0: none
  std::string eviction{};                       // maxmemory-policy
  std::string append_only{};                    // "yes", "no"
  std::string fsync{};                          // appendfsync
  std::string snapshots{};                      // save
  std::chrono::microseconds round_trip{0};      // the fastest of several
  std::chrono::microseconds clock_ahead{0};     // Redis' clock minus this machine's; exact to half a round trip
};

// Which of this library's scripts one server has.
struct ServerScripts {
  std::string where{};                 // its address
  std::vector<std::string> loaded{};   // names, without .lua
  std::vector<std::string> missing{};  // the others
  std::string error{};                 // why the scripts could not be listed or loaded; else empty
};

enum class RiskKind {
  eviction,     // Redis deletes keys when memory is short
  memory,       // maxmemory is reached, or nearly: sends are refused
  persistence,  // a crash or restart loses messages
  disk,         // Redis could not write its append-only file or snapshot
  replica,      // the server is no master
  clock,        // Redis' clock and this machine's are more than 5 s apart
  unknown,      // not all risks can be seen: INFO or CONFIG GET is forbidden or hidden
};

// A setting or state of the server that can lose messages of a queue, or delay them.
struct Risk {
  RiskKind kind{};
  std::string text{};     // the setting and its value; what can happen; what to do
  bool critical = false;  // it does harm now: memory from 99% of maxmemory on, a replica, an append-only file that
                          // cannot be written
};

// One of the servers that hold the queues.
struct MasterReport {
  ServerReport server{};  // only `where`, if there is an error
  std::vector<Risk> risks{};
  std::string error{};  // why the server could not be examined; else empty
};

struct PurgeOptions {
  // Only messages that have been due (pending) or dead (dead) for at least this long; 0 ms leaves out what is not due yet.
  // Unset: all. Messages in ready and retry have no such time: it must be unset.
  std::optional<milliseconds> older_than{};
  std::uint64_t limit = 0;  // most messages to remove; 0: all that were there when the call began
};

struct RedriveOptions {
  int retries = 3;  // deliveries after the first, from now on
};

struct KillOptions {
  std::string reason{};  // at most its first 1,024 bytes are kept; empty: the reason of the last delivery stays
  bool force = false;    // also messages that a consumer holds
};

// What a check finds. The last three (expired, garbage, notes) are no damage: consumers remove them, a repair does it
// now.
enum class Problem {
  stranded,     // payload and retries, but in no state: it would never be delivered
  body_alone,   // a payload without state and retries (or one a Go worker's TryIntercept left behind)
  no_retries,   // pending without retries recorded: it would be dropped when it is due
  no_body,      // pending, and its payload is gone before any TTL can have ended
  two_places,   // in two of pending, unack and dead
  no_holder,    // in unack until later than any lease or backoff can end: no consumer holds it
  count_alone,  // retries recorded for a message that does not exist, or is a dead letter
  bad_time,     // the due time, or the time it became a dead letter, is not from 1970 to 2199
  stranger,     // an id that is no UUID: another program wrote it
  totals,       // a statistic that is no count, or a field that is no statistic; no call fails because of it
  wrong_type,   // a key of the queue has another type: another program uses it
  expired,      // its payload is gone, as after the end of its TTL: it cannot be delivered
  garbage,      // finished, not deleted yet
  notes,        // number of deliveries, or reason, of a message that does not exist
};
DELAYQUEUE_EXPORT const char* to_string(Problem problem);

struct Finding {
  Problem problem;
  std::string id{};      // of wrong_type: the key
  std::string what{};    // what is wrong, in words
  std::string repair{};  // what a repair does, or what an operator should do
  bool repaired = false;
};

struct DELAYQUEUE_EXPORT CheckReport {
  std::uint64_t looked = 0;  // ids examined; most are examined several times
  std::uint64_t repaired = 0;
  std::map<Problem, std::uint64_t> counts{};  // of all findings
  std::vector<Finding> findings{};            // a sample of each problem

  bool clean() const;  // nothing was found but expired, garbage and notes, which consumers remove
};

struct CheckOptions {
  bool repair = false;
  // The wait before a suspected problem is examined a second time; it is reported if it is still there. A Go worker
  // sends in three steps, and may have been in the middle of them.
  milliseconds settle{2000};
  std::size_t sample = 20;  // findings of each problem to describe
  int retries = 3;          // what a repair gives messages that have none recorded
  // Called now and then with the steps done and an estimate of their total. An exception from it ends the check.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress{};
};

// Any number of threads may use one Inspector; calls share one connection. URL, errors and fork() as for Producer.
class DELAYQUEUE_EXPORT Inspector {
 public:
  Inspector(const std::string& url, const std::string& queue, const InspectorOptions& options = {});
  ~Inspector();
  Inspector(Inspector&&) noexcept;
  Inspector& operator=(Inspector&&) noexcept;

  Counts counts();

  // One page of the messages in a state. While others change the queue, a walk over the pages may miss or repeat some.
  MessagePage list(State state, const ListOptions& options = {});

  // All that is stored of one message; unset: no such message. Reads no list: that a message is in ready or retry
  // follows from its other keys.
  std::optional<MessageInfo> find(std::string_view id);
  // The same for many, with at most `payload` bytes of each payload.
  std::vector<std::optional<MessageInfo>> find(const std::vector<std::string>& ids, std::size_t payload = 64);

  // The pause of the queue: why and until when; unset: the queue is not paused.
  std::optional<Pause> paused();

  // The calls below take any number of ids, go in steps (each all or nothing, and well under 2 ms), and return their
  // results in the order of the ids. An error in the middle leaves the steps before it done; all may be repeated.

  // As Producer::cancel and Producer::reschedule.
  std::vector<State> cancel(const std::vector<std::string>& ids);
  std::vector<Moved> reschedule(const std::vector<std::string>& ids, const RescheduleOptions& when);

  // Makes a dead letter a new message that is ready at once; deliveries and reason are forgotten.
  Redriven redrive(std::string_view id, const RedriveOptions& options = {});
  std::vector<Redriven> redrive(const std::vector<std::string>& ids, const RedriveOptions& options = {});

  // Makes messages dead letters, with the reason. A message that a consumer holds is killed only with force: the
  // handler runs on, and its `lost()` becomes true. If it succeeds nevertheless, its late ack settles the message,
  // which is then no dead letter any more: the work was done. Its nack is stale.
  std::vector<Killed> kill(const std::vector<std::string>& ids, const KillOptions& options = {});

  // Moves the end of a backoff, or of a lease of a Go worker, later by `by`; from now if the end has passed. A TTL is
  // moved by as much.
  //
  // A lease of this library's consumers is moved only with force, and a living consumer loses it: it renews its leases
  // itself, and recognizes them by their end. `lost()` becomes true, its verdict is stale, and the message is delivered
  // again after the new end. Use force to hold back messages that a dead or broken process has left, for example until
  // somebody has examined them.
  std::vector<Extended> extend(const std::vector<std::string>& ids, milliseconds by, bool force = false);

  // Deletes messages of a state (pending, ready, retry or dead), in bounded steps; returns how many.
  std::uint64_t purge(State state, const PurgeOptions& options = {});

  // Deletes those of these messages that still are in that state (pending, ready, retry or dead). If several callers
  // name the same message at once, one of them deletes it. In ready and retry also removes ids at the front of the list
  // that are no messages any more.
  Removed purge(State state, const std::vector<std::string>& ids);

  // Stores messages again as find() and list() returned them, with whole payloads, in this queue or another. A dead
  // letter is a dead letter again, with its reason and time. A message that was pending, or in a backoff, is pending
  // until its time; all others are ready. Retries, deliveries, reason and TTL are kept; a TTL runs from now. A message
  // that exists is left as it is (`created` is false), so a call may be repeated, also after one that broke midway.
  // Throws std::invalid_argument for a message without payload, or one that is no dead letter and has no retries.
  std::vector<Sent> restore(const std::vector<MessageInfo>& messages);

  // Makes messages ready that are pending or in a backoff, ahead of all other ready ones. With force also messages that
  // a consumer holds; if it lives, the message is then handled twice.
  Released release(std::string_view id, bool force = false);
  std::vector<Released> release(const std::vector<std::string>& ids, bool force = false);

  // While the queue is paused, consumers of this library take no messages; running handlers go on. Go workers ignore
  // it. Ends after `for_`; 0: only with resume(). Replaces an earlier pause.
  void pause(milliseconds for_ = milliseconds{0}, const std::string& why = {});
  void resume();

  // Forgets an empty queue: deletes its statistics, its pause and its notes, and removes its name from queues(). A
  // queue with a message in any state, or with a consumer that waits for messages, is left as it is; the result says
  // why. Finished messages that are not deleted yet are deleted first. A send at the same moment, or later, enters the
  // queue again, also by a Producer that existed before. Consumers of the Go library, and consumers that only poll
  // because their user may not block, are not noticed: they find a queue without messages.
  Remains forget();

  // A lock between operators, for calls that belong together, such as to read messages, write them elsewhere and delete
  // them. It protects no message and delays no other call: it excludes only callers of lock(). It ends after `for_` if
  // its holder dies. False: another holds it.
  bool lock(const std::string& holder, milliseconds for_);
  void unlock(const std::string& holder);  // if that one still holds it

  // Integrity check: examines all keys of the queue for inconsistencies, and repairs them if asked. Producers and
  // consumers, also of Go, may go on meanwhile. A million messages take about a minute, in steps of at most 2 ms, with
  // other calls between them. Scans all keys of the server's database, to find payloads. Keeps 17 bytes in memory for
  // each message in ready and retry.
  //
  // A repair deletes no payload: one without a state becomes a ready message. So a message may be delivered once too
  // often, or one that a Go worker has intercepted may be delivered. May be repeated after an error.
  CheckReport check(const CheckOptions& options = {});

  // Waits up to `wait` for the next event on the Go library's event channel; unset: none came. Receives only events of
  // processes that publish them (report_events; EnableReport in Go), from the first call of next_event on. Events that
  // are published while the connection is broken are lost. Uses a second connection; throws what connecting throws.
  std::optional<Event> next_event(milliseconds wait);

  // Settings and states of the server that can lose messages of this queue, or delay them; in a Cluster of the node
  // that holds the queue (see masters()). Empty: none was found. Where CONFIG GET is forbidden or hidden, only what INFO
  // contains is examined. Consumers and Producers with a logger warn of the same: once a process for each server,
  // consumers again when a risk comes back, and of the clock only when it jumps.
  std::vector<Risk> risks();

  // Version, role, memory and settings of the server; measures round trip and clock.
  ServerReport server();

  // server() and risks() of every master of a Cluster that has slots; elsewhere of the one server. A node of a Cluster
  // that cannot be reached has an `error`; throws when no node answers, or the one server does not.
  std::vector<MasterReport> masters();

  // Loads all scripts (SCRIPT LOAD) into every server that may serve the queue: with Sentinels also into the replicas,
  // in a Cluster into every node, so that users without the right to EVAL can use the queue, also after a failover. A
  // server forgets its scripts when it restarts. Needs `+script|load` and no right to any key; in a Cluster also
  // `+cluster|nodes`. A refusal of one server is in its `error`; throws when the servers cannot be determined.
  std::vector<ServerScripts> load_scripts();

  // Which scripts these servers have and lack. Needs `+script|exists`.
  std::vector<ServerScripts> scripts();

  // The names of all queues that were ever used on this server with this prefix, sorted. An Inspector's queue is not
  // registered by reading it.
  std::vector<std::string> queues();

 private:
  class DELAYQUEUE_HIDDEN Impl;
  internal::Owned<Impl> impl_;
};

}  // namespace delayqueue
