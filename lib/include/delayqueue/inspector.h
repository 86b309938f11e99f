// Inspector: reads one queue, for operators, tools and metrics. It changes nothing: see QueueAdmin. It also works on
// queues that workers of the Go library use. Calls are split into bounded steps: with a queue of any length no step
// occupies Redis for more than 2 ms, except for large payloads.
#pragma once

#include <delayqueue/actions.h>
#include <delayqueue/counts.h>
#include <delayqueue/detail/owned.h>
#include <delayqueue/error.h>
#include <delayqueue/events.h>
#include <delayqueue/export.h>
#include <delayqueue/options.h>
#include <delayqueue/partitions.h>
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

struct ListOptions;
struct MessagePage;
struct Pause;

// The options of an Inspector or a QueueAdmin.
struct InspectorOptions {
  ConnectionOptions connection{};
  QueueOptions queue{};
  // Calls concern only this partition (from 0 on), and by id look for each message there. Those that concern the queue as
  // such throw std::invalid_argument. Unset: the whole queue.
  std::optional<unsigned> partition{};
};

// Any number of threads may use one Inspector; their calls share one connection. URL, shared connections, errors and
// fork() as for Producer. An Inspector of a queue that does not exist does not add its name to queues().
//
// A queue may have several partitions (see partitions.h). A call for the whole queue then asks all of them, with one round
// trip to each server, and throws if one of them cannot be read: partitions() returns those that can. A call by id asks the
// partition that the id was made for.
class DELAYQUEUE_EXPORT Inspector {
 public:
  Inspector(const std::string& url, const std::string& queue, const InspectorOptions& options = {});
  ~Inspector();
  Inspector(Inspector&&) noexcept;
  Inspector& operator=(Inspector&&) noexcept;

  // Of several partitions the sums, each read at its own moment; the earliest of the times, and the latest of the clocks.
  [[nodiscard]] Counts counts();

  // One page of the messages in a state. If the queue changes between two pages, messages may be missed or repeated.
  // Messages of several partitions: see ListOptions::merge.
  // Throws std::invalid_argument for State::unknown, a limit outside 1 to 1,000, and the cursor of another state.
  [[nodiscard]] MessagePage list(State state, const ListOptions& options);
  [[nodiscard]] MessagePage list(State state);

  // All that is stored about one message; unset: no such message. Does not read the lists: it derives from the other
  // keys of a message that the message is in ready or retry.
  [[nodiscard]] std::optional<MessageInfo> find(std::string_view id);
  // The same for many, with at most `payload` bytes of each payload.
  [[nodiscard]] std::vector<std::optional<MessageInfo>> find(const std::vector<std::string>& ids,
                                                             std::size_t payload = 64);

  // The message with this id in each partition that has one: a search for messages that are not where their ids tell.
  [[nodiscard]] std::vector<MessageInfo> find_everywhere(std::string_view id);

  // The pause of the queue: why and until when; unset: the queue is not paused.
  [[nodiscard]] std::optional<Pause> paused();

  // The latest changes that were recorded with QueueAdmin::record, the last one first; at most 100.
  [[nodiscard]] std::vector<Action> actions();

  // How many partitions the queue has, and had.
  [[nodiscard]] Layout layout();

  // Each partition with its counts, or why it cannot be read. Throws only if not even their number can be read.
  [[nodiscard]] std::vector<PartitionInfo> partitions();

  // A message in partition 0 that was sent since the number of partitions was set, by a program older than partitions, or
  // with a UUID of version 7 that the caller chose. Unset: there is none among the first 1,000 in pending and in ready.
  [[nodiscard]] std::optional<MessageInfo> find_unpartitioned();

  // The consumers of the queue, by host and process, as they have registered: see workers.h. At most 10,000. Those of
  // the Go library, of versions before the registry, and with register_consumer off are not among them.
  [[nodiscard]] std::vector<Worker> workers();

  // Waits up to `wait` for the next event on the Go library's event channel; unset: there was none. Receives only
  // events of processes that publish them (report_events; EnableReport in Go), from the first call of next_event on.
  // Events that are published while the connection is broken are lost. Uses its own connection. One thread at a time
  // waits in it; others wait for that thread first, beyond their `wait`.
  [[nodiscard]] std::optional<Event> next_event(milliseconds wait);

  // The server that holds the queue; in a Cluster the node. server_info() examines all of them.
  [[nodiscard]] ServerInfo server();

  // The names of the queues with QueueOptions::prefix on this server, sorted: all that were used, except forgotten ones
  // (QueueAdmin::forget).
  [[nodiscard]] std::vector<std::string> queues();

 private:
  class DELAYQUEUE_HIDDEN Impl;
  internal::Owned<Impl> impl_;
};

struct ListOptions {
  std::size_t limit = 20;    // at most 1,000 at a time
  std::string cursor{};      // MessagePage::next of the previous page, of the same state; empty: from the start
  std::size_t payload = 64;  // most bytes to read of each payload
  // Of several partitions: the first page has the first messages of all of them, in order. Later pages go partition by
  // partition. False: so does the first page.
  bool merge = true;
};

// A page of messages, in this order: pending and unack by their time, ready and retry in the order of delivery, dead by
// the time at which they became dead letters. Those in ready and retry of several partitions take turns.
struct DELAYQUEUE_EXPORT MessagePage {
  std::vector<MessageInfo> messages{};
  std::string next{};            // the cursor of the next page; empty: this was the last page
  std::string next_partition{};  // the cursor of the next partition; empty: there is none, or the page has several

  // The cursor of the next page after `freed` messages of this page have left the state. Use it instead of `next` if
  // messages of this page were redriven, cancelled or purged (for purge(): freed = Removed::places). After a page with
  // messages of several partitions, messages that are still there may be repeated.
  std::string next_after(std::uint64_t freed) const;

  auto begin() const { return messages.begin(); }
  auto end() const { return messages.end(); }
  auto size() const { return messages.size(); }
  bool empty() const { return messages.empty(); }
};

// A pause of a queue: see QueueAdmin::pause.
struct Pause {
  std::string reason{};
  std::optional<std::chrono::system_clock::time_point> until{};  // by Redis' clock; unset: until resume()
};

}  // namespace delayqueue
