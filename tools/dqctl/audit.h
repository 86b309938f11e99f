// Records what dqctl has changed in the queue's list of operators' actions, on request: --audit, DQCTL_AUDIT=1.
#pragma once

#include <delayqueue/queue_admin.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dqctl {

class Context;

// A change that was made to a queue.
struct Change {
  std::string queue{};
  std::optional<std::uint64_t> messages{};  // unset: a change of the queue as such
  std::uint64_t unconfirmed = 0;            // more messages that may be changed: the answer is lost
};

// Who runs dqctl, such as "anna@host7". A user without an entry in the system's list is named by the number.
std::string operator_name();

// Records an action. The change is made already, so a failure is not thrown: the result is its text, which must be
// shown escaped; empty: it is recorded.
std::string record_action(delayqueue::QueueAdmin& admin, const delayqueue::Action& action);

// The same of a change that this program has made. what: a command line.
std::string record_change(Context& context, const Change& change, const std::string& outcome, const std::string& what);

// Records the changes that Context::note_change() has collected, if the user has requested it. words: the arguments of
// dqctl. A failure is a warning on stderr.
void record_changes(Context& context, const std::vector<std::string>& words, const std::string& outcome);

}  // namespace dqctl
