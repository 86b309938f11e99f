// stdin, stdout and stderr. The caller may have closed some of them.
#pragma once

namespace dqctl {

// Opens closed standard streams on /dev/null, so that no other file or socket gets their number. Call it before
// anything is opened. Reading from a closed stdin fails; it is not empty.
void open_standard_streams();

bool stdout_was_closed();

}  // namespace dqctl
