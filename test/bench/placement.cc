#include "bench/placement.h"

#include <sched.h>

#include "os/resources.h"

namespace bench {
namespace {

// Returns false if the thread has ended or the system refuses. 0: the calling thread.
bool pin_thread(pid_t thread, const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
  return ::sched_setaffinity(thread, sizeof set, &set) == 0;
}

// Pins all threads of a process. Returns false if the system refuses it for the first one.
bool pin_process(pid_t process, const std::vector<int>& cores) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task", ignored))
    pin_thread(std::atoi(entry.path().filename().c_str()), cores);
  return pin_thread(process, cores);
}

}  // namespace

Placement::Placement(const Server& server, Cores cores) : server_(server.pid()), before_(usable_cores()) {
  const std::size_t client = cores == Cores::one ? 0 : 1;
  if (client >= before_.size()) throw std::runtime_error("placement: this process may use one core only");
  if (!pin_process(server_, {before_[0]}) || !pin_thread(0, {before_[client]}))
    throw std::runtime_error("placement: cannot pin a process to a core: " + delayqueue::reason(errno));
}

Placement::~Placement() {
  pin_process(server_, before_);
  pin_thread(0, before_);
}

std::vector<int> Placement::usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0)
    throw std::runtime_error("placement: cannot read the cores of this process: " + delayqueue::reason(errno));
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores.push_back(core);
  }
  return cores;
}

}  // namespace bench
