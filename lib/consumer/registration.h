// The entry of a consumer in the registry of a queue: see store/registry.h. Used by the consumer's thread only.
#pragma once

#include "consumer/delivery.h"
#include "consumer/link.h"
#include "consumer/served_partition.h"
#include "store/registry.h"

#include <delayqueue/consumer.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue {

// What a consumer does at one moment, for its entry in the registry of one queue.
class ConsumerActivity {
 public:
  // `busy`: handlers that run; with a DeliveryHandler: deliveries that are outstanding. Of all its queues.
  explicit ConsumerActivity(std::size_t busy) : busy_(busy) {}

  // A delivery of the queue that it holds. It must live until write_to().
  void add(const InFlightMessage& delivery);

  void write_to(store::ConsumerEntry& entry) const;

 private:
  std::size_t busy_, in_flight_ = 0;
  std::vector<std::pair<Lease::Clock::time_point, const InFlightMessage*>>
      longest_;  // running or fetched, the longest first
};

// The part of a consumer's entries that does not change. `concurrency` 0: it writes no entries.
store::ConsumerEntry profile_of(const ConsumerOptions& options, const std::deque<ServedQueue>& queues);

// The registry is for operators only. So it causes no further round trip, a failure is logged once and fails nothing
// else, and no call waits for it.
class Registration {
 public:
  using Clock = std::chrono::steady_clock;

  // `interval`: between two writes, if it has something to send anyway.
  Registration(ServedPartition& partition, milliseconds interval) : partition_(partition), interval_(interval) {}

  // Whether the entry should be written with this round trip, which has all its other requests.
  bool is_due(const RoundTrip& round_trip) const;
  void add(RoundTrip& round_trip, const ConsumerActivity& activity);

  // Whether there may be an entry.
  bool is_written() const { return written_; }
  // Removes the entry. The answer does not matter.
  void add_removal(RoundTrip& round_trip);

  // The connection was lost, or replaced: perhaps another server has no entry.
  void leave() { due_ = {}; }

 private:
  void finish(const store::Answer<bool>& written, const std::string& where);
  void failed(const std::string& why, const std::string& where);

  ServedPartition& partition_;
  const milliseconds interval_;
  Clock::time_point due_;
  bool written_ = false;
  bool failed_ = false;  // the last time
};

// How often the consumer of so many queues writes each of its entries.
milliseconds registration_interval(milliseconds poll_interval, std::size_t queues);

}  // namespace delayqueue
