#include "consumer/partition_copies.h"

#include <delayqueue/error.h>

#include <algorithm>

namespace delayqueue {
namespace {

constexpr int kPollsToLayout = 10;  // the layout is read once in so many polls of partition 0

}  // namespace

PartitionCopies::PartitionCopies(ServedPartition& partition) : partition_(partition) {
  const ServedQueue& queue = partition.queue;
  if (partition.number == 0 && queue.layout.may_have_partitions() && !partition.endpoint.is_cluster()) {
    next_keys_ = store::make_keys(queue.name, partition.endpoint.key_options(), 1);
  }
}

void PartitionCopies::learn(const store::Layout& copy) {
  partition_.queue.layout.keeper().remember(partition_.number, copy);
}

void PartitionCopies::learn(store::PauseState copy) {
  if (copy.is_local()) copy.paused = false;
  if (partition_.number == 0) copy.generation = std::max<std::int64_t>(copy.generation, 0);
  pause_generation_ = copy.generation;
  partition_.queue.pause.learn(copy);
}

void PartitionCopies::leave() {
  may_read_next_ = true;
  pause_generation_ = -1;  // perhaps another server, with other data
}

// A copy that cannot be read counts as absent: the moves report what is wrong.
void PartitionCopies::add_reading(RoundTrip& round_trip, bool layout, milliseconds poll_interval) {
  due_ = std::chrono::steady_clock::now() + kPollsToLayout * poll_interval;
  if (layout) {
    round_trip.expect(store::read_layout(round_trip.pipeline(), partition_.keys()), [this](const auto& answer) {
      try {
        learn(answer.get());
      } catch (const ReplyError&) {
      }
    });
  }
  if (partition_.queue.lanes.size() > 1) return read_pause(round_trip);
  if (!next_keys_ || !may_read_next_) return;
  round_trip.expect(store::read_layout(round_trip.pipeline(), *next_keys_), [this](const auto& answer) {
    try {
      partition_.queue.layout.keeper().remember(1, answer.get());
    } catch (const ReplyError&) {
      may_read_next_ = false;
    }
  });
}

void PartitionCopies::add_updates(RoundTrip& round_trip) {
  LayoutKeeper& layout = partition_.queue.layout.keeper();
  if (layout.is_behind(partition_.number)) {
    const store::Layout known = layout.known();
    layout.remember(partition_.number, known);  // if it fails, the next time that the copy is read shows it
    store::copy_layout(round_trip.pipeline(), partition_.keys(), known);
  }
  if (is_urgent()) copy_pause(round_trip);
}

void PartitionCopies::read_pause(RoundTrip& round_trip) {
  round_trip.expect(store::read_pause(round_trip.pipeline(), partition_.keys()), [this](const auto& answer) {
    try {
      learn(answer.get());
    } catch (const AccessDenied&) {
      if (partition_.number > 0) throw;  // nothing is taken from there
    }
  });
}

void PartitionCopies::copy_pause(RoundTrip& round_trip) {
  copies_pause_ = true;
  round_trip.expect(
      store::copy_pause(round_trip.pipeline(), partition_.keys(), partition_.queue.pause.now()),
      [this](const auto& answer) {
        copies_pause_ = false;
        learn(answer.get());
      },
      [this] { copies_pause_ = false; });
}

}  // namespace delayqueue
