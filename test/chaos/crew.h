// The producers and workers of a run. Starts, kills, freezes, stops and restarts their processes.
#pragma once

#include <sys/types.h>

#include "chaos/journal.h"
#include "chaos/schedule.h"

namespace chaos {

// The command line of a process: this program with these words, and with journal=... and seed=...
struct Member {
  std::string name{};  // "worker-1"
  bool works = false;  // otherwise it produces
  bool go = false;     // a worker in Go
  std::vector<std::string> words{};
  std::string program{};  // empty: this one
};

// One thread manages all processes, because the kernel kills a child when the thread that forked it ends.
class Crew {
 public:
  using Clock = std::chrono::steady_clock;

  // Writes into the folder: journals as "<name>.<life>.log", stderr of the processes as "<name>.<life>.err".
  Crew(std::string folder, std::vector<Member> members, std::vector<Step> steps, std::uint64_t seed,
       const Journal& journal);
  ~Crew();  // kills what still runs
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Ends the faults: continues frozen processes, restarts dead ones, and stops the producers. Returns true when all
  // producers have ended, false after the limit.
  bool calm_down(milliseconds limit);

  // Stops all workers and starts new ones, as a deploy does.
  void replace_workers();

  // Stops all workers. Returns false if one does not end within the limit.
  bool stop_workers(milliseconds limit);

  // Ends of processes that the schedule did not cause: "<name>.<life>: exit code 66".
  std::vector<std::string> alarms() const;

 private:
  enum class Phase { faults, calm, ending, over };

  struct Process {
    Member member;
    pid_t pid = -1;
    int life = 0;
    bool killed = false;
    bool stopping = false;
    Clock::time_point start_at{};   // time of the restart, while it is down
    Clock::time_point thaw_at{};    // time of SIGCONT, while it is frozen
    Clock::time_point killed_by{};  // while stopping: time at which it is killed
    bool frozen = false;
  };

  void run();
  void reap();
  void ended(Process& process, int status);
  void revive();
  void start(Process& process);
  void apply(const Step& step);
  void stop(Process& process, Clock::time_point start_at);
  void signal(Process& process, int number);
  Process* choose(bool works, std::uint64_t pick);
  bool any_running(bool works) const;
  bool wait_for_end(bool works, milliseconds limit);

  const std::string folder_;
  const std::vector<Step> steps_;
  const std::uint64_t seed_;
  const Journal& journal_;
  const Clock::time_point began_ = Clock::now();
  mutable std::mutex mutex_;  // guards the following members
  std::vector<Process> processes_;
  std::vector<std::string> alarms_;
  std::size_t next_step_ = 0;
  std::atomic<Phase> phase_{Phase::faults};
  std::thread thread_;
};

}  // namespace chaos
