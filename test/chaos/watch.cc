#include "chaos/watch.h"

#include "chaos/worlds.h"

namespace chaos {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kElection = 3'000'000;  // the promoted replica may have lost its master so long before

}  // namespace

Watch::Watch(std::function<std::string()> master, const Journal& journal)
    : master_(std::move(master)), journal_(journal), thread_([this] { run(); }) {}

Watch::~Watch() {
  ending_ = true;
  thread_.join();
}

void Watch::run() {
  std::string known;
  std::int64_t seen_us = now_us();
  while (!ending_) {
    const bool expected = expected_ > 0;
    try {
      const std::string master = master_();
      if (expected || expected_ > 0) {
        known.clear();
      } else {
        if (!known.empty() && master != known) {
          journal_.line("fault unasked_failover from " + known + " to " + master);
          note_window(journal_, seen_us - kElection, now_us() + kLeaving);
        }
        known = master;
      }
      seen_us = now_us();
    } catch (const std::runtime_error&) {  // no master at the moment
    }
    std::this_thread::sleep_for(50ms);
  }
}

}  // namespace chaos
