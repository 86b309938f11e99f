// Runs a command by the shell: feeds it, passes on what it says, ends it when it must, and tells how it ended.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "work/keeper.h"

namespace dqctl {

using std::chrono::milliseconds;

// Why a command was ended from outside: SIGTERM to its process group, and SIGKILL after kGrace.
enum class TerminationCause { none, timeout, lease_lost, stop };

inline constexpr milliseconds kGrace{5000};

struct Task {
  std::string command{};
  std::vector<std::string> environment{};     // NAME=value, all of it
  std::string_view input{};                   // whatever is not read of it is dropped
  milliseconds timeout{0};                    // 0: none
  std::function<TerminationCause()> check{};  // asked every 50 ms
  // Whole lines, each with its end (a missing one is added): a line that grows beyond 1 MiB comes in parts.
  std::function<void(std::string_view)> out{}, err{};
};

struct CommandResult {
  int exit = -1;   // -1: a signal ended it
  int signal = 0;  // that ended it
  TerminationCause cause = TerminationCause::none;
  milliseconds duration{0};
  std::string last_error{};  // the last line on stderr that is not blank, its first 4 KiB
};

// Any thread may call it, but must not end before the command has. When the shell has ended, what is left of its
// process group is killed. Throws Failure if the command cannot be started.
CommandResult run_command(const Task& task, const ProcessReaper& reaper);

}  // namespace dqctl
