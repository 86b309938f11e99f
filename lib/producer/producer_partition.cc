#include "producer/producer_partition.h"

#include <utility>

namespace delayqueue {
namespace {

constexpr int kThreadsOfFirst = 4;  // that send at once, before the second connection is used

}  // namespace

ProducerPartition::ProducerPartition(const std::string& url, const std::string& queue, const ProducerOptions& options,
                                     GroupCommit::Hooks hooks)
    : connection(url, queue, options.connection, options.queue, options.durability),
      first_(connection, options.busy_wait, hooks, answered_),
      second_connection_(connection, 0),
      second_(second_connection_, options.busy_wait, std::move(hooks), answered_) {}

ProducerPartition::ProducerPartition(const SharedConnection& home, unsigned number, std::chrono::microseconds busy_wait,
                                     GroupCommit::Hooks hooks)
    : connection(home, number),
      first_(connection, busy_wait, hooks, answered_),
      second_connection_(home, number),
      second_(second_connection_, busy_wait, std::move(hooks), answered_) {}

GroupCommit& ProducerPartition::commit() {
  const int threads = first_.threads();
  const bool use_second = threads >= kThreadsOfFirst && threads > second_.threads() && answered_.batches > 0;
  return use_second ? second_ : first_;
}

}  // namespace delayqueue
