#include "producer/marker_forwarder.h"

#include "redis/pipeline.h"

#include <delayqueue/error.h>

#include <exception>

namespace delayqueue {
namespace {

constexpr int kMostRounds = 8;

}  // namespace

void MarkerForwarder::add(unsigned partition, std::string due) {
  const std::lock_guard lock(mutex_);
  markers_.emplace_back(partition, std::move(due));
}

// One thread forwards the markers of all, so that a server which does not answer holds up few threads. The others go on
// sending, so it stops after some round trips, or it might never return. From its last one on another thread may begin,
// so that no marker is left behind.
void MarkerForwarder::forward() {
  std::unique_lock lock(mutex_);
  if (is_forwarding_) return;
  for (int round = 1; !markers_.empty(); ++round) {
    const auto markers = std::exchange(markers_, {});
    is_forwarding_ = round < kMostRounds;
    lock.unlock();
    send(markers);
    if (round == kMostRounds) return;
    lock.lock();
    is_forwarding_ = false;
  }
}

void MarkerForwarder::send(const std::vector<std::pair<unsigned, std::string>>& markers) {
  try {
    if (!breaker_.allows(0)) return;
    home_.with_connection([&](redis::Connection& connection) {
      redis::Pipeline pipeline(connection);
      for (const auto& [partition, due] : markers) home_.store().wake_for(pipeline, partition, due);
      pipeline.run();
    });
  } catch (const ConnectionError& e) {
    breaker_.server_failed(0, e.what());
  } catch (const std::exception&) {
  }
}

}  // namespace delayqueue
