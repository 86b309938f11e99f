// What operators have done with a queue: see QueueAdmin::record and Inspector::actions.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace delayqueue {

// One change by an operator. Every client that may write to the queue's keys can write such an entry: do not trust it
// as proof, and escape its texts before you show them.
struct Action {
  std::optional<std::chrono::system_clock::time_point> at{};  // by Redis' clock; unset: the entry is not a valid one
  std::string who{};                                          // such as "anna@host7"; without spaces
  std::optional<std::uint64_t> messages{};  // how many were changed; unset: the change concerned the queue as such
  std::string outcome{};                    // one word, such as "done" or "partly"
  std::string what{};                       // such as a command line; of an entry that is not a valid one: its bytes
};

}  // namespace delayqueue
