// StopSignals: the signals of the process that end Consumer::run().
#pragma once

#include <delayqueue/export.h>
#include <delayqueue/types.h>

#include <chrono>
#include <initializer_list>
#include <vector>

namespace delayqueue {

// Signals that stop a consumer. Consumer::run() catches them from its beginning until it returns, in whichever thread
// they arrive, and gives them their former actions then. The first one stops the consumer. The second one has its
// default action: as a rule, the process ends. A signal that no thread of the process accepts is unblocked in the
// thread of run(). A value: copies are independent.
class DELAYQUEUE_EXPORT StopSignals {
 public:
  StopSignals();  // SIGINT and SIGTERM
  explicit StopSignals(std::initializer_list<int> signals) : signals_(signals) {}

  // For the stop() after a signal. Default: 30 s.
  StopSignals& timeout(milliseconds timeout) {
    timeout_ = timeout;
    return *this;
  }

 private:
  friend class Consumer;

  std::vector<int> signals_;
  milliseconds timeout_ = std::chrono::seconds(30);
};

}  // namespace delayqueue
