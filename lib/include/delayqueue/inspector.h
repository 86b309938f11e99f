// Looks into one queue, and mends it: for people on call, tools and metrics. Sees what workers of the Go library do,
// too. Every call is bounded: none holds Redis for more than 2 ms, whatever the queue's length.
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

// Totals since the queue came into being. Sends and deliveries of Go workers are not in them.
struct Totals {
  std::uint64_t sent = 0, delivered = 0, acked = 0, nacked = 0, retried = 0, dead = 0, expired = 0, cancelled = 0,
                redriven = 0, purged = 0;
  std::uint64_t foreign = 0;  // ids that were no UUIDs, removed before a handler saw them
};

// One moment of a queue. ready and retry are upper bounds: ids of cancelled or moved messages stay in those lists
// until a consumer passes over them.
struct Counts {
  std::uint64_t pending = 0, ready = 0, unack = 0, retry = 0, dead = 0, garbage = 0;
  std::uint64_t due = 0;                                                // of pending: due, not yet moved to ready
  std::uint64_t overdue = 0;                                            // of unack: lease ended, not yet taken back
  std::optional<std::chrono::system_clock::time_point> oldest_due{};    // of the message at the head of pending
  std::optional<std::chrono::system_clock::time_point> oldest_lease{};  // the earliest lease end in unack
  std::chrono::system_clock::time_point now;                            // Redis' clock
  bool paused = false;
  Totals totals;
};

struct MessageInfo {
  std::string id{};
  State state = State::unknown;
  // pending: when it is due. unack: when its lease or backoff ends. dead: when it was given up. Unset for the lists.
  std::optional<std::chrono::system_clock::time_point> at{};
  std::optional<std::chrono::system_clock::time_point> sent{};  // from the id, if it is a UUIDv7
  bool held = false;                    // unack only: in a consumer's hand (false: waiting out a backoff)
  int deliveries = 0;                   // so far; 0 or 1 cannot be told apart in the lists
  std::optional<int> retries{};         // left; unset: none recorded (cancelled while held, or dead)
  std::string reason{};                 // why the last delivery failed
  std::optional<std::uint64_t> size{};  // bytes of the payload; unset: the body is missing
  std::string payload{};                // its first ListOptions::payload bytes; all of them from find()
  std::optional<milliseconds> ttl{};    // until the body expires; unset: never
};

struct ListOptions {
  std::size_t limit = 20;    // at most 1,000 at a time
  std::string cursor{};      // MessagePage::next of the page before; empty: from the start
  std::size_t payload = 64;  // bytes of each payload to bring; more than there are: all
};

// A page, oldest first: of pending and unack by time, of the lists what is next in turn, of dead by when given up.
struct DELAYQUEUE_EXPORT MessagePage {
  std::vector<MessageInfo> messages{};
  std::string next{};  // empty: this was the last page

  // The cursor of the next page when so many places before it have been freed: by moving messages of this page out of
  // the state, or by purge() of some of them (Removed::places).
  std::string next_after(std::uint64_t freed) const;

  auto begin() const { return messages.begin(); }
  auto end() const { return messages.end(); }
  auto size() const { return messages.size(); }
  bool empty() const { return messages.empty(); }
};

enum class Redriven {
  redriven,  // it is ready again, as new, with its retries back
  no_body,   // its body is gone: it cannot come back; removed
  unknown,   // not among the dead
};

enum class Released {
  released,  // first in line now
  held,      // a consumer has it; only `force` frees it
  unknown,   // neither waiting nor held: in a list already, dead (redrive it), or not there
};

enum class Killed {
  killed,   // it is dead now, with the reason
  already,  // it was dead before; its reason is as it was
  held,     // a consumer has it; only `force` takes it away
  unknown,  // no such message, or it was cancelled while it was held
};

enum class Extended {
  extended,
  held,     // by a consumer of this library, which renews its lease itself while it lives
  unknown,  // not in unack, or cancelled while it was held
};

struct Removed {
  std::uint64_t messages = 0;
  std::uint64_t places = 0;  // free now in the state: see MessagePage::next_after
};

struct Pause {
  std::string why{};
  std::optional<std::chrono::system_clock::time_point> until{};  // by Redis' clock; unset: until resume()
};

// What a server tells of itself. What it does not tell (INFO or CONFIG GET is forbidden or hidden) is empty or unset.
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
  std::chrono::microseconds round_trip{0};      // the fastest of some
  std::chrono::microseconds clock_ahead{0};     // Redis' clock before this machine's; exact to half the round trip
};

// How many of this library's scripts one server has.
struct ServerScripts {
  std::string where{};                 // its address
  std::vector<std::string> loaded{};   // names, without .lua
  std::vector<std::string> missing{};  // the others
  std::string error{};                 // why it could not be looked at, or be given them; else empty
};

enum class RiskKind {
  eviction,     // Redis deletes keys when memory is short
  persistence,  // a crash or restart loses messages
  disk,         // what should be on disk could not be written
  replica,      // this is no master
  clock,        // Redis' clock and this machine's are more than 5 s apart
  unknown,      // the server does not tell: INFO or CONFIG GET is forbidden or hidden
};

// Something about the server that can lose a queue, or delay it, behind our back.
struct Risk {
  RiskKind kind{};
  std::string text{};  // what was seen, with its value; what can happen; what to do
};

struct PurgeOptions {
  milliseconds older_than{0};  // pending: due that long ago; dead: given up that long ago. Must be 0 for the lists
  std::uint64_t limit = 0;     // most messages to remove; 0: all that were there when the call began
};

struct RedriveOptions {
  int retries = 3;
};

struct KillOptions {
  std::string reason{};  // at most its first 1,024 bytes are kept; empty: what is noted of the last delivery stays
  bool force = false;    // take it from a consumer that holds it, too
};

// What a check finds. The last three are no damage: consumers remove such things by themselves, a repair does it now.
enum class Problem {
  stranded,     // body and retries, but in no place: it would never be delivered
  body_alone,   // a body without place and retries (or one a Go worker's TryIntercept left behind)
  no_retries,   // pending without retries recorded: it would be dropped when it is due
  no_body,      // pending, and its body is gone before any TTL can have ended
  two_places,   // in two of pending, unack and dead
  no_holder,    // in unack, for longer than any lease or backoff can be
  count_alone,  // retries recorded of a message that is not there, or dead
  bad_time,     // the due time, or the time a message was given up, is none from 1970 to 2199
  stranger,     // an id that is no UUID
  totals,       // a statistic that is no count, or a field that is no statistic; no move fails by it
  wrong_type,   // a key of the queue is something else's
  expired,      // its body is gone, as after the end of its TTL: it cannot be delivered
  garbage,      // finished, not deleted yet
  notes,        // deliveries or reason of a message that is not there
};
DELAYQUEUE_EXPORT const char* to_string(Problem problem);

struct Finding {
  Problem problem;
  std::string id{};      // of wrong_type: the key
  std::string what{};    // what is wrong, in words
  std::string repair{};  // what a repair does, or a person should
  bool repaired = false;
};

struct DELAYQUEUE_EXPORT CheckReport {
  std::uint64_t looked = 0;  // judgements made; most ids are met several times
  std::uint64_t repaired = 0;
  std::map<Problem, std::uint64_t> counts{};  // of all that was found
  std::vector<Finding> findings{};            // a sample of each

  bool clean() const;  // nothing was found but what consumers remove by themselves: expired, garbage, notes
};

struct CheckOptions {
  bool repair = false;
  // What looks wrong is looked at again after so long, and counts if it is the same then: a Go worker may be half-way
  // through a send.
  milliseconds settle{2000};
  std::size_t sample = 20;  // findings of each problem to describe
  int retries = 3;          // for messages that have none recorded
  // Called now and then, of so many steps; the total is a guess. What it throws ends the check.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress{};
};

// Any number of threads may use one Inspector; calls share one connection. Errors as for Producer.
class DELAYQUEUE_EXPORT Inspector {
 public:
  Inspector(const std::string& url, const std::string& queue, const InspectorOptions& options = {});
  ~Inspector();
  Inspector(Inspector&&) noexcept;
  Inspector& operator=(Inspector&&) noexcept;

  Counts counts();

  // One page of the messages in a state. While others work on the queue a walk over the pages may miss or repeat some.
  MessagePage list(State state, const ListOptions& options = {});

  // All there is to know of one message. Finding an id that lies in a list reads no list: it is told from the rest.
  std::optional<MessageInfo> find(std::string_view id);
  // Of many, with so many bytes of each payload.
  std::vector<std::optional<MessageInfo>> find(const std::vector<std::string>& ids, std::size_t payload = 64);

  // Whether consumers take nothing, why, and until when.
  std::optional<Pause> paused();

  // The calls below that take ids take any number of them, go in steps (each all or nothing, and well under 2 ms), and
  // answer in the order of the ids. An error in the middle leaves the steps before it done; all may be repeated.

  // As Producer::cancel and Producer::reschedule.
  std::vector<State> cancel(const std::vector<std::string>& ids);
  std::vector<Moved> reschedule(const std::vector<std::string>& ids, const RescheduleOptions& when);

  // A dead message lives again, ready at once.
  Redriven redrive(std::string_view id, const RedriveOptions& options = {});
  std::vector<Redriven> redrive(const std::vector<std::string>& ids, const RedriveOptions& options = {});

  // Gives messages up by hand: they are dead, with the reason, and kept as such. What a consumer holds only by force.
  // Then its handler runs on, and its `lost()` becomes true. If it succeeds nevertheless, its late ack settles the
  // message, which then leaves the dead: the work was done. Its nack is stale.
  std::vector<Killed> kill(const std::vector<std::string>& ids, const KillOptions& options = {});

  // Of messages that wait out a backoff: wait so much longer. Of those that a Go worker holds: its lease ends so much
  // later. Counted from now where the end is past. A TTL moves with it.
  //
  // A lease of this library's consumers is moved by force only, for it does no good to a handler that lives: its
  // process renews the lease by itself, and knows it by its end. Once that is moved the lease is lost to it: `lost()`
  // becomes true, its verdict is stale, and the message is delivered again after the new end. Force keeps away what a
  // dead or broken process left behind, until somebody has looked.
  std::vector<Extended> extend(const std::vector<std::string>& ids, milliseconds by, bool force = false);

  // Removes messages of a state (pending, ready, retry or dead) for good, in bounded steps; says how many.
  std::uint64_t purge(State state, const PurgeOptions& options = {});

  // Removes those of these messages for good that still are in that state (pending, ready, retry or dead).
  Removed purge(State state, const std::vector<std::string>& ids);

  // Brings messages back as find() and list() described them, with whole payloads: into this queue or another. What was
  // dead is dead again, with its reason and the time it was given up. What was pending, or waited out a backoff, is
  // pending until its time; all else is ready. Retries, deliveries, reason and TTL are kept; a TTL runs from now. What
  // exists is left alone (created is false), so a call may be repeated, also after one that broke midway. Throws
  // std::invalid_argument for a message without body, or alive without retries.
  std::vector<Sent> restore(const std::vector<MessageInfo>& messages);

  // Deliver now: what is pending, or waits out a backoff, goes first in line. With force also what a consumer holds
  // (if it lives, the message is then handled twice).
  Released release(std::string_view id, bool force = false);
  std::vector<Released> release(const std::vector<std::string>& ids, bool force = false);

  // While paused, consumers of this library take nothing. 0: until resume().
  void pause(milliseconds for_ = milliseconds{0}, const std::string& why = {});
  void resume();

  // Looks at everything that is stored of the queue for what should not be, and repairs it if asked. Safe at any time:
  // producers and consumers, of Go too, may go on. Takes as long as it takes (about a minute for a million messages),
  // in steps: none holds Redis for more than 2 ms, other calls go between them. Walks over all keys of the server's
  // database to find bodies. Keeps 17 bytes in memory for each message in ready and retry.
  //
  // A repair deletes no body: what may be a message and has no place is delivered, at once. So a message may come once
  // more than it should, or one that a Go worker intercepted may come. May be repeated after an error.
  CheckReport check(const CheckOptions& options = {});

  // Reads the Go library's event channel for up to `wait`. Nothing: no event came. Only events of processes that
  // report them (report_events; EnableReport in Go) are seen, from the first call of this on. What arrives while the
  // link is down is lost. Uses a connection of its own; throws what connecting throws.
  std::optional<Event> next_event(milliseconds wait);

  // How the server may lose this queue, or delay it. Empty: nothing was found. Where the server hides its settings
  // (CONFIG GET), what INFO tells is all that is known. Consumers and Producers with a logger warn of the same on their
  // first connection, consumers again when another server brings other risks; of the clock only if it jumps.
  std::vector<Risk> risks();

  // Version, role, memory, settings; round trip and clock are measured.
  ServerReport server();

  // Loads all scripts (SCRIPT LOAD) into every server that may serve the queue: with Sentinels also into the replicas,
  // of a Cluster into every node, so that a failover needs it no more. Then users without the right to EVAL can work
  // there. A server forgets them when it restarts. Needs `+script|load`, and no right to any key; of a Cluster also
  // `+cluster|nodes`. What one server refuses is in its `error`; throws when the servers cannot be found out.
  std::vector<ServerScripts> load_scripts();

  // Which of the scripts these servers have. Needs `+script|exists`.
  std::vector<ServerScripts> scripts();

  // The queues that were ever used on this server under this prefix, sorted. To look at a name with an Inspector does
  // not make a queue of it.
  std::vector<std::string> queues();

 private:
  class DELAYQUEUE_HIDDEN Impl;
  internal::Owned<Impl> impl_;
};

}  // namespace delayqueue
