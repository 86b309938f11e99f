// A stranger on the same server: a GET every millisecond, and how long each takes. It would have a machine of its own, so
// it asks for precedence over the handlers of this one; the system grants that to root alone.
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "bench/wire.h"

namespace bench {

class Probe {
 public:
  explicit Probe(const std::string& socket);
  ~Probe();
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  // Ends it: all waits, in ms. While a GET waits, those that it holds up count as well, each from its own millisecond.
  const std::vector<double>& waits();

 private:
  void run();

  Wire wire_;
  std::vector<double> waits_;
  std::atomic<bool> ending_{false};
  std::thread thread_;  // last: uses the rest
};

}  // namespace bench
