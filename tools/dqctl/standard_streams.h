// stdin, stdout and stderr, of which the caller may have closed some.
#pragma once

namespace dqctl {

// Opens those that are closed on /dev/null, so that no other file or socket gets their number. To be called before
// anything else opens one. Reading from a stdin that was closed fails; it is not empty.
void open_standard_streams();

bool stdout_was_closed();

}  // namespace dqctl
