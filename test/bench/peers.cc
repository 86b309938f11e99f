#include "bench/peers.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <vector>

#include "os/resources.h"

extern char** environ;

namespace bench {
namespace {

std::atomic<pid_t> running{-1};

// Starts a program with its stdout on the pipe. Its signal mask is empty, unlike that of this process.
pid_t start(std::vector<std::string> words, int output) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_t how;
  ::posix_spawnattr_init(&how);
  ::posix_spawnattr_setsigmask(&how, &none);
  ::posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = -1;
  const int failed = ::posix_spawn(&pid, argv[0], &actions, &how, argv.data(), environ);
  ::posix_spawnattr_destroy(&how);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw std::runtime_error("peers: " + words[0] + ": " + delayqueue::reason(failed));
  return pid;
}

}  // namespace

void run_peers(Bench& bench, const std::string& program) {
  bench.server.flush();
  std::vector<std::string> words{program, "--url", bench.server.url(), "--socket", bench.server.socket(), "--private"};
  if (bench.scale.name != "full") words.emplace_back("--quick");
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("peers: " + delayqueue::reason(errno));
  const delayqueue::Descriptor reading(ends[0]);
  {
    const delayqueue::Descriptor writing(ends[1]);
    running = start(words, writing.get());
  }
  std::string output;
  char bytes[4096];
  for (ssize_t size = 0; (size = ::read(reading.get(), bytes, sizeof bytes)) > 0;) {
    output.append(bytes, static_cast<std::size_t>(size));
  }
  int status = 0;
  ::waitpid(running.exchange(-1), &status, 0);
  if (status != 0) throw std::runtime_error("peers: " + program + " failed");
  bench.figures.peers(output);
  bench.server.flush();
}

void end_peers() noexcept {
  if (const pid_t pid = running; pid > 0) ::kill(pid, SIGTERM);
}

}  // namespace bench
