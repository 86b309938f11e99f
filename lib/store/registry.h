// The registry of a queue's consumers: what each of them does. It is for operators: no move reads it. Each consumer
// writes its entry from time to time, into the hash `consumers` of partition 0, and an entry that is not written again
// ends. See docs/protocol.md for the format.
#pragma once

#include "redis/pipeline.h"
#include "store/keys.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace delayqueue::store {

using redis::Answer;
using redis::Pipeline;
using std::chrono::milliseconds;

inline constexpr std::size_t kMostConsumers = 10'000;  // entries of a registry
inline constexpr std::size_t kMostRunning = 5;         // messages that an entry names
inline constexpr std::size_t kMostQueues = 20;         // queues that an entry names
inline constexpr std::size_t kLongestName = 100;       // bytes; of a host, a queue ...
inline constexpr std::size_t kLongestValue = 16'384;   // bytes of an entry; those of this library are shorter
inline constexpr milliseconds kLongestEntry{86'400'000};

// An entry ends when its consumer has not written it for so many intervals and this time.
inline constexpr int kMissedWrites = 3;
inline constexpr milliseconds kRegistryGrace{30'000};

struct RunningEntry {
  std::string id;
  milliseconds running{0};  // for how long its handler ran, or its payload was fetched, when the entry was written
  // The bytes of a payload that is fetched alone, 0: not known; its handler has not begun. Unset: its handler runs.
  std::optional<std::uint64_t> fetching{};
};

struct ConsumerEntry {
  std::string name{};  // that the user has chosen; empty: none
  std::string host{};
  std::uint64_t pid = 0;
  std::string version{};
  std::vector<std::string> queues{};  // some of them
  std::uint64_t queue_count = 0;
  std::uint64_t busy = 0, concurrency = 0;
  std::uint64_t in_flight = 0;            // of this queue
  std::vector<RunningEntry> running{};    // of this queue, the longest first
  std::int64_t ends_us = 0, seen_us = 0;  // when it ends, and when it was written: by the clock of Redis
};

// The lines of an entry, without its times. Cuts names and lists to the limits above.
std::string lines_of(const ConsumerEntry& entry);

// Whether a consumer that lives would have written the entry again. One without other requests writes at the second
// interval.
bool is_overdue(const ConsumerEntry& entry, std::int64_t now_us);

// The first bytes of a text, at most kLongestName, without a part of a UTF-8 character at the end.
std::string_view cut(std::string_view text);

// Reads an entry as the hash has it; unset: a consumer of this library has not written it.
std::optional<ConsumerEntry> entry_of(std::string_view value);

// Writes an entry, which ends after `valid`, and removes some that have ended. False: there are kMostConsumers entries
// of others.
Answer<bool> register_consumer(Pipeline& pipeline, const Keys& keys, std::string_view consumer, std::string_view lines,
                               milliseconds valid);

// Removes the entry of a consumer.
Answer<bool> unregister_consumer(Pipeline& pipeline, const Keys& keys, std::string_view consumer);

// The names of the entries, in any order: all, or kMostConsumers of more. Another program may have written any name and
// value, so the values are read only after their lengths: entry_of() refuses those above kLongestValue.
Answer<std::vector<std::string>> consumer_names(Pipeline& pipeline, const Keys& keys);
Answer<std::size_t> entry_length(Pipeline& pipeline, const Keys& keys, std::string_view consumer);
// Unset: there is none any more.
Answer<std::vector<std::optional<std::string>>> entries(Pipeline& pipeline, const Keys& keys,
                                                        const std::vector<std::string>& consumers);

}  // namespace delayqueue::store
