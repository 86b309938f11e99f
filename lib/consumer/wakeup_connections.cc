#include "consumer/wakeup_connections.h"

#include "consumer/polling.h"
#include "store/keys.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace delayqueue {
namespace {

// In a Cluster each queue needs a connection that waits for its wake-ups. Further queues are polled.
constexpr std::size_t kMostListeners = 16;

// The partition of a member of `wakes`; nullopt if another program wrote it.
std::optional<unsigned> partition_in(const WakeupListener::Marker& marker) {
  unsigned partition = 0;
  const char* const end = marker.member.data() + marker.member.size();
  const auto [read_to, error] = std::from_chars(marker.member.data(), end, partition);
  const bool is_one = error == std::errc() && read_to == end && partition > 0 && partition < store::kMostPartitions;
  return is_one ? std::optional(partition) : std::nullopt;
}

}  // namespace

void WakeupConnections::add(ServedQueue& queue) {
  const bool is_cluster = queue.endpoint.is_cluster();
  if (connections_.empty() || is_cluster) {
    const bool is_only = !is_cluster || queues_.size() == 1;
    connections_.emplace_back(queue.endpoint, options_.connection.command_timeout, is_only ? nullptr : &calls_);
    connections_.back().enabled = connections_.size() <= kMostListeners;
  }
  connections_.back().queues.push_back(&queue);
}

void WakeupConnections::read() {
  for (Connection& one : connections_) {
    while (const auto marker = one.listener.read()) {
      for (ServedQueue* queue : one.queues) read(*queue, *marker);
    }
  }
}

// The members of `wakes` are numbers of partitions.
void WakeupConnections::read(ServedQueue& queue, const WakeupListener::Marker& marker) {
  Lane& home = *queue.lanes[0];
  if (marker.key == home.wake_key()) return home.wake(marker);
  if (marker.key != home.wakes_key()) return;
  const auto partition = partition_in(marker);
  if (!partition) {
    queue.clears_wakes = true;  // there may be a million more
  } else if (*partition < queue.lanes.size()) {
    WakeupListener::Marker own = marker;
    own.foreign = false;
    queue.lanes[*partition]->wake(own);
  } else {  // its sender has a later layout
    for (Lane* lane : queue.lanes) lane->read_layout_soon();
    queue.layout.read_elsewhere_soon();
  }
}

// Begins to wait for wake-ups.
void WakeupConnections::listen(const std::vector<bool>& listens) {
  const milliseconds interval = options_.poll_interval;
  for (Connection& one : connections_) {
    if (one.enabled && one.listener.may_begin(Clock::now())) {
      std::vector<std::string> keys, emptied;
      bool all = true;
      for (const ServedQueue* queue : one.queues) {
        const Lane& home = *queue->lanes[0];
        const auto is_quiet = [&](const Lane* lane) { return listens[lane->number()]; };
        if (is_quiet(&home)) keys.push_back(home.wake_key());
        // Also without partitions: a sender may know of them first.
        const bool any = std::any_of(queue->lanes.begin(), queue->lanes.end(), is_quiet);
        if (any && queue->layout.may_have_partitions()) {
          keys.push_back(home.wakes_key());
          emptied.push_back(home.wakes_key());
        }
        all = all && is_quiet(&home);  // then both keys are there
      }
      if (!keys.empty()) one.listener.begin(keys, all, emptied);
    }
    const bool works = one.enabled && one.listener.works();
    for (ServedQueue* queue : one.queues) {
      Lane& home = *queue->lanes[0];
      const bool wakes = works && !one.listener.leaves_out(home.wake_key());
      home.poll_every(wakes ? stretched(interval, queues_.size()) : interval);
      const bool wakes_others = works && !one.listener.leaves_out(home.wakes_key());
      for (std::size_t k = 1; k < queue->lanes.size(); ++k) {
        queue->lanes[k]->poll_every(wakes_others ? stretched(interval, kMostPolled) : interval);
      }
    }
  }
}

// Closes all connections at the same time. A marker that has arrived wakes another consumer. If an answer is missing,
// one may be lost: Redis drops what it has for a connection whose end it has read.
void WakeupConnections::leave() {
  if (std::exchange(left_, true)) return;
  const Clock::time_point until = Clock::now() + WakeupListener::kFarewell;
  for (Connection& one : connections_) one.listener.begin_leaving();
  for (Connection& one : connections_) {
    const WakeupListener::Left left = one.listener.leave(until);
    for (ServedQueue* queue : one.queues) {
      for (const WakeupListener::Marker& marker : left.markers) pass_on(*queue, marker);
      if (!left.may_be_lost) continue;
      for (Lane* lane : queue->lanes) lane->expect_lost_marker();
    }
  }
}

void WakeupConnections::pass_on(ServedQueue& queue, const WakeupListener::Marker& marker) {
  Lane& home = *queue.lanes[0];
  if (marker.key == home.wake_key()) home.wake_another();
  if (marker.key != home.wakes_key()) return;
  if (const auto partition = partition_in(marker)) queue.add_marker(*partition, marker.due);
}

void WakeupConnections::add_fds(std::vector<int>& fds) const {
  for (const Connection& one : connections_) {
    if (one.listener.fd() >= 0) fds.push_back(one.listener.fd());
  }
}

void WakeupConnections::end() {
  for (Connection& one : connections_) one.listener.end();
}

}  // namespace delayqueue
