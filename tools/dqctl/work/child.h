// Runs a shell command: writes its input, forwards its output, terminates it if necessary, and returns how it ended.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "work/process_reaper.h"

namespace dqctl {

using std::chrono::milliseconds;

// Why dqctl terminated a command, by SIGTERM to its process group and SIGKILL after kGrace.
enum class TerminationCause { none, timeout, lease_lost, stop };

inline constexpr milliseconds kGrace{5000};

struct Task {
  std::string command{};
  std::vector<std::string> environment{};     // NAME=value; the complete environment
  std::string_view input{};                   // for stdin; the command need not read it
  milliseconds timeout{0};                    // 0: none
  std::function<TerminationCause()> check{};  // called at least every 50 ms; any result but none terminates the command
  // Receive complete lines with their newline; a missing one is added. A line longer than 1 MiB is passed in parts.
  std::function<void(std::string_view)> out{}, err{};
};

struct CommandResult {
  int exit = -1;   // -1: a signal ended it
  int signal = 0;  // the signal that ended it; 0: none
  TerminationCause cause = TerminationCause::none;
  milliseconds duration{0};
  std::string last_error{};  // last line on stderr that is not blank, at most 4 KiB
};

// Runs a command and waits for its end. Thread-safe. The calling thread must live until the command has ended: on
// Linux the kernel kills the shell together with the thread that started it. When the shell has ended, the rest of its
// process group is killed. Throws Failure if the command cannot be started.
CommandResult run_command(const Task& task, const ProcessReaper& reaper);

}  // namespace dqctl
