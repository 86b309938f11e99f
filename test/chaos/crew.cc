#include "chaos/crew.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "chaos/worker.h"

namespace chaos {
namespace {

using namespace std::chrono_literals;

constexpr auto kStopLimit = 25s;  // the deadline of a worker's stop() is 20 s

pid_t spawn(std::vector<std::string> words, const std::string& errors) {
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, errors.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::system_error(error, std::generic_category(), words.front());
  return pid;
}

std::string own_program() {
  std::string path(4096, '\0');
  const auto size = ::readlink("/proc/self/exe", path.data(), path.size());
  if (size < 0) throw std::system_error(errno, std::generic_category(), "/proc/self/exe");
  path.resize(static_cast<std::size_t>(size));
  return path;
}

}  // namespace

Crew::Crew(std::string folder, std::vector<Member> members, std::vector<Step> steps, std::uint64_t seed,
           const Journal& journal)
    : folder_(std::move(folder)), steps_(std::move(steps)), seed_(seed), journal_(journal) {
  for (auto& member : members) {
    processes_.emplace_back();
    processes_.back().member = std::move(member);
  }
  thread_ = std::thread([this] { run(); });
}

Crew::~Crew() {
  phase_ = Phase::over;
  thread_.join();
  for (const Process& process : processes_) {
    if (process.pid < 0) continue;
    ::kill(process.pid, SIGKILL);
    ::waitpid(process.pid, nullptr, 0);
  }
}

bool Crew::calm_down(milliseconds limit) {
  {
    const std::lock_guard lock(mutex_);
    phase_ = Phase::calm;
    for (Process& process : processes_) {
      if (process.frozen) process.thaw_at = Clock::now();
      process.start_at = Clock::now();
      if (process.member.works || process.pid < 0) continue;
      signal(process, SIGCONT);
      signal(process, SIGTERM);
      process.stopping = true;
      process.killed_by = Clock::time_point::max();
    }
  }
  return wait_for_end(false, limit);
}

void Crew::replace_workers() {
  const std::lock_guard lock(mutex_);
  journal_.line("replaces all workers");
  for (Process& process : processes_) {
    if (process.member.works && process.pid >= 0 && !process.stopping && !process.killed) stop(process, Clock::now());
  }
}

bool Crew::stop_workers(milliseconds limit) {
  {
    const std::lock_guard lock(mutex_);
    phase_ = Phase::ending;
    for (Process& process : processes_) {
      if (process.pid < 0) continue;
      signal(process, SIGTERM);
      process.stopping = true;
      process.killed_by = Clock::time_point::max();
    }
  }
  return wait_for_end(true, limit);
}

bool Crew::wait_for_end(bool works, milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  while (any_running(works)) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

bool Crew::any_running(bool works) const {
  const std::lock_guard lock(mutex_);
  for (const Process& process : processes_) {
    if (process.member.works == works && process.pid >= 0) return true;
  }
  return false;
}

std::vector<std::string> Crew::alarms() const {
  const std::lock_guard lock(mutex_);
  return alarms_;
}

void Crew::run() {
  while (phase_ != Phase::over) {
    {
      const std::lock_guard lock(mutex_);
      reap();
      revive();
      while (phase_ == Phase::faults && next_step_ < steps_.size() && Clock::now() - began_ >= steps_[next_step_].at) {
        apply(steps_[next_step_++]);
      }
    }
    std::this_thread::sleep_for(5ms);
  }
}

void Crew::reap() {
  for (Process& process : processes_) {
    int status = 0;
    if (process.pid >= 0 && ::waitpid(process.pid, &status, WNOHANG) == process.pid) ended(process, status);
  }
}

void Crew::ended(Process& process, int status) {
  const std::string name = process.member.name + '.' + std::to_string(process.life);
  const auto died_of = [status](int signal) { return WIFSIGNALED(status) && WTERMSIG(status) == signal; };
  const bool poisoned = died_of(SIGKILL) && process.member.works;
  const bool unclean = WIFEXITED(status) && WEXITSTATUS(status) == kUncleanStop && phase_ == Phase::faults;
  // SIGTERM ends a process that has not installed its handler yet.
  const bool as_requested = (WIFEXITED(status) && WEXITSTATUS(status) == 0) || unclean || died_of(SIGTERM);
  const bool expected = process.killed || poisoned || (process.stopping && as_requested);
  const std::string how = WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                              : "exit code " + std::to_string(WEXITSTATUS(status));
  journal_.line("ended " + name + ' ' + how);
  if (!expected) alarms_.push_back(name + ": " + how + "; see " + name + ".err");
  if (poisoned && !process.killed) process.start_at = Clock::now() + 50ms;
  process.pid = -1;
  process.killed = process.stopping = process.frozen = false;
}

void Crew::revive() {
  const auto now = Clock::now();
  for (Process& process : processes_) {
    if (process.frozen && now >= process.thaw_at) {
      signal(process, SIGCONT);
      process.frozen = false;
      journal_.line("thawed " + process.member.name);
    }
    if (process.stopping && process.pid >= 0 && now >= process.killed_by) {
      alarms_.push_back(process.member.name + '.' + std::to_string(process.life) + ": did not stop in time");
      process.killed = true;
      signal(process, SIGKILL);
    }
    const bool wanted = phase_ == Phase::faults || (phase_ == Phase::calm && process.member.works);
    if (process.pid < 0 && wanted && now >= process.start_at) start(process);
  }
}

void Crew::start(Process& process) {
  ++process.life;
  const std::string name = process.member.name + '.' + std::to_string(process.life);
  const std::string path = folder_ + '/' + name;
  const std::string& program = process.member.program;
  std::vector<std::string> words{program.empty() ? own_program() : program, process.member.go      ? "go"
                                                                            : process.member.works ? "work"
                                                                                                   : "produce"};
  words.insert(words.end(), process.member.words.begin(), process.member.words.end());
  words.push_back("name=" + process.member.name);
  words.push_back("journal=" + path + ".log");
  std::seed_seq mixed(name.begin(), name.end());
  std::uint32_t own = 0;
  mixed.generate(&own, &own + 1);
  words.push_back("seed=" + std::to_string((seed_ << 20 ^ own) >> 1));
  process.pid = spawn(std::move(words), path + ".err");
  journal_.line("started " + name + " pid " + std::to_string(process.pid));
}

void Crew::apply(const Step& step) {
  const bool works = step.kind.find("worker") != std::string::npos;
  Process* process = choose(works, step.pick);
  if (process == nullptr) return;
  journal_.line("fault " + step.kind + ' ' + process->member.name + ' ' + std::to_string(step.lasts.count()));
  if (step.kind.rfind("kill", 0) == 0) {
    process->killed = true;
    process->start_at = Clock::now() + step.lasts;
    signal(*process, SIGKILL);
  } else if (step.kind.rfind("freeze", 0) == 0) {
    process->frozen = true;
    process->thaw_at = Clock::now() + step.lasts;
    signal(*process, SIGSTOP);
  } else {  // deploy
    stop(*process, Clock::now() + step.lasts);
  }
}

void Crew::stop(Process& process, Clock::time_point start_at) {
  process.stopping = true;
  process.killed_by = Clock::now() + kStopLimit;
  process.start_at = start_at;
  signal(process, SIGTERM);
}

void Crew::signal(Process& process, int number) {
  if (process.pid >= 0) ::kill(process.pid, number);
}

// Picks a process without a fault, and never the last one of its kind.
Crew::Process* Crew::choose(bool works, std::uint64_t pick) {
  std::vector<Process*> fit;
  for (Process& process : processes_) {
    const bool free = process.pid >= 0 && !process.frozen && !process.stopping && !process.killed;
    if (process.member.works == works && free) fit.push_back(&process);
  }
  return fit.size() < 2 ? nullptr : fit[pick % fit.size()];
}

}  // namespace chaos
