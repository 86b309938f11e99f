// CPU time of servers: how much they use, and masters that have a share of a core each.
#pragma once

#include "support/standard.h"

namespace test {

// CPU time of a process with all its threads, in seconds. Throws std::runtime_error if there is no such process.
double cpu_seconds(int process);

// Lets each of these processes use only this share of a core, as on slower machines of their own: stops a process while
// it has used more. Needs no rights, unlike a cgroup. The processes must outlive it.
class CpuShare {
 public:
  // share: 0.2 is a fifth of a core.
  CpuShare(const std::vector<int>& processes, double share);
  ~CpuShare();  // the processes run on
  CpuShare(const CpuShare&) = delete;
  CpuShare& operator=(const CpuShare&) = delete;

 private:
  struct Held {
    int process = 0;
    double allowed = 0;  // CPU time since its start
    bool stopped = false;
  };

  void run();
  static void adjust(Held& held, double more);

  const double share_;
  std::vector<Held> held_;  // used by the thread alone
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace test
