// Spreader: sends the messages of one Producer to the partitions of its queue.
//
// A message whose id the library makes may go to any of the partitions that messages are sent to; its id names the one.
// A message with another id goes to the partition that this id belongs to: so a repeated send makes no second message.
//
// PartSender sends them, also to other partitions if a master is away.
#pragma once

#include "producer/circuit_breaker.h"
#include "producer/group_commit.h"
#include "producer/marker_forwarder.h"
#include "producer/part_sender.h"
#include "producer/producer_partition.h"
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
  std::uint64_t moved() const { return part_sender_.moved(); }

 private:
  ProducerPartition& partition(unsigned number);
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

  const std::chrono::microseconds busy_wait_;
  const std::uint16_t name_crc_;
  const bool has_one_partition_;  // by its options
  ProducerPartition home_;
  LayoutKeeper keeper_;
  std::atomic<bool> knows_layout_{false};
  std::mutex partitions_mutex_;                       // guards the next
  std::map<unsigned, ProducerPartition> partitions_;  // but partition 0; made when they are first used
  MarkerForwarder markers_;
  PartSender part_sender_;
  CircuitBreaker breaker_;  // last: its thread uses the members above
};

}  // namespace delayqueue
