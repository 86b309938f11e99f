// The bodies of requests that change something.
#pragma once

#include <delayqueue/message.h>

#include <cstdint>
#include <optional>
#include <string>

#include "parse.h"

namespace dqctl {

enum class Action { pause, resume, redrive, purge, release, cancel, reschedule, redrive_one };

// "pause" ...; "redrive" for both of its forms.
const char* to_string(Action action);

// The action at the end of a path; by_id: below a message. Unset: there is none with this name.
std::optional<Action> action_of(const std::string& name, bool by_id);

// The fields of all actions; those of others are unset.
struct ChangeRequest {
  Action action{};
  bool dry_run = true;
  std::string reason{};                // pause: why
  std::optional<milliseconds> span{};  // pause: for how long
  bool replace = false;
  std::optional<When> when{};          // reschedule
  int retries = 3;                     // redrive
  std::optional<std::string> match{};  // redrive, purge: pattern for the reason of the last failure
  std::optional<milliseconds> older_than{};
  std::uint64_t at_most = 0;            // messages to change
  std::optional<std::string> cursor{};  // redrive, purge: where the part before ended
  delayqueue::State state = delayqueue::State::dead;
};

// Parses the body for this action. Accepts any bytes. Throws HttpError or Usage.
ChangeRequest parse_change(Action action, const std::string& body);

}  // namespace dqctl
