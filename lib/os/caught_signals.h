// Signals of the process that end a wait instead of the process.
#pragma once

#include <signal.h>

#include <utility>
#include <vector>

namespace delayqueue {

// Catches signals from construction to destruction, in whichever thread of the process they arrive. The first one ends
// wait(). The second one has its default action, as a rule the end of the process. At most one object exists at a time,
// because the action of a signal belongs to the process. A fork of the process does not catch them.
class CaughtSignals {
 public:
  // Unblocks the signals in this thread, which must be the one that destroys the object: they arrive also if all other
  // threads block them. Throws std::logic_error if there is another object, and std::invalid_argument for a number that
  // is not that of a signal that can be caught.
  explicit CaughtSignals(const std::vector<int>& numbers);
  ~CaughtSignals();  // signals have their former actions again, and are blocked in this thread as before
  CaughtSignals(const CaughtSignals&) = delete;
  CaughtSignals& operator=(const CaughtSignals&) = delete;

  // Waits for a signal or for wake(). Signals and calls from before count, too. It may also return without a reason.
  void wait();
  void wake();  // any thread

  // The signal that has arrived; 0: none.
  int number() const;

 private:
  void restore();
  void set_actions_before() const;

  sigset_t mask_before_{};
  std::vector<std::pair<int, struct sigaction>> before_{};
};

}  // namespace delayqueue
