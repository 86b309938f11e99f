// Text that came from a server, or out of a queue, made fit for an error or a log line.
#pragma once

#include <string>
#include <string_view>

namespace delayqueue::redis {

// Every byte that is not printable ASCII becomes \xNN: a newline forges a line of a log, ESC takes over a terminal. Of
// a long text only the beginning, and "...".
std::string escaped(std::string_view text);

}  // namespace delayqueue::redis
