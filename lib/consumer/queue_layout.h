// The layout of one queue of a consumer, as far as its copies were read. Used by the consumer's thread only.
#pragma once

#include "consumer/link.h"
#include "queue/endpoint.h"
#include "queue/layout_keeper.h"

#include <chrono>
#include <cstddef>
#include <optional>

namespace delayqueue {

// The lanes read the copy of their partition, and that of partition 1 if it is on the same server. In a Cluster another
// thread reads that one while partition 1 has no lane: partition 0 may have lost its copy, or be away.
class QueueLayout {
 public:
  // `endpoint`: of partition 0.
  explicit QueueLayout(Endpoint& endpoint);

  // Whether the queue may have more partitions than one.
  bool may_have_partitions() const { return !endpoint_.key_options().bodies_under_dp; }

  // All that was read so far.
  store::Layout known() const { return keeper_.known(); }
  LayoutKeeper& keeper() { return keeper_; }

  // In a Cluster: begins to read the copy of partition 1 in another thread, if that is due. `queues`: how many the
  // consumer has.
  void read_elsewhere(BackgroundCalls& calls, std::size_t queues);
  void read_elsewhere_soon() { due_ = {}; }

  // Waits for that thread.
  void wait();

 private:
  Endpoint& endpoint_;
  LayoutKeeper keeper_;
  std::optional<BackgroundCall<void>> reading_;
  std::chrono::steady_clock::time_point due_;
};

}  // namespace delayqueue
