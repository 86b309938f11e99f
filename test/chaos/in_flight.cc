#include "chaos/in_flight.h"

namespace chaos {
namespace {

using namespace std::chrono_literals;

}  // namespace

InFlight::InFlight(const std::string& url, const std::string& queue, std::uint64_t most, bool looks,
                   const Journal& journal)
    : inspector_(url, queue), limit_(most), journal_(journal) {
  delayqueue::QueueLimits limits;
  limits.running = most;
  limits.rate = delayqueue::Rate{2000, 1000ms, 500};
  if (!delayqueue::QueueAdmin(url, queue).set_limits(limits)) throw std::runtime_error("limits: others were set");
  if (looks) thread_ = std::thread([this] { run(); });
}

InFlight::~InFlight() { end(); }

std::vector<Breach> InFlight::end() {
  ending_ = true;
  if (thread_.joinable()) thread_.join();
  return found_;
}

// A page is read by one script call: at one moment.
void InFlight::run() {
  delayqueue::ListOptions page;
  page.limit = 1000;
  page.payload = 0;
  while (!ending_) {
    try {
      const auto messages = inspector_.list(delayqueue::State::unack, page);
      const auto held = static_cast<std::size_t>(
          std::count_if(messages.begin(), messages.end(), [](const auto& message) { return message.held; }));
      ++looks_;
      most_ = std::max<std::size_t>(most_, held);
      if (held > limit_) {
        found_.push_back({"more in flight than the limit allows", std::to_string(held), {}});
        journal_.line(found_.back().rule + ' ' + found_.back().id);
      }
    } catch (const delayqueue::Error& e) {
      journal_.line(std::string("look_failed ") + e.what());
    }
    std::this_thread::sleep_for(20ms);
  }
}

}  // namespace chaos
