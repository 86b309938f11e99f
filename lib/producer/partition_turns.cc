#include "producer/partition_turns.h"

#include "os/resources.h"
#include "store/moves.h"

namespace delayqueue {

unsigned PartitionTurns::choose(std::size_t messages, unsigned count) {
  const std::lock_guard lock(mutex_);
  if (!has_begun_) current_ = random_seed();  // so that Producers do not all begin with the same one
  has_begun_ = true;
  if (given_ >= store::kBatch || current_ >= count || !breaker_.allows(current_)) go_on(count);
  given_ += messages;
  return current_;
}

void PartitionTurns::go_on_from(unsigned partition, unsigned count) {
  const std::lock_guard lock(mutex_);
  if (current_ == partition) go_on(count);
}

void PartitionTurns::go_on(unsigned count) {
  given_ = 0;
  const unsigned next = (current_ + 1) % count;
  unsigned allowed = next;
  while (!breaker_.allows(allowed) && allowed != current_ % count) allowed = (allowed + 1) % count;
  current_ = breaker_.allows(allowed) ? allowed : next;
}

}  // namespace delayqueue
