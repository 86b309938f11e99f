// PartSender: sends the messages of a Producer to the partitions that were chosen for them; a large batch to those of
// several servers at the same time.
//
// If a master is away, messages that were not written yet go to partitions of other masters, with new ids. So do those
// that Redis refuses because the slot of their partition moves.
#pragma once

#include "producer/circuit_breaker.h"
#include "producer/marker_forwarder.h"
#include "producer/partition_turns.h"
#include "producer/producer_partition.h"
#include "producer/send_request.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace delayqueue {

// Messages of one request that go to the same partition.
struct Part {
  SendRequest* whole = nullptr;  // that it is a part of
  bool spreads = false;          // to any partition; else to the one of the ids
  unsigned partition = 0;
  SendRequest request{};
  std::vector<std::size_t> places{};  // of its messages in the whole request
  std::size_t bytes = 0;              // of payloads and headers
  int moves = 0;                      // to another partition
  bool waits = false;                 // it stays where it is, also if the server does not answer

  bool has_room(std::size_t size) const {
    return !spreads || (places.size() < store::kBatch && bytes + size <= kMostBytes);
  }

  void add(std::size_t place) {
    const PendingMessage& message = whole->messages[place];
    request.messages.push_back(message);
    request.sent.push_back({whole->sent[place].id, false});
    places.push_back(place);
    bytes += message.size();
  }

  static constexpr std::size_t kMostBytes = 256 * 1024;
};

// Any number of threads may use one PartSender.
class PartSender {
 public:
  // The threads that send() starts call these functions, too.
  struct Partitions {
    std::function<ProducerPartition&(unsigned number)> at;
    std::function<unsigned()> count;  // those that messages are sent to
  };

  // name_crc: for new ids.
  PartSender(Partitions partitions, std::uint16_t name_crc, CircuitBreaker& breaker, MarkerForwarder& markers);

  // Gives the messages of a part ids of the partition whose turn it is. Throws SetupError.
  void choose_partition(Part& part);

  // Sends the parts, and gives ids and results to their requests. Returns when all have been sent or have failed.
  void send(std::vector<Part> parts);

  // Messages that went to another partition than the one that was chosen for them first.
  std::uint64_t moved() const { return moved_; }

 private:
  void assign(Part& part, unsigned number) const;
  std::vector<Part> send_round(std::vector<Part> parts);
  std::vector<Part> send_in_threads(std::vector<Part>& here, std::map<std::string, std::vector<Part>>& apart);
  std::vector<std::string> servers_of(const std::vector<Part>& parts) const;
  static std::set<std::string> worth_threads(const std::vector<Part>& parts, const std::vector<std::string>& servers);
  std::vector<Part> send_in_turn(std::vector<Part>& parts);
  void send_together(unsigned number, std::vector<Part>& parts);
  bool leave(Part& part);
  bool move(Part& part);
  std::optional<unsigned> next_for(Part& part);
  void finish(Part& part);
  bool has_failed(const Part& part);

  const Partitions partitions_;
  const std::uint16_t name_crc_;
  CircuitBreaker& breaker_;
  MarkerForwarder& markers_;
  PartitionTurns turns_;
  std::atomic<std::uint64_t> moved_{0};
  std::atomic<bool> has_threads_{false};  // a call sends in threads
  std::mutex errors_mutex_;               // guards the errors of whole requests, of which several threads send parts
};

}  // namespace delayqueue
