#include "bench/peers.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <vector>

#include "bench/child.h"
#include "os/resources.h"

namespace bench {
namespace {

std::atomic<pid_t> running{-1};

}  // namespace

void run_peers(Bench& bench, const std::string& program) {
  bench.server.flush();
  const Scale& scale = bench.scale;
  const auto number = [](auto value) { return std::to_string(value); };
  std::vector<std::string> words{program, "--url", bench.server.url(), "--socket", bench.server.socket(), "--private"};
  words.insert(words.end(), {"--count", number(scale.compared), "--repeat", number(scale.repetitions)});
  words.insert(words.end(), {"--late", number(scale.late_messages), "--waiting", number(scale.messages)});
  words.insert(words.end(), {"--idle", number(std::max<long long>(1, scale.idle / std::chrono::seconds(1)))});
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("peers: " + delayqueue::reason(errno));
  const delayqueue::Descriptor reading(ends[0]);
  {
    const delayqueue::Descriptor writing(ends[1]);
    running = spawn(words, -1, writing.get());
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
