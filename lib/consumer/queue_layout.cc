#include "consumer/queue_layout.h"

#include "consumer/polling.h"
#include "queue/layout_keeper.h"

#include <exception>

namespace delayqueue {
namespace {

constexpr std::chrono::seconds kLayoutInterval{60};  // between two readings of a copy that no lane reads

}  // namespace

void QueueLayout::read_elsewhere(BackgroundCalls& calls, std::size_t queues) {
  if (!endpoint_.is_cluster()) return;
  if (!reading_) reading_.emplace(calls);
  try {
    if (reading_->has_ended()) learn(reading_->finish());
    // The other half is for connections: a node that does not answer these calls must not keep queues from connecting.
    const auto now = std::chrono::steady_clock::now();
    if (known_.top > 1 || now < due_) return;
    if (!reading_->may_start(BackgroundCalls::kMost / 2)) return;
    due_ = now + stretched(kLayoutInterval, queues);
    reading_->start([&home = endpoint_] {
      const auto with_connection = [&](unsigned partition, const auto& call) {
        Endpoint endpoint(home, partition);
        call(*endpoint.connect_to_master());
      };
      LayoutKeeper keeper(home.queue(), home.key_options(), with_connection);
      keeper.read();
      return keeper.known();
    });
  } catch (const std::exception&) {  // the lanes report such failures
  }
}

void QueueLayout::wait() {
  if (reading_) reading_->wait();
}

}  // namespace delayqueue
