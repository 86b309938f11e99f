// Processor cores: tests of busy waits need two, and run threads and servers on chosen ones.
#pragma once

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/types.h>

#include "os/cores.h"
#include "support/standard.h"

namespace test {

// The cores on which a process may run; 0: the calling thread.
inline cpu_set_t cores_of(pid_t process) {
  cpu_set_t cores;
  REQUIRE(::sched_getaffinity(process, sizeof cores, &cores) == 0);
  return cores;
}

// The n-th of these cores, counted from 0.
inline cpu_set_t only(int n, const cpu_set_t& cores) {
  cpu_set_t one;
  CPU_ZERO(&one);
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &cores) && n-- == 0) CPU_SET(core, &one);
  }
  return one;
}

// While it exists, a process runs on these cores only; 0: the calling thread.
class Pinned {
 public:
  Pinned(pid_t process, const cpu_set_t& cores) : process_(process), before_(cores_of(process)) {
    REQUIRE(::sched_setaffinity(process, sizeof cores, &cores) == 0);
  }
  ~Pinned() { ::sched_setaffinity(process_, sizeof before_, &before_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  const pid_t process_;
  const cpu_set_t before_;
};

// Returns false, and prints that the test is skipped, if this process cannot use two cores.
inline bool has_two_cores() {
  const cpu_set_t cores = cores_of(0);
  if (CPU_COUNT(&cores) >= 2 && delayqueue::usable_cpus() >= 2) return true;
  std::cout << "skipped: needs two cores, and no quota of less than two CPUs: "
            << doctest::getContextOptions()->currentTest->m_name << std::endl;
  return false;
}

}  // namespace test
