// Inspector: reads one queue, for operators, tools and metrics. It changes nothing: see QueueAdmin. It also works on
// queues that workers of the Go library use.
#pragma once

#include <delayqueue/actions.h>
#include <delayqueue/client.h>
#include <delayqueue/counts.h>
#include <delayqueue/detail/braces.h>
#include <delayqueue/detail/owned.h>
#include <delayqueue/error.h>
#include <delayqueue/events.h>
#include <delayqueue/export.h>
#include <delayqueue/message_page.h>
#include <delayqueue/message_ref.h>
#include <delayqueue/partitions.h>
#include <delayqueue/queue_name.h>
#include <delayqueue/server_info.h>
#include <delayqueue/types.h>
#include <delayqueue/workers.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace delayqueue {

struct Pause;

// The options of an Inspector or a QueueAdmin.
struct InspectorOptions {
  // Only this partition, from 0 on: calls concern only its messages, and calls by id look only there. Calls that
  // concern the queue as such throw std::invalid_argument. Unset: the whole queue.
  std::optional<unsigned> partition{};
};

// Any number of threads may use one Inspector; their calls share one connection. Errors and fork() as for
// Producer. An Inspector of a queue that does not exist does not add its name to queues().
//
// Calls work in bounded steps: with a queue of any length no step occupies Redis for more than 2 ms, except for large
// payloads.
//
// A queue may have several partitions (see partitions.h). A call for the whole queue then reads all of them, with one
// round trip to each server. It throws if one of them cannot be read; partitions() returns the others. A call by id
// reads the partition that the id was made for.
class DELAYQUEUE_EXPORT Inspector {
 public:
  Inspector(const Client& client, const QueueName& queue, const InspectorOptions& options = {});
  ~Inspector();
  Inspector(Inspector&&) noexcept;
  Inspector& operator=(Inspector&&) noexcept;

  // Of several partitions: the sums, each partition at its own moment; the earliest of the times; the latest clock.
  [[nodiscard]] Counts counts();

  // One page of the messages in a state. If the queue changes between two pages, messages in ready and retry may be
  // missed or repeated. Throws std::invalid_argument for State::unknown, a limit outside 1 to 1,000, and the cursor of
  // another state or order.
  [[nodiscard]] MessagePage list(State state, const ListOptions& options);
  [[nodiscard]] MessagePage list(State state);

  // All that is stored about one message; unset: no such message. Does not search the lists: a message whose other keys
  // show no other state counts as ready or retry.
  [[nodiscard]] std::optional<MessageInfo> find(const MessageRef& message);
  // The same for many, in their order, with at most `payload` bytes of each payload.
  [[nodiscard]] std::vector<std::optional<MessageInfo>> find_all(const MessageRefs& messages, std::size_t payload = 64);

  // Searches all partitions, for messages that are not where their ids tell. Returns the message with this id in each
  // partition that has one.
  [[nodiscard]] std::vector<MessageInfo> find_everywhere(const MessageRef& message);

  // Unset: the queue is not paused.
  [[nodiscard]] std::optional<Pause> paused();

  // The latest changes that QueueAdmin::record has recorded, the last one first; at most 100.
  [[nodiscard]] std::vector<Action> actions();

  // The number of partitions that the queue has, and the most that it ever had.
  [[nodiscard]] Layout layout();

  // Each partition with its counts, or why it cannot be read. Throws only if their number cannot be read.
  [[nodiscard]] std::vector<PartitionInfo> partitions();

  // The partitions that have messages, and that the copies of the layout in partitions 0 and 1 do not name: they have
  // lost it, so clients that start now leave these partitions out; QueueAdmin::check repairs that. From then on this
  // Inspector knows those that another copy names. Looks for keys of all 255 further partitions that a queue can have.
  // Empty also if one of the two copies cannot be read, or for a user without rights for other partitions.
  [[nodiscard]] std::vector<PartitionInfo> find_lost_partitions();

  // Returns a message in partition 0 that was sent after the number of partitions was set, either by a program older
  // than partitions, or with a UUID of version 7 that the caller chose. Unset: there is none among the first 1,000 of
  // each state. A consumer older than partitions leaves no trace.
  [[nodiscard]] std::optional<MessageInfo> find_unpartitioned();

  // The registered consumers of the queue, by host and process: see workers.h. At most 10,000. Not registered are
  // consumers of the Go library, of versions before the registry, and with register_consumer off.
  [[nodiscard]] std::vector<Worker> workers();

  // Waits up to `wait` for the next event on the Go library's event channel; unset: there was none. Receives only
  // events of processes that publish them (report_events; EnableReport in Go), from the first call of next_event on.
  // Events that are published while the connection is broken are lost. Uses its own connection. One thread at a time
  // waits for events; others wait for that thread first, in addition to their `wait`.
  [[nodiscard]] std::optional<Event> next_event(milliseconds wait);

  // The server that holds the queue; in a Cluster the node. server_info() examines all of them.
  [[nodiscard]] ServerInfo server();

  // The names of the queues with KeyOptions::prefix on this server, sorted: all that were used, except forgotten ones
  // (QueueAdmin::forget).
  [[nodiscard]] std::vector<std::string> queues();

 private:
  class DELAYQUEUE_HIDDEN Impl;
  internal::Owned<Impl> impl_;
};

// A pause of a queue: see QueueAdmin::pause.
struct Pause {
  std::string reason{};
  std::optional<std::chrono::system_clock::time_point> until{};  // by Redis' clock; unset: until resume()
  // Who has set it, and when. Empty and unset: not known, as of pauses of programs that do not store this.
  std::string who{};
  std::optional<std::chrono::system_clock::time_point> since{};
};

}  // namespace delayqueue
