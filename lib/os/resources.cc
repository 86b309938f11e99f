#include "os/resources.h"

#include <fcntl.h>
#include <unistd.h>
#ifdef __APPLE__
#include <sys/random.h>
#endif

#include <cerrno>
#include <chrono>

namespace delayqueue {

std::string reason(int error) {
  std::string text = std::generic_category().message(error);
  if (error == EMFILE) text += "; raise this process's limit of open files (ulimit -n)";
  if (error == ENFILE) text += "; raise the system's limit of open files (sysctl fs.file-max)";
  return text;
}

std::pair<Descriptor, Descriptor> make_pipe() {
  int fds[] = {-1, -1};
  bool made = ::pipe(fds) == 0;
  std::pair<Descriptor, Descriptor> ends(above_standard(fds[0]), above_standard(fds[1]));
  for (const Descriptor* end : {&ends.first, &ends.second}) {
    made = made && end->get() >= 0 && ::fcntl(end->get(), F_SETFL, O_NONBLOCK) == 0;
  }
  if (!made) throw SetupError("cannot make a pipe: " + reason(errno));
  return ends;
}

std::string thread_refused(const std::string& purpose, int error) {
  std::string text = "cannot start a thread for " + purpose + ": " + reason(error);
  if (error == EAGAIN) text += "; raise the limit of processes and threads (ulimit -u; TasksMax of a systemd unit)";
  return text;
}

unsigned random_seed() {
  auto seed = static_cast<unsigned>(std::chrono::steady_clock::now().time_since_epoch().count());
  [[maybe_unused]] const int failed = ::getentropy(&seed, sizeof seed);
  return seed;
}

}  // namespace delayqueue
