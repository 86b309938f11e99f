// Another client of the same server: sends a GET each millisecond and measures the time of each. It should have its own
// machine, so it requests a higher priority than the handlers. The system grants that to root only.
#pragma once

#include "bench/wire.h"

namespace bench {

class Probe {
 public:
  explicit Probe(const std::string& socket);
  ~Probe();
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  // Ends the client and returns all waiting times in ms. While one GET waits, those that it delays count as well, each
  // from its own millisecond.
  const std::vector<double>& waits();

 private:
  void run();

  Wire wire_;
  std::vector<double> waits_;
  std::atomic<bool> ending_{false};
  std::thread thread_;  // last: uses the other members
};

}  // namespace bench
