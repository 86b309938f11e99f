// Inspector: reads one queue, for operators, tools and metrics, and changes nothing (see QueueAdmin). Before it: what
// its calls return. It also works on queues that workers of the Go library use.
#pragma once

#include <delayqueue/client.h>
#include <delayqueue/detail/braces.h>
#include <delayqueue/detail/owned.h>
#include <delayqueue/error.h>
#include <delayqueue/log.h>
#include <delayqueue/message.h>
#include <delayqueue/server.h>
#include <delayqueue/version.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {

// Totals since the first message of the queue, or since forget(). Sends and deliveries of Go workers are not counted.
struct Totals {
  std::uint64_t sent = 0;  // includes restored messages
  std::uint64_t delivered = 0, acked = 0, nacked = 0, retried = 0;
  std::uint64_t dead_lettered = 0;  // became dead letters
  std::uint64_t expired = 0;        // removed because the payload was missing
  std::uint64_t cancelled = 0, redriven = 0, purged = 0;
  std::uint64_t skipped = 0;  // occurrences of schedules that were left out or replaced: see Overlap and Missed
  std::uint64_t foreign = 0;  // ids that are not UUIDs (another program wrote them); removed, not delivered
};

// A rate of deliveries, those of redelivered messages included: in a time t at most burst + messages * t / per.
struct Rate {
  std::uint64_t messages = 0;  // at least 1, and at most 1,000,000 a second
  milliseconds per{1000};      // 1 ms to a day
  std::uint64_t burst = 0;     // at most so many at once, up to 1,000,000; 0: as many as in 100 ms, at least 1
};

// The limits of a queue: see docs/limits.md. An unset limit does not exist. All consumers together keep `rate` and
// `running`, from their next take on. Senders keep `length`: those that are connected read it beside a send, at most
// every 2 seconds.
//
// QueueAdmin::set_limits sets all limits, removes those that are unset, and returns the limits as they are stored, the
// burst of a rate included. Its argument needs the generation of the limits that the caller has read, 0 if the queue
// never had any. If others were set since then, it changes nothing and returns nothing: read the limits again, change
// these, and set them. It throws std::invalid_argument for a value outside its range, and for a running or a length
// below the number of partitions that the queue ever had; if another operator adds partitions meanwhile, these are
// raised to their number. When Redis is out of memory, it refuses new limits, and accepts that all are removed. If a
// partition cannot be reached, it throws, and consumers bring the limits there; messages that are in flight there do
// not count as running then, until the call is repeated. Consumers of the Go library keep no limits.
struct QueueLimits {
  std::optional<Rate> rate{};
  // Most messages in flight, from 1 to 1,000,000,000. A message is in flight from the take until it is settled (a nack
  // settles it, too, so a message in a backoff is not in flight), or until its lease has ended and it is taken back.
  std::optional<std::uint64_t> running{};
  // Most messages that are not dead letters, from 1 to 1,000,000,000. A send of more throws QueueFull. A redrive and a
  // restore may exceed it.
  std::optional<std::uint64_t> length{};
  // Of the last change; 0: there was none.
  std::uint64_t generation = 0;
};

// The number of messages in each state, read at one moment (each partition at its own). ready and
// retry are upper bounds: ids of cancelled or rescheduled messages stay in those lists until a consumer removes them.
struct Counts {
  std::uint64_t pending = 0, ready = 0, unack = 0, retry = 0, dead = 0;
  std::uint64_t garbage = 0;                                            // finished messages that are not deleted yet
  std::uint64_t due = 0;                                                // of pending: due, but not moved to ready yet
  std::uint64_t overdue = 0;                                            // of unack: lease or backoff has ended
  std::optional<std::chrono::system_clock::time_point> oldest_due{};    // the earliest due time in pending
  std::optional<std::chrono::system_clock::time_point> oldest_lease{};  // the earliest end of a lease or backoff
  // Since when one of the oldest messages in ready has been due: the oldest one has been due at least as long. Unset:
  // ready is empty, or this is not known (see docs/metrics.md).
  std::optional<std::chrono::system_clock::time_point> oldest_ready{};
  std::chrono::system_clock::time_point now;  // Redis' clock
  bool paused = false;
  std::optional<std::chrono::system_clock::time_point> paused_until{};  // unset: not paused, or until resume()
  bool known = true;  // false: nothing is stored of the queue, and it is not in Inspector::queues(): a wrong name?
  unsigned partitions = 1;                     // how many were counted
  QueueLimits limits{};                        // without their generation
  std::uint64_t in_flight = 0;                 // messages that count against limits.running; 0 without that limit
  std::chrono::microseconds next_delivery{0};  // until limits.rate allows another one; 0: it does now, or there is none
  Totals totals;
};

// What is stored about one message: see Inspector::find and Inspector::list.
struct MessageInfo {
  std::string id{};
  State state = State::unknown;
  // pending: when it is due. unack: when its lease or backoff ends. dead: when it became a dead letter. Unset in ready
  // and retry.
  std::optional<std::chrono::system_clock::time_point> at{};
  std::optional<std::chrono::system_clock::time_point> sent{};  // from the id, if it is a UUIDv7
  bool held = false;                                            // unack only. true: in flight; false: in a backoff
  int deliveries = 0;                                           // so far; 0 in ready and retry may also mean 1
  std::optional<int> retries{};         // left; unset: none recorded (cancelled while held, or a dead letter)
  std::string reason{};                 // why the last delivery failed
  std::optional<std::uint64_t> size{};  // bytes of the payload; unset: it is missing (expired, evicted, deleted)
  // From list() its first ListOptions::payload bytes. From find() all of it; from find() of many ids the first
  // `payload` bytes.
  std::string payload{};
  std::optional<milliseconds> ttl{};  // time until the payload expires; unset: never
  unsigned partition = 0;             // where the message is: see Inspector
  Headers headers{};
  bool headers_damaged = false;  // true: the stored headers cannot be read, and `headers` is empty, as for the handler
  // retry: since when it waits for another delivery: its lease or backoff ended then. Unset in the other states, and if
  // a Go worker has moved it to retry.
  std::optional<std::chrono::system_clock::time_point> waits_since{};
  std::string key{};  // the unique key that it was sent with; empty: none
};

// The options of Inspector::list().
struct ListOptions {
  std::size_t limit = 20;    // messages of a page: 1 to 1,000
  std::string cursor{};      // MessagePage::next of the previous page, of the same state and order; empty: the start
  std::size_t payload = 64;  // most bytes to read of each payload
  // Of several partitions: the first page has the first messages of all of them, in order, and so have later pages of
  // pending, unack and dead; those of ready and retry go partition by partition. False: all pages do that.
  bool merge = true;
  bool bodies = true;   // false: reads no payload, size, TTL or headers: a page then takes a fraction of the time
  bool newest = false;  // the other order: the highest time, or the last in the order of delivery, comes first
};

// A page of messages. pending and unack are in the order of their time, ready and retry in the order of delivery, dead
// in the order in which they became dead letters. In ready and retry, several partitions take turns.
//
// The cursor of pending, unack and dead is a time and an id: messages that arrive or leave between two pages shift
// nothing, and each message that stays is on one page. The cursor of ready and retry is a position.
struct DELAYQUEUE_EXPORT MessagePage {
  std::vector<MessageInfo> messages{};
  std::string next{};            // the cursor of the next page; empty: this was the last page
  std::string next_partition{};  // the cursor of the next partition; empty: there is none, or the page has several

  // In ready and retry, the cursor of the next page after `freed` messages of this page have left the state. Use it
  // instead of `next` if messages of this page were cancelled or purged. For purge_ids(), `freed` is Purged::places.
  // After a page with messages of several partitions, messages that are still there may be repeated. In other states:
  // `next`.
  std::string next_after(std::uint64_t freed) const;

  auto begin() const { return messages.begin(); }
  auto end() const { return messages.end(); }
  auto size() const { return messages.size(); }
  bool empty() const { return messages.empty(); }
};

// The partitions of a queue are numbered from 0 on.
struct Layout {
  unsigned partitions = 1;  // the number of those that messages are sent to
  unsigned top = 1;         // the most that the queue ever had; consumers serve all of them
};

// One partition: see Inspector::partitions().
struct PartitionInfo {
  unsigned partition = 0;
  bool sent_to = true;        // false: the number was lowered since; consumers still serve it
  std::optional<int> slot{};  // in a Cluster
  std::string server{};       // the address of the server that has it; empty: unknown
  Counts counts{};            // empty if there is an error
  std::string error{};        // why it could not be read; empty: no error
};

// A message that a consumer works on: its handler runs, its Delivery is not settled, or its large payload is still
// arriving over a slow link.
struct RunningMessage {
  std::string id{};
  std::chrono::system_clock::time_point since{};  // by Redis' clock, to a few milliseconds
  // The bytes of the payload that is fetched, 0: not known; its handler has not begun. Unset: its handler runs.
  std::optional<std::uint64_t> fetching{};
};

// The entry of a consumer in the registry of a queue. Consumers write it regularly; one that has died stays listed for
// a while: see docs/operations.md. Any program that may write to the queue can write an entry, and names may have any
// bytes: escape them before you show them.
struct Worker {
  std::string consumer{};             // its id: each Consumer object has another one
  std::string name{};                 // ConsumerOptions::name
  std::string host{};                 // the name of the machine or container
  std::uint64_t pid = 0;              // the process there
  std::string version{};              // of the library
  std::vector<std::string> queues{};  // of the consumer, at most 20
  std::uint64_t queue_count = 0;      // of the consumer
  std::uint64_t busy = 0;         // handlers that run; with a handler of a Delivery: deliveries that are not settled;
                                  // of all its queues
  std::uint64_t concurrency = 0;  // the most that `busy` may be, without those that have lost their leases
  std::uint64_t in_flight = 0;    // messages of this queue that it holds, also those whose handler has not begun
  std::vector<RunningMessage> longest{};         // of this queue: at most 5, the longest running first
  std::chrono::system_clock::time_point seen{};  // when it wrote this, by Redis' clock
  // True: the entry is older than a living consumer would leave it. The consumer has died, is frozen, or is cut off
  // from Redis, and the figures above may no longer hold.
  bool overdue = false;
  // True: the entry cannot be read, because another program has written it. Then only `consumer` is set, to at most 100
  // bytes of its name.
  bool damaged = false;
};

// One change by an operator. Every client that may write to the queue's keys can write such an entry: do not trust it
// as proof, and escape its texts before you show them.
struct Action {
  std::optional<std::chrono::system_clock::time_point> at{};  // by Redis' clock; unset: the entry is not valid
  std::string who{};                                          // such as "anna@host7"; without spaces
  std::optional<std::uint64_t> messages{};  // how many were changed; unset: the queue was changed, not its messages
  std::string outcome{};                    // one word, such as "done" or "partly"
  std::string what{};                       // such as a command line; if the entry is not valid: its bytes
};

// A pause of a queue: see QueueAdmin::pause, and the verdict pause_queue().
struct Pause {
  std::string reason{};                                          // of a verdict: it begins with "held off: "
  std::optional<std::chrono::system_clock::time_point> until{};  // by Redis' clock; unset: until resume()
  // Who has set it, and when. Empty and unset: not known, as of verdicts, and of programs that do not store this.
  std::string who{};
  std::optional<std::chrono::system_clock::time_point> since{};
};

// The options of an Inspector or a QueueAdmin.
struct InspectorOptions {
  // Only this partition, from 0 on: calls concern only its messages, and calls by id look only there. Calls that
  // concern the queue as such throw std::invalid_argument. Unset: the whole queue.
  std::optional<unsigned> partition{};
};

// Any thread. The calls of an Inspector share one connection, and wait for each other. Each makes one attempt: see
// error.h for what it throws, and Producer for fork(). An Inspector of a queue that does not exist does not add its
// name to queues().
//
// Calls work in bounded steps, which block Redis for a short time only, at any length of the queue: see
// docs/operations.md.
//
// Of a queue with several partitions (see QueueAdmin::set_partitions) a call for the whole queue reads all of them, and
// throws if one cannot be read; partitions() returns the others. A call by id reads the partition that the id names.
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

  // All that is stored about one message, or the one that has the Key; unset: no such message. Does not search the
  // lists: a message whose other keys show no other state counts as ready or retry.
  [[nodiscard]] std::optional<MessageInfo> find(const MessageRef& message);
  // The same for many, in their order, with at most `payload` bytes of each payload.
  [[nodiscard]] std::vector<std::optional<MessageInfo>> find_all(const MessageRefs& messages, std::size_t payload = 64);

  // Searches all partitions, for messages that are not where their ids tell. Returns the message with this id in each
  // partition that has one.
  [[nodiscard]] std::vector<MessageInfo> find_everywhere(const MessageRef& message);

  // Unset: the queue is not paused.
  [[nodiscard]] std::optional<Pause> paused();

  // The limits of the queue. In a queue with several partitions each of these keeps its share.
  [[nodiscard]] QueueLimits limits();

  // The latest changes that QueueAdmin::record has recorded, the last one first; at most 100.
  [[nodiscard]] std::vector<Action> actions();

  // The number of partitions that the queue has, and the most that it ever had.
  [[nodiscard]] Layout layout();

  // Each partition with its counts, or why it cannot be read. Throws only if their number cannot be read.
  [[nodiscard]] std::vector<PartitionInfo> partitions();

  // The partitions that have messages, but that neither copy of the layout (in partitions 0 and 1) names. Clients that
  // start now leave them out; QueueAdmin::check repairs that. This Inspector serves those that another copy names from
  // then on. Empty also if one of the copies cannot be read, or the user has no rights for other partitions.
  [[nodiscard]] std::vector<PartitionInfo> find_lost_partitions();

  // Returns a message that a program without support for partitions seems to have sent: one in partition 0, sent after
  // the number of partitions was set, with an id of version 7 that no Producer made for this queue. Unset: none found
  // (it reads the first 1,000 of each state).
  [[nodiscard]] std::optional<MessageInfo> find_unpartitioned();

  // The registered consumers of the queue, by host and process: see Worker. At most 10,000. Not registered are
  // consumers of the Go library, of versions before the registry, and with ConsumerTuning::register_consumer off.
  [[nodiscard]] std::vector<Worker> workers();

  // Waits up to `wait` for the next event on the Go library's event channel; unset: there was none. Receives only
  // events of processes that publish them (GoCompatibility::report_events; EnableReport in Go), from the first call of
  // next_event on. Events that are published while the connection is broken are lost. Uses its own connection. One
  // thread at a time waits for events; others wait for that thread first, in addition to their `wait`.
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

}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
