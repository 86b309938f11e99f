// Actions: the changes of a queue that operators have recorded. See QueueAdmin::record and Inspector::actions.
#pragma once

#include <delayqueue/export.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace delayqueue {

// One change by an operator. Every client that may write to the queue's keys can write such an entry: do not trust it
// as proof, and escape its texts before you show them.
struct Action {
  std::optional<std::chrono::system_clock::time_point> at{};  // by Redis' clock; unset: the entry is not valid
  std::string who{};                                          // such as "anna@host7"; without spaces
  std::optional<std::uint64_t> messages{};  // how many were changed; unset: the queue was changed, not its messages
  std::string outcome{};                    // one word, such as "done" or "partly"
  std::string what{};                       // such as a command line; if the entry is not valid: its bytes
};

}  // namespace delayqueue
