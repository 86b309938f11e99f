// Runs QueueAdmin::check with repairs in a loop during the faults. It must find nothing but what
// consumers delete in time.
#pragma once

#include "chaos/journal.h"
#include "chaos/rules.h"

namespace chaos {

class Fsck {
 public:
  Fsck(const std::string& url, const std::string& queue, const Journal& journal);
  ~Fsck();
  Fsck(const Fsck&) = delete;
  Fsck& operator=(const Fsck&) = delete;

  // Ends the loop. Returns the findings, of which there must be none.
  std::vector<Breach> end();
  int checks() const { return checks_; }  // completed checks

  // The findings when all processes have stopped, including garbage and metadata without a message.
  static std::vector<Breach> last_check(const std::string& url, const std::string& queue);

 private:
  void run();

  delayqueue::QueueAdmin admin_;
  const Journal& journal_;
  std::vector<Breach> found_;  // used by the thread until it has ended
  std::atomic<int> checks_{0};
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace chaos
