#include "bench/probe.h"

#include <sys/resource.h>
#include <unistd.h>

#include "bench/part.h"

namespace bench {
namespace {

constexpr std::chrono::milliseconds kEvery{1};
const std::string kRequest = "*2\r\n$3\r\nGET\r\n$8\r\nstranger\r\n";
const std::string kAnswer = "$-1\r\n";

}  // namespace

Probe::Probe(const std::string& socket) : wire_(socket), thread_([this] { run(); }) {}

Probe::~Probe() {
  ending_ = true;
  if (thread_.joinable()) thread_.join();
}

const std::vector<double>& Probe::waits() {
  ending_ = true;
  thread_.join();
  return waits_;
}

void Probe::run() {
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), -20);
  auto next = Clock::now();
  do {  // at least once, however soon it ends
    std::this_thread::sleep_until(next);
    const auto sent = Clock::now();
    wire_.write(kRequest);
    wire_.read(kAnswer.size());
    for (double wait = 1000 * since(sent); wait > 0; wait -= 1) waits_.push_back(wait);
    next = std::max(next + kEvery, Clock::now());
  } while (!ending_);
}

}  // namespace bench
