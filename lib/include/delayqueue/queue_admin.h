// QueueAdmin: changes the messages of one queue, and the queue itself, for operators and tools. Before it: the options
// and results of its calls, and the report of check(). It also works on queues that workers of the Go library use.
#pragma once

#include <delayqueue/client.h>
#include <delayqueue/detail/braces.h>
#include <delayqueue/detail/owned.h>
#include <delayqueue/error.h>
#include <delayqueue/inspector.h>
#include <delayqueue/message.h>
#include <delayqueue/sender.h>
#include <delayqueue/version.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {

// How a call treats messages that are in flight (held by a consumer).
//   skip   it does not change them
//   force  it changes them, and the consumer loses the lease
enum class HeldMessages { skip, force };
DELAYQUEUE_EXPORT const char* to_string(HeldMessages held);

struct PauseOptions {
  std::optional<milliseconds> duration{};  // at least 1 ms; unset: until resume()
  std::string reason{};                    // must not begin with "held off: ", as the pauses of handlers do
  std::string who{};  // who pauses, such as "anna@host7"; its first 256 bytes are stored with the pause
};

struct RedriveOptions {
  int retries = 3;  // deliveries after the next one
};

struct RestoreOptions {
  // Replace messages that exist and that no consumer holds: state, time, payload, headers, retries, deliveries and
  // reason. Each message is replaced as a whole, or stays as it is.
  bool replace = false;
};

struct BuryOptions {
  std::string reason{};  // its first 1,024 bytes are stored; empty: the reason of the last delivery stays
  HeldMessages held = HeldMessages::skip;
};

struct PurgeOptions {
  // Only messages that have been due (pending) or dead letters (dead) for at least this long; 0 ms: all that are due.
  // Unset: all messages. Must be unset for ready and retry, whose messages have no such time.
  std::optional<milliseconds> older_than{};
  std::uint64_t limit = 0;  // most messages to remove; 0: all that existed when the call began
};

// The result of purge_ids().
struct Purged {
  std::uint64_t messages = 0;  // messages deleted
  std::uint64_t places = 0;    // places freed in the state: see MessagePage::next_after
  std::vector<bool> purged{};  // for each id, in their order: whether this call deleted the message
};

// The reasons why forget() left a queue as it is. ready and retry are upper bounds.
struct Remains {
  std::uint64_t pending = 0, ready = 0, unack = 0, retry = 0, dead = 0;
  std::uint64_t retries = 0;    // retries recorded for messages that are in no state: see check()
  std::uint64_t schedules = 0;  // also those that are paused, or have ended
  bool wrong_type = false;      // a key of the queue has another type: see check()
  bool served = false;          // a consumer of this library waits for messages

  bool none() const {
    return pending + ready + unack + retry + dead + retries + schedules == 0 && !wrong_type && !served;
  }
};

// The kinds of problems. The last four (expired, garbage, orphaned_metadata, orphaned_headers) are no damage: consumers
// remove them in time, and a repair removes them at once.
enum class Problem {
  stranded,               // has payload and retries, but is in no state: it would never be delivered
  orphaned_body,          // a payload without state and retries (or one that TryIntercept of a Go worker left)
  no_retries,             // pending, but no retries are recorded: it would be removed when it is due
  no_body,                // pending, but its payload is missing before any TTL can have ended
  two_states,             // in two of the states pending, unack and dead
  no_holder,              // in unack with an end that no lease or backoff can have: no consumer holds it
  orphaned_retries,       // retries are recorded for a message that does not exist, or for a dead letter
  invalid_time,           // the due time, or the time it became a dead letter, is not from 1970 to 2199
  foreign,                // an id that is not a UUID: another program wrote it
  invalid_total,          // a statistic with an invalid value or an unknown name; no call fails because of it
  invalid_setting,        // a layout, pause or limit with a value that no client writes: it counts as absent
  lost_layout,            // partitions 0 and 1 have lost the layout: clients that start now leave out other partitions
  lost_partition,         // messages in a partition that no copy of the layout names. No repair adds it
  wrong_type,             // a key of the queue has another type: another program uses it
  invalid_schedule,       // a schedule that this version cannot read; consumers leave it as it is. No repair changes it
  schedule_without_slot,  // an active schedule that has lost when it is due; consumers find it in time
  slot_without_schedule,  // the time of a schedule that does not exist, or is not active
  invalid_headers,        // headers that cannot be read: the message is delivered without. No repair removes them
  expired,                // the payload is missing, as after the end of a TTL: the message cannot be delivered
  garbage,                // a finished message that is not deleted yet
  orphaned_metadata,      // a number of deliveries, or a reason, of a message that does not exist
  orphaned_headers,       // headers or the unique key of a message that does not exist: a Go worker has acknowledged it
};

// The name of the problem: "stranded", "orphaned_body" ...
DELAYQUEUE_EXPORT const char* to_string(Problem problem);

// One problem of one message or key.
struct Finding {
  Problem problem{};
  std::string id{};           // the message; for wrong_type and lost_layout the key; for lost_partition its base
  std::string description{};  // what is wrong, in words
  std::string repair{};       // what a repair does, or what an operator should do
  bool repaired = false;
  unsigned partition = 0;  // of the message
};

struct DELAYQUEUE_EXPORT CheckReport {
  std::uint64_t examined = 0;  // ids; most are examined several times
  std::uint64_t repaired = 0;
  std::map<Problem, std::uint64_t> counts{};  // number of findings of each problem
  std::vector<Finding> findings{};            // a sample of each problem
  std::map<unsigned, std::string> errors{};   // partitions that could not be examined as a whole, and why

  // True: every partition was examined, and nothing was found (repaired or not) except expired, garbage,
  // orphaned_metadata and orphaned_headers.
  bool clean() const;
};

struct CheckOptions {
  bool repair = false;
  // The wait before a possible problem is examined a second time. It is reported only if it still exists then: a Go
  // worker sends in three steps, and may have been between two of them.
  milliseconds recheck_after{2000};
  std::size_t sample = 20;  // findings of each problem to describe
  int retries = 3;          // what a repair records for messages that have none
  // Called at intervals, also during the wait, with the number of steps done and an estimate of their total. An
  // exception ends the check.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress{};
};

// Calls for messages return their results in the order of the messages. They work in atomic steps; an error leaves the
// earlier steps done. Every call makes one attempt: no call is repeated by the library, and none waits for Durability.
// Repeat them as error.h describes. If a call with ids fails for one partition, it continues with the others, and then
// throws the first error.
//
// Threads, fork() and partitions: as for Inspector.
class DELAYQUEUE_EXPORT QueueAdmin {
 public:
  QueueAdmin(const Client& client, const QueueName& queue, const InspectorOptions& options = {});
  ~QueueAdmin();
  QueueAdmin(QueueAdmin&&) noexcept;
  QueueAdmin& operator=(QueueAdmin&&) noexcept;

  // The results are those of Sender::cancel() and Sender::reschedule().
  [[nodiscard]] std::vector<State> cancel(const MessageRefs& messages);
  [[nodiscard]] std::vector<Outcome> reschedule(const MessageRefs& messages, const RescheduleOptions& when);

  // Makes dead letters ready at once, like new messages: their number of deliveries and their reason are deleted.
  // Outcomes: done, no_payload, key_taken, unknown (not a dead letter).
  [[nodiscard]] std::vector<Outcome> redrive(const MessageRefs& messages, const RedriveOptions& options = {});

  // Makes messages ready that are pending or in a backoff, before all other ready messages: the first id is delivered
  // first. With HeldMessages::force also messages that a consumer holds. If that consumer is alive, such a message is
  // handled twice. Outcomes: done, held, unknown (in ready or retry already, a dead letter, or no such message).
  [[nodiscard]] std::vector<Outcome> release(const MessageRefs& messages, HeldMessages held = HeldMessages::skip);

  // Makes messages dead letters, with the reason. With HeldMessages::force also messages that a consumer holds: their
  // handlers continue, and Message::lease_lost() becomes true at the next renewal (within a third of a lease). If such
  // a handler returns ack nevertheless, the work was done: the message is deleted, and is no dead letter any more. Any
  // other verdict is stale. Outcomes: done, already (with its old reason), held, unknown.
  [[nodiscard]] std::vector<Outcome> bury(const MessageRefs& messages, const BuryOptions& options = {});

  // Extends a backoff, or a lease of a Go worker, by `by`, at least 1 ms (counted from now if its end has passed). The
  // end of a TTL moves by as much.
  //
  // With HeldMessages::force also a lease of a consumer of this library. If that consumer is alive, it loses the lease,
  // because it identifies a lease by its end time: Message::lease_lost() becomes true at the next renewal, the verdict
  // is stale, and the message is delivered again after the new end. Use force to delay the messages of a dead or broken
  // process, for example until an operator has examined them. Outcomes: done, held, unknown (or not in unack).
  [[nodiscard]] std::vector<Outcome> extend(const MessageRefs& messages, milliseconds by,
                                            HeldMessages held = HeldMessages::skip);

  // Deletes messages of a state (pending, ready, retry or dead), in bounded steps, partition by partition. Returns
  // their number. Throws before it deletes any if a partition cannot be read.
  std::uint64_t purge(State state, const PurgeOptions& options = {});

  // Deletes those of the given messages that are still in the state (pending, ready, retry or dead). Of several callers
  // at the same time one deletes a message. In ready and retry it also removes ids at the front of the list whose
  // messages are gone.
  Purged purge_ids(State state, const MessageRefs& messages);

  // Stores messages that find() or list() returned with whole payloads, in this queue or another one.
  //   - A dead letter is one again, with its time. A message that was pending or in a backoff is pending until its
  //     time. All others are ready.
  //   - Retries, number of deliveries, reason and headers are those of the message. Headers that could not be read
  //     (MessageInfo::headers_damaged) are left out. MessageInfo::ttl counts from this call.
  //   - A message that exists is not changed, except with RestoreOptions::replace. So a call may
  //     be repeated, also after an error.
  //   - A message goes to the partition that its id was made for. If the queue never had the one in
  //     MessageInfo::partition, consumers serve it from now on (Layout::top).
  //
  // Throws std::invalid_argument, before anything is stored, for a message without its whole payload, with a time
  // outside 1970 to 2199, or without retries unless it is a dead letter. Throws SetupError if the system provides no
  // random bytes for the names of large payloads; earlier steps may be stored then, and the call may be repeated.
  [[nodiscard]] std::vector<Sent> restore(const std::vector<MessageInfo>& messages, const RestoreOptions& options = {});

  // Pauses the queue: consumers of this library take no messages until the pause ends; running handlers continue. Go
  // workers ignore a pause. It replaces an earlier pause. Of several partitions, 0 is changed first; if it cannot be
  // reached, nothing is. If another one cannot be reached, the call throws, and consumers apply the change there before
  // they take messages from it again.
  void pause(const PauseOptions& options = {});
  void resume();  // ends the pause, also one by pause_queue(); does nothing if the queue is not paused

  [[nodiscard]] std::optional<QueueLimits> set_limits(const QueueLimits& limits);  // see QueueLimits

  // Records a change: adds it to the queue's list of the latest 100 actions, with Redis' time as `at`. No other call
  // does so. who, outcome and what are cut to 256, 32 and 1,024 bytes. forget() deletes the list.
  void record(const Action& action);

  // Sets the number of partitions: a power of two from 1 to 256. In a Cluster each partition is in another slot, so
  // that several masters share the work of the queue. Producers send to this many from then on. Consumers serve all
  // partitions that the queue ever had, because messages stay where they are. Neither needs a restart. Order by due
  // time holds within a partition. A paused queue stays paused. This call does not examine whether the
  // settings of the masters fit partitions: see add_partition_risks().
  //
  // Reads the servers of all partitions that a queue can have. Returns the layout that counts then: another operator
  // may have set a later one. Throws ConnectionError if one of the servers does not answer, and std::invalid_argument
  // for another number, for more than one with GoCompatibility::bodies_under_dp, for more than QueueLimits::running,
  // and if another program uses the keys of a new partition.
  Layout set_partitions(unsigned partitions);

  // Deletes all that is stored of an empty queue: statistics, pause, actions, metadata without a message, and its name
  // in queues(). A queue that has a message in any state, or a consumer that waits for messages, is not changed; the
  // result has the reasons. Not noticed are consumers of the Go library, and those whose user may not block. The layout
  // of a queue with partitions stays, because a producer that has read it may send to any of them. A later send, also
  // by an existing Producer, registers the queue again.
  [[nodiscard]] Remains forget();

  // An advisory lock between operators, for calls that belong together, such as reading messages, writing them
  // elsewhere and deleting them. It excludes only other callers of lock(). It ends after `duration` (at least 1 ms).
  // Returns false if the lock is taken, also by the same `holder`: so lock() cannot extend it.
  [[nodiscard]] bool lock(const std::string& holder, milliseconds duration);
  void unlock(const std::string& holder);  // does nothing if another holder has the lock, or none

  // Integrity check: examines all keys of the queue for inconsistencies, and repairs them if CheckOptions::repair is
  // set. First looks for partitions that both copies of the layout have lost. Producers and consumers, also those of
  // the Go library, may continue meanwhile.
  //
  // A repair deletes no payload: a payload without a state becomes a ready message. So it may deliver a message once
  // too often, or deliver a message that a Go worker has intercepted.
  //
  // A long queue takes minutes, in short steps with other calls between them. For each partition it scans all keys of
  // the database. See docs/operations.md for its cost.
  [[nodiscard]] CheckReport check(const CheckOptions& options = {});

 private:
  class DELAYQUEUE_HIDDEN Impl;
  internal::Owned<Impl> impl_;
};

}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
