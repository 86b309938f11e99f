// The results of QueueAdmin's calls, one for each message of a call.
#pragma once

#include <delayqueue/export.h>

#include <cstdint>
#include <vector>

namespace delayqueue {

enum class Redriven {
  redriven,  // it is ready again, like a new message, with new retries
  no_body,   // its payload is missing, so it cannot be delivered; it was removed
  unknown,   // not a dead letter
};

enum class Released {
  released,  // it is ready, and is delivered next
  held,      // a consumer holds it: see HeldMessages
  unknown,   // in ready or retry already, a dead letter (redrive it), or no such message
};

enum class Buried {
  buried,   // it is a dead letter now, with the reason
  already,  // it was a dead letter before; its reason did not change
  held,     // a consumer holds it: see HeldMessages
  unknown,  // no such message, or it was cancelled while it was held
};

enum class Extended {
  extended,
  held,     // a consumer of this library holds it, and renews its lease while it lives: see HeldMessages
  unknown,  // not in unack, or cancelled while it was held
};

// The names of these results: "redriven", "no_body" ...
DELAYQUEUE_EXPORT const char* to_string(Redriven outcome);
DELAYQUEUE_EXPORT const char* to_string(Released outcome);
DELAYQUEUE_EXPORT const char* to_string(Buried outcome);
DELAYQUEUE_EXPORT const char* to_string(Extended outcome);

// The result of a purge() of given ids.
struct Removed {
  std::uint64_t messages = 0;   // messages deleted
  std::uint64_t places = 0;     // places freed in the state: see MessagePage::next_after
  std::vector<bool> removed{};  // for each id, in their order: whether this call deleted the message
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
