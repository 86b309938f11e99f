// Router: sends the messages of one Producer to the partitions of its queue. Nothing else in this folder knows of
// partitions.
//
// A message whose id the library makes may go to any of the partitions that messages are sent to; its id names the one.
// A message with another id goes to the partition that this id belongs to: so a repeated send makes no second message.
//
// A call of the user is a SendRequest. Its messages for one partition are a part of it, and a Slice for the GroupCommit
// of that partition. That sends a slice in steps; steps of several slices, with the same terms, share a script call.
//
// If a master is away, messages that were not written yet go to partitions of other masters, with new ids. So do those
// that Redis refuses because the slot of their partition moves. What may have been written stays in doubt.
#pragma once

#include "os/interrupt.h"
#include "producer/circuit_breaker.h"
#include "producer/group_commit.h"
#include "queue/failure_reporter.h"
#include "queue/layout_keeper.h"
#include "queue/shared_connection.h"
#include "redis/failure.h"
#include "redis/socket.h"

#include <delayqueue/producer.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace delayqueue {

// The messages of one call of the user, and what became of them.
struct SendRequest {
  std::vector<PendingMessage> messages{};
  std::optional<bool> bodies_first{};       // see Slice
  milliseconds patience{0};                 // the same
  std::optional<redis::Failure> failure{};  // of some of them; later ones may not have been sent

  // Sets `failure`, as Slice::fail() does.
  void fail(const redis::Failure& with);

  // The error of the call; a ConnectionError has the ids of all messages. There must be a failure.
  std::exception_ptr error() const;
};

// Which partition gets the next messages of a Producer: all threads send to the same one, until it has been given 200
// messages or a round trip to it has ended, and then to the next one. So threads that send at the same time share round
// trips, as in a queue without partitions. Any number of threads may use one.
class PartitionTurns {
 public:
  // The one of `count` partitions that gets so many messages. Leaves out those that allows(partition) is false for; if
  // it allows none, it is the next one: sends to it fail unless it is back.
  template <class Allows>
  unsigned choose(std::size_t messages, unsigned count, const Allows& allows) {
    const std::lock_guard lock(mutex_);
    begin();
    if (given_ >= store::kBatch || current_ >= count || !allows(current_)) go_on(count, allows);
    given_ += messages;
    return current_;
  }

  // A round trip to the partition has ended.
  template <class Allows>
  void go_on_from(unsigned partition, unsigned count, const Allows& allows) {
    const std::lock_guard lock(mutex_);
    if (current_ == partition) go_on(count, allows);
  }

 private:
  template <class Allows>
  void go_on(unsigned count, const Allows& allows) {
    given_ = 0;
    const unsigned next = (current_ + 1) % count;
    unsigned allowed = next;
    while (!allows(allowed) && allowed != current_ % count) allowed = (allowed + 1) % count;
    current_ = allows(allowed) ? allowed : next;
  }
  void begin();

  std::mutex mutex_;  // guards the rest
  bool has_begun_ = false;
  unsigned current_ = 0;
  std::size_t given_ = 0;  // messages that it has been given
};

// Any number of threads may use one Router.
class Router {
 public:
  using Clock = redis::Clock;

  // Does not connect. Throws std::invalid_argument.
  Router(const Client& client, const std::string& queue, const ProducerOptions& options, FailureReporter& failures);
  ~Router();
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

  // Sends the requests. Makes ids for the messages that have none, which are those with SendTerms::new_ids. Returns
  // when all have been sent or have failed. While the queue has one partition, the requests of one call are sent in
  // order if each has one step and nothing is repeated. `began`: when the call began. Repeats what has failed because a
  // server is away, until it succeeds, the server has been away for send_timeout, or nothing has succeeded for so long.
  void send(std::vector<SendRequest>& requests, Clock::time_point began);

  // Send the move to the partition that the id belongs to, and repeat it likewise; a cancel only while nothing of it
  // was written: after a lost answer the repeat would find no message. Throw what LayoutKeeper::partitions_of() throws.
  std::string cancel(const std::string& id);
  std::string reschedule(const std::string& id, const store::Due& due);
  // The same for the message that has this unique key.
  std::string cancel_by_key(const std::string& key);
  std::string reschedule_by_key(const std::string& key, const store::Due& due);

  // The connection to partition 0, and to that of an id which was sent, cancelled or rescheduled just now: reads
  // nothing.
  SharedConnection& home();
  SharedConnection& connection_of(const std::string& id);

  // Messages that went to another partition than the one that was chosen for them first.
  std::uint64_t moved() const { return moved_; }

 private:
  struct Partition;
  struct Part;
  using Parts = std::vector<Part*>;

  Partition& partition(unsigned number);
  std::string server_of(unsigned number);
  unsigned count() const;
  std::optional<redis::Failure> read_first_layout();
  void read_copy(unsigned number);
  unsigned named_by(const std::string& id) const;
  unsigned known(unsigned named) const;
  unsigned partition_of(const std::string& id);

  struct Repeat;
  void attempt(std::vector<SendRequest>& requests);
  void repeat(std::vector<SendRequest>& requests, Clock::time_point began);
  std::vector<Repeat> repeats_of(std::vector<SendRequest>& requests) const;
  std::set<unsigned> stay_of(const Repeat& repeat) const;
  Clock::time_point end_of(const std::set<unsigned>& stay, bool any_moves, Clock::time_point end,
                           std::vector<std::string>& servers);
  bool wait(unsigned named, Clock::time_point until);
  bool wait(std::vector<Repeat>& repeats, Clock::time_point until);
  void explain(redis::Failure& failure, unsigned named, int attempts, Clock::time_point began);
  template <class Call>
  std::string repeat_in(unsigned named, bool repeats_in_doubt, Call call);
  template <class Change, class HasWritten>
  std::string change_by_key(const std::string& key, Change change, HasWritten has_written, bool& in_doubt);

  std::optional<redis::Failure> give_ids(const std::vector<PendingMessage*>& messages, unsigned number,
                                         bool replaces) const;
  void fail(SendRequest& request, redis::Failure failure) const;
  class Turns;
  std::vector<Part> parts_of(std::vector<SendRequest>& requests);
  void add_parts(SendRequest& whole, Turns& turns, std::vector<Part>& parts);
  void remove_overtaking(const std::vector<SendRequest>& requests, Parts& parts);
  void name_holders(Part& part);
  void remember_holders(const Part& part);
  Parts send_round(Parts parts);
  Parts send_in_threads(const Parts& here, const std::map<std::string, Parts>& apart);
  std::vector<std::string> servers_of(const Parts& parts);
  static std::set<std::string> worth_threads(const Parts& parts, const std::vector<std::string>& servers);
  Parts send_one_by_one(const Parts& parts);
  void send_together(unsigned number, const Parts& parts);
  void finish(Part& part);
  bool has_failed(const Part& part);
  bool is_sent_again(Part& part);

  bool move_before_send(Part& part);
  bool move_after_failure(Part& part);
  std::optional<unsigned> next_for(Part& part);
  unsigned choose(const Part& part);
  bool allows(unsigned number);
  bool allows_all();
  bool has_prober();
  bool server_failed(unsigned number, const redis::Failure& failure);
  bool probe(unsigned number);
  void on_outage(const std::string& server, const std::string& why);

  void forward(unsigned number, std::vector<std::string> dues);
  void send_markers(const std::vector<std::pair<unsigned, std::string>>& markers);

  const std::chrono::microseconds busy_wait_;
  const milliseconds send_timeout_;
  const std::uint16_t name_crc_;
  const bool has_one_partition_;  // by its options
  const std::unique_ptr<Partition> home_;
  LayoutKeeper keeper_;
  std::mutex partitions_mutex_;                                // guards the next
  std::map<unsigned, std::unique_ptr<Partition>> partitions_;  // but partition 0; made when they are first used
  std::atomic<bool> knows_layout_{false};
  PartitionTurns turns_;
  std::mutex holders_mutex_;                                 // guards the next
  std::map<std::string, std::string, std::less<>> holders_;  // the last message of some unique keys, by these
  std::atomic<std::uint64_t> moved_{0};
  std::atomic<bool> has_threads_{false};  // a call sends in threads
  std::mutex failures_mutex_;             // guards the failures of requests, of which several threads send parts
  std::mutex markers_mutex_;              // guards the next two
  std::vector<std::pair<unsigned, std::string>> markers_;  // to be forwarded, with their partitions
  bool is_forwarding_ = false;
  FailureReporter& reporter_;
  std::set<std::string> away_;  // servers that were away, as the sources of failures; for the thread of the Outages
  CircuitBreaker breaker_;
  std::mutex prober_mutex_;                      // guards the next two
  std::unique_ptr<Interrupt> prober_interrupt_;  // made with the thread
  std::thread prober_;                           // sends the probes; started by the first failure
};

}  // namespace delayqueue
