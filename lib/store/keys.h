// The names of a queue's keys. No other file builds one. Names and types are those of the Go library
// HDT3213/delayqueue. This library adds attempts, reason, headers, dead, stats, paused, wake, wakes, watch, lock,
// settings, limits, running, unique, keys, schedules and what belongs to them, consumers and actions.
//
// A queue may have several partitions. Each is a complete set of keys, in another slot of a Cluster than the other
// ones. Partition 0 has the keys of a queue without partitions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace delayqueue::store {

// Most partitions of a queue. Their number is a power of two.
inline constexpr unsigned kMostPartitions = 256;

struct Keys {
  std::string base;  // <prefix>:<queue>, in braces with a hash tag; of other partitions: see make_keys

  std::string pending, ready, unack, retry, count, garbage;  // count is retry:cnt
  std::string attempts, reason, headers, dead, stats, paused, wake, watch, lock, settings;
  std::string limits, running;  // exist only while the queue has limits
  std::string unique, keys;     // exist only while the queue has messages with unique keys
  // Only of partition 0, while the queue has schedules: their definitions; the slot of the newest occurrence of each;
  // and the occurrence that may be handled, of those that do not overlap. `slots` is schedules:next, `open`
  // schedules:open.
  std::string schedules, slots, open;
  std::string wakes;      // only of partition 0: it has the wake-ups of the others
  std::string consumers;  // only of partition 0: the registry of the queue's consumers
  std::string actions;    // only of partition 0: what operators have done

  std::string bodies;   // prefix of the bodies' keys; the id follows
  std::string staged;   // prefix of the keys of staged payloads, and of the tokens of send_new; a new UUID follows
  std::string queues;   // set of the bases of all queues with this prefix; it is in another slot of a cluster
  std::string channel;  // Pub/Sub channel of the Go library's events
};

struct KeyScheme {
  std::string prefix = "dp";
  bool hash_tag = false;
  bool bodies_under_dp = false;
};

// The keys of one partition. Each partition but 0 has the base "{<prefix>:<queue>#<partition>.<s>}", with and without a
// hash tag in partition 0. `s` is the smallest number that puts it near its place in the ring of slots. The places,
// counted from the slot of partition 0, are 1/2, 1/4, 3/4, 1/8 ... of the ring: so 2^n partitions are spread evenly,
// and more partitions move none. Throws std::invalid_argument if there can be no such partition.
Keys make_keys(const std::string& queue, const KeyScheme& options, unsigned partition = 0);

// The CRC of "<prefix>:<queue>", by which the ids that were made for this queue are recognized: see partition_of().
std::uint16_t name_crc(const std::string& queue, const std::string& prefix);

// Whether a queue of this name could have the keys of another queue's partition.
bool is_partition_name(std::string_view queue);

// The name of the queue that has this base; the base itself if it has another prefix.
std::string queue_of(std::string_view base, const std::string& prefix);

}  // namespace delayqueue::store
