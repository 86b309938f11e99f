// The producers and workers of a run: started, killed, frozen, asked to stop, and started again.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "chaos/journal.h"
#include "chaos/schedule.h"

namespace chaos {

// How a process is started: by this program, with these words besides journal=... and seed=...
struct Member {
  std::string name{};  // "worker-1"
  bool works = false;  // or produces
  bool go = false;     // works in Go
  std::vector<std::string> words{};
};

// One thread does all of it: children die with the thread that made them.
class Crew {
 public:
  using Clock = std::chrono::steady_clock;

  // Everything is written into the folder: journals as "<name>.<life>.log", what they print as "<name>.<life>.err".
  Crew(std::string folder, std::vector<Member> members, std::vector<Step> steps, std::uint64_t seed,
       const Journal& journal);
  ~Crew();  // kills what still runs
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // No more faults: what was frozen goes on, what died is started again, producers are told to end. Returns when all
  // producers have ended, false if one did not within the limit.
  bool calm_down(milliseconds limit);

  // Tells all workers to end. False if one did not within the limit.
  bool stop_workers(milliseconds limit);

  // Ends that were no fault of the schedule: "<name>.<life>: exit code 66".
  std::vector<std::string> alarms() const;

 private:
  enum class Phase { faults, calm, ending, over };

  struct Process {
    Member member;
    pid_t pid = -1;
    int life = 0;
    bool killed = false;
    bool stopping = false;
    Clock::time_point start_at{};   // when it is down
    Clock::time_point thaw_at{};    // when it is frozen
    Clock::time_point killed_by{};  // stopping: killed then
    bool frozen = false;
  };

  void run();
  void reap();
  void ended(Process& process, int status);
  void revive();
  void start(Process& process);
  void apply(const Step& step);
  void signal(Process& process, int number);
  Process* choose(bool works, std::uint64_t pick);
  bool any_running(bool works) const;
  bool wait_for_end(bool works, milliseconds limit);

  const std::string folder_;
  const std::vector<Step> steps_;
  const std::uint64_t seed_;
  const Journal& journal_;
  const Clock::time_point began_ = Clock::now();
  mutable std::mutex mutex_;  // guards what follows
  std::vector<Process> processes_;
  std::vector<std::string> alarms_;
  std::size_t next_step_ = 0;
  std::atomic<Phase> phase_{Phase::faults};
  std::thread thread_;
};

}  // namespace chaos
