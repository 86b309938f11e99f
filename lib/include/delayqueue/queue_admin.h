// QueueAdmin: changes the messages of one queue, and the queue itself, for operators and tools. It also works on queues
// that workers of the Go library use.
#pragma once

#include <delayqueue/actions.h>
#include <delayqueue/client.h>
#include <delayqueue/detail/braces.h>
#include <delayqueue/detail/owned.h>
#include <delayqueue/error.h>
#include <delayqueue/export.h>
#include <delayqueue/inspector.h>
#include <delayqueue/integrity.h>
#include <delayqueue/message_ref.h>
#include <delayqueue/producer.h>
#include <delayqueue/queue_admin_options.h>
#include <delayqueue/queue_name.h>
#include <delayqueue/send_options.h>
#include <delayqueue/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace delayqueue {

// Calls for messages return their results in the order of the messages. They work in atomic steps, each well under
// 2 ms. An error leaves the previous steps done. Calls may be repeated as error.h describes. None waits for Durability.
//
// Threads, errors, fork() and partitions as for Inspector. If a call with ids fails for one partition, it
// continues with the others, and then throws the first error.
class DELAYQUEUE_EXPORT QueueAdmin {
 public:
  QueueAdmin(const Client& client, const QueueName& queue, const InspectorOptions& options = {});
  ~QueueAdmin();
  QueueAdmin(QueueAdmin&&) noexcept;
  QueueAdmin& operator=(QueueAdmin&&) noexcept;

  // Like Producer::cancel and Producer::reschedule.
  [[nodiscard]] std::vector<State> cancel(const MessageRefs& messages);
  [[nodiscard]] std::vector<Outcome> reschedule(const MessageRefs& messages, const RescheduleOptions& when);

  // Makes dead letters ready at once, like new messages: their number of deliveries and their reason are deleted.
  // Outcomes: done, no_payload, unknown (not a dead letter).
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
  // workers ignore a pause. It replaces an earlier pause.
  // Partition 0 is paused, or resumed, first, and without it none is. If another one cannot be reached, the call
  // throws, and consumers pause or resume that one, too, before they take messages there again.
  void pause(const PauseOptions& options = {});
  void resume();  // ends the pause; does nothing if the queue is not paused

  // Records a change: adds it to the queue's list of the latest 100 actions, with Redis' time as `at`. No other call
  // does so. who, outcome and what are cut to 256, 32 and 1,024 bytes. forget() deletes the list.
  void record(const Action& action);

  // Sets the number of partitions: a power of two from 1 to 256. In a Cluster each partition is in another slot, so
  // that several masters share the work of the queue. Producers send to this many from then on. Consumers serve all
  // partitions that the queue ever had, because messages stay where they are. Neither needs a restart. Order by due
  // time holds within a partition. A paused queue stays paused. Settings of the masters that do not fit are not looked
  // at: see add_partition_risks().
  //
  // Reads the servers of all partitions that a queue can have. Returns the layout that counts then: another operator
  // may have set a later one. Throws ConnectionError if one of the servers does not answer, and std::invalid_argument
  // for another number, for more than one with GoCompatibility::bodies_under_dp, and if another program uses the keys
  // of a new partition.
  Layout set_partitions(unsigned partitions);

  // Deletes all that is stored of an empty queue: its statistics, its pause, its actions, orphaned metadata of
  // messages, and its name in queues(). First deletes finished messages that are not deleted yet. The layout of a queue
  // with partitions stays: a producer that has read it may send to any of them. A queue with a message in any state, or
  // with a consumer that waits for messages, is not changed; the result has the reasons. Looks for one for 0.3 s.
  //
  // A send at the same time or later registers the queue again, also one by an existing Producer. Not noticed are
  // consumers of the Go library, and consumers that only poll because their user may not block: they see a queue
  // without messages.
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
  // A million messages take about a minute, in steps of at most 2 ms, with other calls between them. It scans all keys
  // of the database for each partition, and uses 17 bytes for each message in ready and retry.
  [[nodiscard]] CheckReport check(const CheckOptions& options = {});

 private:
  class DELAYQUEUE_HIDDEN Impl;
  internal::Owned<Impl> impl_;
};

}  // namespace delayqueue
