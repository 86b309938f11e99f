#include "consumer/served_queue.h"

#include <exception>

namespace delayqueue {
namespace {

constexpr std::chrono::seconds kLayoutInterval{60};  // between two readings of a copy that no lane reads

}  // namespace

QueueLayout::QueueLayout(Endpoint& endpoint)
    : endpoint_(endpoint),
      keeper_(endpoint.queue(), endpoint.key_options(), [&endpoint](unsigned partition, const auto& call) {
        Endpoint other(endpoint, partition);
        call(*other.connect_to_master());
      }) {}

void QueueLayout::read_elsewhere(BackgroundCalls& calls, std::size_t queues) {
  if (!endpoint_.is_cluster()) return;
  if (!reading_) reading_.emplace(calls);
  try {
    if (reading_->has_ended()) reading_->finish();
    // The other half is for connections: a node that does not answer these calls must not keep queues from connecting.
    const auto now = std::chrono::steady_clock::now();
    if (known().top > 1 || now < due_) return;
    if (!reading_->may_start(BackgroundCalls::kMost / 2)) return;
    due_ = now + stretched(kLayoutInterval, queues);
    reading_->start([this] { keeper_.read(); });
  } catch (const std::exception&) {  // the lanes report such failures
  }
}

void QueueLayout::wait() {
  if (reading_) reading_->wait();
}

}  // namespace delayqueue
