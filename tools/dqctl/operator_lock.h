// A lock between dqctl processes that work on the same queue.
#pragma once

#include <delayqueue/queue_admin.h>

#include "output/output.h"

namespace dqctl {

// Protects one batch of messages that is written elsewhere before it is removed here. Without the lock two dqctl
// processes may write the same messages: none is lost or counted twice, but files and queues may get copies.
class OperatorLock {
 public:
  // Waits until no other dqctl holds the lock, or a signal arrived. If the server refuses the lock (no memory, no
  // rights), the batch runs without it.
  OperatorLock(Output& output, delayqueue::QueueAdmin& admin);
  ~OperatorLock();
  OperatorLock(const OperatorLock&) = delete;
  OperatorLock& operator=(const OperatorLock&) = delete;

 private:
  delayqueue::QueueAdmin& admin_;
  bool held_ = false;
};

}  // namespace dqctl
