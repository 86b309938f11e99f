// Sets limits of the queue, and looks at its messages in flight during the faults: never more than may be.
#pragma once

#include "chaos/journal.h"
#include "chaos/rules.h"

namespace chaos {

class InFlight {
 public:
  // `most`: may be in flight; partitions divide it. `looks`: the limit can be seen in Redis: the queue has one
  // partition, and all workers keep it.
  InFlight(const std::string& url, const std::string& queue, std::uint64_t most, bool looks, const Journal& journal);
  ~InFlight();
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  // Ends the looking. Returns the findings, of which there must be none.
  std::vector<Breach> end();
  std::size_t looks() const { return looks_; }
  std::size_t most() const { return most_; }  // that were in flight at a time

 private:
  void run();

  delayqueue::Inspector inspector_;
  const std::uint64_t limit_;
  const Journal& journal_;
  std::vector<Breach> found_;  // used by the thread until it has ended
  std::atomic<std::size_t> looks_{0}, most_{0};
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace chaos
