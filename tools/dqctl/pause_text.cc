#include "pause_text.h"

#include <optional>

namespace dqctl {

std::string pauser_text(const delayqueue::Pause& pause, Time now) {
  if (pause.who.empty() && !pause.since) return "";
  return ", set" + (pause.who.empty() ? "" : " by " + printable(pause.who)) +
         (pause.since ? ' ' + since_text(*pause.since, now) : "");
}

void add_pause(Object& object, const delayqueue::Pause& pause) {
  object.add("paused_why", pause.reason).add("paused_until", pause.until);
  object.add("paused_by", pause.who.empty() ? std::nullopt : std::optional(pause.who));
  object.add("paused_since", pause.since);
}

}  // namespace dqctl
