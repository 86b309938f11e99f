// Inspector: reads, changes and repairs one queue, for operators, tools and metrics. It also works on queues that
// workers of the Go library use. Calls are split into bounded steps: with a queue of any length no step occupies Redis
// for more than 2 ms, except for large payloads.
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

// Totals since the first message of the queue. Sends and deliveries of Go workers are not counted.
struct Totals {
  std::uint64_t sent = 0, delivered = 0, acked = 0, nacked = 0, retried = 0, dead = 0, expired = 0, cancelled = 0,
                redriven = 0, purged = 0;
  std::uint64_t foreign = 0;  // ids that are not UUIDs (another program wrote them); removed, not delivered
};

// The number of messages in each state, read at one moment. ready and retry are upper bounds: ids of cancelled or
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

// What is stored about one message.
struct MessageInfo {
  std::string id{};
  State state = State::unknown;
  // pending: when it is due. unack: when its lease or backoff ends. dead: when it became a dead letter. Otherwise
  // unset.
  std::optional<std::chrono::system_clock::time_point> at{};
  std::optional<std::chrono::system_clock::time_point> sent{};  // from the id, if it is a UUIDv7
  bool held = false;                                            // unack only. true: in flight; false: in a backoff
  int deliveries = 0;                                           // so far; in ready and retry 0 may also mean 1
  std::optional<int> retries{};         // left; unset: none recorded (cancelled while held, or a dead letter)
  std::string reason{};                 // why the last delivery failed
  std::optional<std::uint64_t> size{};  // bytes of the payload; unset: it is missing (expired, evicted, deleted)
  std::string payload{};                // its first ListOptions::payload bytes; all of them from find()
  std::optional<milliseconds> ttl{};    // time until the payload expires; unset: never
};

struct ListOptions {
  std::size_t limit = 20;    // at most 1,000 at a time
  std::string cursor{};      // MessagePage::next of the previous page; empty: from the start
  std::size_t payload = 64;  // most bytes to read of each payload
};

// A page of messages, in this order: pending and unack by their time, ready and retry in the order of delivery, dead by
// the time at which they became dead letters.
struct DELAYQUEUE_EXPORT MessagePage {
  std::vector<MessageInfo> messages{};
  std::string next{};  // empty: this was the last page

  // The cursor of the next page after `freed` messages of this page have left the state. Use it instead of `next` if
  // messages of this page were redriven, cancelled or purged (for purge(): freed = Removed::places).
  std::string next_after(std::uint64_t freed) const;

  auto begin() const { return messages.begin(); }
  auto end() const { return messages.end(); }
  auto size() const { return messages.size(); }
  bool empty() const { return messages.empty(); }
};

// The result of redrive() for one message.
enum class Redriven {
  redriven,  // it is ready again, like a new message, with new retries
  no_body,   // its payload is missing, so it cannot be delivered; it was removed
  unknown,   // not a dead letter
};

// The result of release() for one message.
enum class Released {
  released,  // it is ready, and is delivered next
  held,      // a consumer holds it; only `force` releases it
  unknown,   // in ready or retry already, a dead letter (redrive it), or no such message
};

// The result of kill() for one message.
enum class Killed {
  killed,   // it is a dead letter now, with the reason
  already,  // it was a dead letter before; its reason did not change
  held,     // a consumer holds it; only `force` makes it a dead letter
  unknown,  // no such message, or it was cancelled while it was held
};

// The result of extend() for one message.
enum class Extended {
  extended,
  held,     // a consumer of this library holds it, and renews its lease while it lives
  unknown,  // not in unack, or cancelled while it was held
};

// The result of a purge() of given ids.
struct Removed {
  std::uint64_t messages = 0;   // messages deleted
  std::uint64_t places = 0;     // places freed in the state: see MessagePage::next_after
  std::vector<bool> removed{};  // for each id, in their order: whether this call deleted the message
};

// The reasons why forget() left a queue as it is. ready and retry are upper bounds.
struct Remains {
  std::uint64_t pending = 0, ready = 0, unack = 0, retry = 0, dead = 0;
  std::uint64_t retries = 0;  // retries recorded for messages that are in no state: see check()
  bool wrong_type = false;    // a key of the queue has another type: see check()
  bool served = false;        // a consumer of this library waits for messages

  bool none() const { return pending + ready + unack + retry + dead + retries == 0 && !wrong_type && !served; }
};

// A pause of a queue.
struct Pause {
  std::string why{};                                             // the reason that was passed to pause()
  std::optional<std::chrono::system_clock::time_point> until{};  // by Redis' clock; unset: until resume()
};

// Version, state and settings of a server. A member is empty or unset if the server does not report it (INFO or CONFIG
// GET is forbidden or hidden).
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
  std::chrono::microseconds clock_ahead{0};     // Redis' clock minus this machine's; accurate to half a round trip
};

// Which scripts of this library one server has loaded.
struct ServerScripts {
  std::string where{};                 // address of the server
  std::vector<std::string> loaded{};   // names, without .lua
  std::vector<std::string> missing{};  // the others
  std::string error{};                 // why the scripts could not be listed or loaded; empty: no error
};

enum class RiskKind {
  eviction,     // Redis deletes keys when memory is short
  memory,       // maxmemory is reached (sends are refused), or nearly
  persistence,  // a crash or restart loses messages
  disk,         // Redis could not write its append-only file or snapshot
  replica,      // the server is not a master
  clock,        // Redis' clock and this machine's are more than 5 s apart
  unknown,      // some risks cannot be examined: INFO or CONFIG GET is forbidden or hidden
};

// A setting or state of the server that can lose messages of a queue, or delay them.
struct Risk {
  RiskKind kind{};
  std::string text{};     // the setting and its value; what can happen; what to do
  bool critical = false;  // it does harm now: at least 99% of maxmemory used, a replica, or an append-only file that
                          // cannot be written
};

// One of the servers that hold the queues.
struct MasterReport {
  ServerReport server{};  // only `where` is set if there is an error
  std::vector<Risk> risks{};
  std::string error{};  // why the server could not be examined; empty: no error
};

struct PurgeOptions {
  // Only messages that have been due (pending) or dead letters (dead) for at least this long; with 0 ms all that are
  // due. Unset: all messages. Must be unset for ready and retry, whose messages have no such time.
  std::optional<milliseconds> older_than{};
  std::uint64_t limit = 0;  // most messages to remove; 0: all that existed when the call began
};

struct RedriveOptions {
  int retries = 3;  // deliveries after the next one
};

struct KillOptions {
  std::string reason{};  // its first 1,024 bytes are stored; empty: the reason of the last delivery stays
  bool force = false;    // also messages that a consumer holds
};

// The kinds of problems that check() finds. The last three (expired, garbage, orphaned_metadata) are no damage: consumers remove
// them in time, and a repair removes them at once.
enum class Problem {
  stranded,           // has payload and retries, but is in no state: it would never be delivered
  orphaned_body,      // a payload without state and retries (or one that TryIntercept of a Go worker left)
  no_retries,         // pending, but no retries are recorded: it would be removed when it is due
  no_body,            // pending, but its payload is missing before any TTL can have ended
  two_states,         // in two of the states pending, unack and dead
  no_holder,          // in unack with an end that no lease or backoff can have: no consumer holds it
  orphaned_retries,   // retries are recorded for a message that does not exist, or for a dead letter
  invalid_time,       // the due time, or the time it became a dead letter, is not from 1970 to 2199
  foreign,            // an id that is not a UUID: another program wrote it
  invalid_total,      // a statistic with an invalid value or an unknown name; no call fails because of it
  wrong_type,         // a key of the queue has another type: another program uses it
  expired,            // the payload is missing, as after the end of a TTL: the message cannot be delivered
  garbage,            // a finished message that is not deleted yet
  orphaned_metadata,  // number of deliveries, or reason, of a message that does not exist
};
DELAYQUEUE_EXPORT const char* to_string(Problem problem);

// One problem of one message or key.
struct Finding {
  Problem problem;
  std::string id{};      // the message; for wrong_type the key
  std::string what{};    // what is wrong, in words
  std::string repair{};  // what a repair does, or what an operator should do
  bool repaired = false;
};

// The result of check().
struct DELAYQUEUE_EXPORT CheckReport {
  std::uint64_t looked = 0;  // ids examined; most are examined several times
  std::uint64_t repaired = 0;
  std::map<Problem, std::uint64_t> counts{};  // number of findings of each problem
  std::vector<Finding> findings{};            // a sample of each problem

  bool clean() const;  // whether nothing was found except expired, garbage and orphaned_metadata
};

struct CheckOptions {
  bool repair = false;
  // The wait before a possible problem is examined a second time; it is reported only if it still exists then. A Go
  // worker sends in three steps, and may have been between two of them.
  milliseconds settle{2000};
  std::size_t sample = 20;  // findings of each problem to describe
  int retries = 3;          // what a repair records for messages that have none
  // Called at intervals with the number of steps done and an estimate of their total. An exception ends the check.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress{};
};

// Any number of threads may use one Inspector; their calls share one connection. URL, errors and fork() as for
// Producer.
class DELAYQUEUE_EXPORT Inspector {
 public:
  Inspector(const std::string& url, const std::string& queue, const InspectorOptions& options = {});
  ~Inspector();
  Inspector(Inspector&&) noexcept;
  Inspector& operator=(Inspector&&) noexcept;

  Counts counts();

  // One page of the messages in a state. If the queue changes between two pages, messages may be missed or repeated.
  MessagePage list(State state, const ListOptions& options = {});

  // All that is stored about one message; unset: no such message. Does not read the lists: it derives from the other
  // keys of a message that the message is in ready or retry.
  std::optional<MessageInfo> find(std::string_view id);
  // The same for many, with at most `payload` bytes of each payload.
  std::vector<std::optional<MessageInfo>> find(const std::vector<std::string>& ids, std::size_t payload = 64);

  // The pause of the queue: why and until when; unset: the queue is not paused.
  std::optional<Pause> paused();

  // The calls below take any number of ids and return their results in the order of the ids. They work in atomic steps,
  // each well under 2 ms. An error leaves the previous steps done. All these calls may be repeated; only extend(), and
  // purge() with a limit, then act again.

  // Like Producer::cancel and Producer::reschedule.
  std::vector<State> cancel(const std::vector<std::string>& ids);
  std::vector<Moved> reschedule(const std::vector<std::string>& ids, const RescheduleOptions& when);

  // Makes a dead letter ready at once, like a new message: its number of deliveries and its reason are deleted.
  Redriven redrive(std::string_view id, const RedriveOptions& options = {});
  std::vector<Redriven> redrive(const std::vector<std::string>& ids, const RedriveOptions& options = {});

  // Makes messages dead letters, with the reason. A message that a consumer holds becomes one only with force: its
  // handler continues, and Message::lease_lost() becomes true. If the handler returns ack nevertheless, the work was done:
  // the ack settles the message, which is then no longer a dead letter. A nack of the handler is stale.
  std::vector<Killed> kill(const std::vector<std::string>& ids, const KillOptions& options = {});

  // Extends a backoff, or a lease of a Go worker, by `by` (counted from now if its end has passed). The end of a TTL
  // moves by as much.
  //
  // A lease of a consumer of this library is extended only with force. A living consumer then loses the lease, because
  // it identifies a lease by its end time: Message::lease_lost() becomes true, the verdict is stale, and the message is
  // delivered again after the new end. Use force to delay the messages of a dead or broken process, for example until
  // an operator has examined them.
  std::vector<Extended> extend(const std::vector<std::string>& ids, milliseconds by, bool force = false);

  // Deletes messages of a state (pending, ready, retry or dead), in bounded steps. Returns the number of deleted
  // messages.
  std::uint64_t purge(State state, const PurgeOptions& options = {});

  // Deletes those of the given messages that are still in the state (pending, ready, retry or dead). If several callers
  // pass the same message at the same time, one of them deletes it. In ready and retry also removes ids from the front
  // of the list that are no messages any more.
  Removed purge(State state, const std::vector<std::string>& ids);

  // Stores messages that find() or list() returned with whole payloads, in this queue or another one. A dead letter is
  // a dead letter again, with its reason and time. A message that was pending or in a backoff is pending until its
  // time. All others are ready. Retries, number of deliveries, reason and TTL stay the same; the TTL starts now. A
  // message that exists is not changed (`created` is false), so a call may be repeated, also after an error in the
  // middle. Throws std::invalid_argument for a message without payload, and for one without retries that is not a dead
  // letter.
  std::vector<Sent> restore(const std::vector<MessageInfo>& messages);

  // Makes messages ready that are pending or in a backoff, before all other ready messages. With force also messages
  // that a consumer holds; if that consumer is alive, such a message is handled twice.
  Released release(std::string_view id, bool force = false);
  std::vector<Released> release(const std::vector<std::string>& ids, bool force = false);

  // Pauses the queue: consumers of this library take no messages until the pause ends; running handlers continue. Go
  // workers ignore a pause. It ends after `for_`; 0: only with resume(). It replaces an earlier pause.
  void pause(milliseconds for_ = milliseconds{0}, const std::string& why = {});
  void resume();

  // Deletes all traces of an empty queue: its statistics, its pause, orphaned metadata of messages, and its name in
  // queues(). First deletes finished messages that are not deleted yet. A queue with a message in any state, or with a
  // consumer that waits for messages, is not changed; the result contains the reasons.
  //
  // A send at the same time or later registers the queue again, also one by an existing Producer. The call does not
  // notice consumers of the Go library, and consumers that only poll because their user may not block: they see a queue
  // without messages.
  Remains forget();

  // An advisory lock between operators, for calls that belong together, such as reading messages, writing them
  // elsewhere and deleting them. It excludes only other callers of lock(), and no other call. It ends after `for_`,
  // also if its holder has died. Returns false if another holder has the lock.
  bool lock(const std::string& holder, milliseconds for_);
  void unlock(const std::string& holder);  // does nothing if another holder has the lock, or none

  // Integrity check: examines all keys of the queue for inconsistencies, and repairs them if CheckOptions::repair is
  // set. Producers and consumers, also those of the Go library, may continue meanwhile. A million messages take about a
  // minute, in steps of at most 2 ms, with other calls between them. Scans all keys of the server's database, to find
  // payloads. Uses 17 bytes of memory for each message in ready and retry. May be repeated after an error.
  //
  // A repair deletes no payload: a payload without a state becomes a ready message. So it may deliver a message once
  // too often, or deliver a message that a Go worker has intercepted.
  CheckReport check(const CheckOptions& options = {});

  // Waits up to `wait` for the next event on the Go library's event channel; unset: there was none. Receives only
  // events of processes that publish them (report_events; EnableReport in Go), from the first call of next_event on.
  // Events that are published while the connection is broken are lost. Uses a second connection; throws the errors of
  // connecting.
  std::optional<Event> next_event(milliseconds wait);

  // Settings and states of the server that can lose messages of this queue, or delay them; in a Cluster those of the
  // node that holds the queue (see masters()). Empty: none was found. If CONFIG GET is forbidden or hidden, only the
  // fields of INFO are examined. Consumers and Producers with a logger log the same risks once per process for each
  // server. Consumers log a risk again when it comes back, and warn of the clock only when it jumps.
  std::vector<Risk> risks();

  // Version, role, memory and settings of the server; measures round trip and clock.
  ServerReport server();

  // server() and risks() of every master with slots in a Cluster; without a Cluster, of the one server. For a node of a
  // Cluster that cannot be reached `error` is set. Throws if no node can be reached; without a Cluster, if the server
  // cannot be reached.
  std::vector<MasterReport> masters();

  // Loads all scripts (SCRIPT LOAD) into every server that may serve the queue: with Sentinels also into the replicas,
  // in a Cluster into every node. Users without the permission to use EVAL can then use the queue, also after a
  // failover. A server loses its scripts when it restarts. Needs `+script|load`, in a Cluster also `+cluster|nodes`,
  // and no permission for any key. If one server refuses, its `error` is set. Throws if the servers cannot be
  // determined.
  std::vector<ServerScripts> load_scripts();

  // Which scripts each of these servers has loaded, and which are missing. Needs `+script|exists`.
  std::vector<ServerScripts> scripts();

  // The names of all queues with this prefix that were ever used on this server, sorted. An Inspector does not register
  // a queue that does not exist.
  std::vector<std::string> queues();

 private:
  class DELAYQUEUE_HIDDEN Impl;
  internal::Owned<Impl> impl_;
};

}  // namespace delayqueue
