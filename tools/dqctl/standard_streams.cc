#include "standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <initializer_list>

namespace dqctl {
namespace {

bool without_stdout = false;

}  // namespace

void open_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    without_stdout = without_stdout || fd == STDOUT_FILENO;
    if (::open("/dev/null", O_WRONLY) != fd) std::_Exit(1);  // open() returns the lowest free number
  }
}

bool stdout_was_closed() { return without_stdout; }

}  // namespace dqctl
