// A lock between several dqctl that work on one queue.
#pragma once

#include <delayqueue/inspector.h>

#include "output/output.h"

namespace dqctl {

// Held for one batch of messages that is written elsewhere before it is removed: what another dqctl reads meanwhile
// would be written by both. Without it no message is lost and none is counted twice, but files and queues may get more.
class OperatorLock {
 public:
  // Waits until no other dqctl holds it, or a signal came. Where the server refuses it (no memory, no rights), the
  // batch is done without it.
  OperatorLock(Output& output, delayqueue::Inspector& inspector);
  ~OperatorLock();
  OperatorLock(const OperatorLock&) = delete;
  OperatorLock& operator=(const OperatorLock&) = delete;

 private:
  delayqueue::Inspector& inspector_;
  bool held_ = false;
};

}  // namespace dqctl
