// Spreader: sends the messages of one Producer to the partitions of its queue.
//
// A message whose id the library makes may go to any of the partitions that messages are sent to; its id names the one.
// A message with another id goes to the partition that this id belongs to: so a repeated send makes no second message.
//
// If a master is away, messages that were not written yet go to partitions of other masters, with new ids. So do those
// that Redis refuses because the slot of their partition moves.
#pragma once

#include "producer/circuit_breaker.h"
#include "producer/group_commit.h"
#include "producer/marker_forwarder.h"
#include "producer/partition_turns.h"
#include "queue/event_sink.h"
#include "queue/layout_keeper.h"
#include "queue/shared_connection.h"

#include <delayqueue/producer.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue {

// Any number of threads may use one Spreader.
class Spreader {
 public:
  // Does not connect. Throws std::invalid_argument.
  Spreader(const std::string& url, const std::string& queue, const ProducerOptions& options, const EventSink& sink);
  ~Spreader();

  // Sends the requests. Makes ids for the messages that have none; those with SendTerms::fresh may get another one.
  // Returns when all have been sent or have failed: see SendRequest::error. Throws SetupError if nothing was sent.
  // While the queue has one partition, the requests of one call are sent in order if each has one step.
  void send(std::vector<SendRequest>& requests);

  // A new id, which send() may replace.
  std::string new_id() const;

  // Send the move to the partition that the id belongs to. Throw what LayoutKeeper::partitions_of() throws.
  std::string cancel(const std::string& id);
  std::string reschedule(const std::string& id, const store::Due& due);

  // The connection to partition 0, and to that of an id which was sent, cancelled or rescheduled just now: reads
  // nothing.
  SharedConnection& home() { return home_.connection; }
  SharedConnection& connection_of(const std::string& id);

  // Messages that went to another partition than the one that was chosen for them first.
  std::uint64_t moved() const { return moved_; }

 private:
  struct Part;

  struct Partition {
    Partition(const std::string& url, const std::string& queue, const ProducerOptions& options,
              GroupCommit::Hooks hooks);
    Partition(const SharedConnection& home, unsigned number, std::chrono::microseconds busy_wait,
              GroupCommit::Hooks hooks);

    // The group commit that the calling thread joins. Many threads that send at the same time use two, each with its
    // own connection: while Redis executes what some of them have sent, the others wake and send again.
    GroupCommit& commit();

    SharedConnection connection;
    std::atomic<bool> has_copy{false};  // its copy of the layout was read

   private:
    GroupCommit::Answered answered_;
    GroupCommit first_;
    SharedConnection second_connection_;
    GroupCommit second_;
  };

  Partition& partition(unsigned number);
  GroupCommit::Hooks hooks(unsigned number);
  unsigned count() const;
  void read_first_layout();
  void read_copy(unsigned number);
  void prepare(unsigned number, redis::Connection& connection);
  CircuitBreaker::Probe probe(unsigned number);
  unsigned named_by(const std::string& id) const;
  unsigned partition_of(const std::string& id);

  bool all_at_home(const std::vector<SendRequest>& requests) const;
  void fail(SendRequest& request, const std::exception_ptr& error) const;
  void add_ids(SendRequest& request) const;
  std::vector<Part> parts_of(std::vector<SendRequest>& requests);
  std::vector<Part> parts_of(SendRequest& whole);
  void assign(Part& part, unsigned number) const;
  void send_parts(std::vector<Part> parts);
  std::vector<std::vector<Part>> by_server(std::vector<Part> parts);
  std::vector<Part> send_to_servers(std::vector<std::vector<Part>> servers);
  static bool is_worth_thread(const std::vector<Part>& parts);
  std::vector<Part> send_in_turn(std::vector<Part>& parts);
  void finish(Part& part);
  bool has_failed(const Part& part);
  void send_together(unsigned number, std::vector<Part>& parts);
  bool leave(Part& part);
  bool move(Part& part);
  std::optional<unsigned> next_for(Part& part);

  const std::chrono::microseconds busy_wait_;
  const std::uint16_t name_crc_;
  const bool has_one_partition_;  // by its options
  Partition home_;
  LayoutKeeper keeper_;
  std::atomic<bool> knows_layout_{false};
  std::mutex partitions_mutex_;               // guards the next
  std::map<unsigned, Partition> partitions_;  // but partition 0; made when they are first used
  std::mutex errors_mutex_;  // guards the errors of whole requests, of which several threads send parts
  PartitionTurns turns_;
  MarkerForwarder markers_;
  std::atomic<std::uint64_t> moved_{0};
  CircuitBreaker breaker_;  // last: its thread uses the members above
};

}  // namespace delayqueue
