// The options of the calls of a QueueAdmin, and the results of purge_ids() and forget().
#pragma once

#include <delayqueue/export.h>
#include <delayqueue/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace delayqueue {

// How a call treats messages that are in flight (held by a consumer).
//   skip   it does not change them
//   force  it changes them, and the consumer loses the lease
enum class HeldMessages { skip, force };
DELAYQUEUE_EXPORT const char* to_string(HeldMessages held);

struct PauseOptions {
  std::optional<milliseconds> duration{};  // at least 1 ms; unset: until resume()
  std::string reason{};
  std::string who{};  // who pauses, such as "anna@host7"; its first 256 bytes are stored with the pause
};

struct RedriveOptions {
  int retries = 3;  // deliveries after the next one
};

struct RestoreOptions {
  // Replace messages that exist and that no consumer holds: state, time, payload, headers, retries, deliveries and
  // reason. Each message is replaced as a whole, or stays as it is.
  bool replace = false;
};

struct BuryOptions {
  std::string reason{};  // its first 1,024 bytes are stored; empty: the reason of the last delivery stays
  HeldMessages held = HeldMessages::skip;
};

struct PurgeOptions {
  // Only messages that have been due (pending) or dead letters (dead) for at least this long; 0 ms: all that are due.
  // Unset: all messages. Must be unset for ready and retry, whose messages have no such time.
  std::optional<milliseconds> older_than{};
  std::uint64_t limit = 0;  // most messages to remove; 0: all that existed when the call began
};

// The result of purge_ids().
struct Purged {
  std::uint64_t messages = 0;  // messages deleted
  std::uint64_t places = 0;    // places freed in the state: see MessagePage::next_after
  std::vector<bool> purged{};  // for each id, in their order: whether this call deleted the message
};

// The reasons why forget() left a queue as it is. ready and retry are upper bounds.
struct Remains {
  std::uint64_t pending = 0, ready = 0, unack = 0, retry = 0, dead = 0;
  std::uint64_t retries = 0;  // retries recorded for messages that are in no state: see check()
  bool wrong_type = false;    // a key of the queue has another type: see check()
  bool served = false;        // a consumer of this library waits for messages

  bool none() const { return pending + ready + unack + retry + dead + retries == 0 && !wrong_type && !served; }
};

}  // namespace delayqueue
