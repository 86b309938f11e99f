#include "os/cores.h"

#include "os/descriptor.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <thread>

namespace delayqueue {
namespace {

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

// The contents of a small file; empty if it cannot be read. The descriptor of a std::ifstream would be inherited by
// programs that another thread starts.
std::string text_of(const std::string& file) {
  const Descriptor fd = above_standard(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text(16 * 1024, '\0');
  const auto size = ::read(fd.get(), text.data(), text.size());
  text.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  return text;
}

// `text`: the time in each period, and the period, both in us. The time is "max" (version 2) or -1 without a quota.
double quota_of(const std::string& text) {
  std::istringstream numbers(text);
  long time = 0;
  long period = 0;
  numbers >> time >> period;
  return time > 0 && period > 0 ? static_cast<double>(time) / static_cast<double>(period) : kNoQuota;
}

// Whether this thread and the process at the other end of the socket are known to share their only core.
bool share_one_core(int socket) {
#ifdef __linux__
  ucred server{};
  socklen_t size = sizeof server;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &server, &size) != 0) return false;
  if (server.pid <= 0) return false;  // unknown; as an argument of sched_getaffinity, 0 would be this thread
  cpu_set_t own;
  cpu_set_t others;
  if (::sched_getaffinity(0, sizeof own, &own) != 0) return false;
  if (::sched_getaffinity(server.pid, sizeof others, &others) != 0) return false;
  CPU_OR(&own, &own, &others);
  return CPU_COUNT(&own) == 1;
#else
  static_cast<void>(socket);
  return false;
#endif
}

}  // namespace

double usable_cpus(const std::string& root) {
  double lowest = std::thread::hardware_concurrency();
  std::istringstream groups(text_of(root + "/proc/self/cgroup"));
  for (std::string line; std::getline(groups, line);) {  // number:controllers:path; version 2 names no controllers
    const std::size_t names = line.find(':') + 1;
    const std::size_t path = line.find(":/", names) + 1;
    if (names == 0 || path == 0) continue;
    const std::string controllers = ',' + line.substr(names, path - 1 - names) + ',';
    const bool is_v2 = controllers == ",,";
    if (!is_v2 && controllers.find(",cpu,") == std::string::npos) continue;
    // The quota of a group also limits the groups below it. In a container the path may be one of the host: then only
    // the uppermost folder exists, which is that of the container.
    const std::string top = root + (is_v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu");
    for (std::string group = line.substr(path) + '/'; !group.empty();) {
      group.resize(group.rfind('/'));
      const std::string folder = top + group;
      lowest = std::min(lowest, quota_of(is_v2 ? text_of(folder + "/cpu.max")
                                               : text_of(folder + "/cpu.cfs_quota_us") + ' ' +
                                                     text_of(folder + "/cpu.cfs_period_us")));
    }
  }
  return lowest;
}

bool may_wait_busily(int socket) { return usable_cpus() >= 2 && !share_one_core(socket); }

}  // namespace delayqueue
