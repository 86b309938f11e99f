// Escaping of untrusted text (from a server or a queue) for error texts and log lines.
#pragma once

#include <string>
#include <string_view>

namespace delayqueue::redis {

// Replaces every byte that is not printable ASCII by \xNN, because a newline could forge a log line and ESC could
// control a terminal. Cuts a long text off and ends it with "...".
std::string escaped(std::string_view text);

}  // namespace delayqueue::redis
