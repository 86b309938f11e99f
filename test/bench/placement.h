// The cores on which Redis and the client run. For single round trips the placement decides more than the code does.
#pragma once

#include "bench/server.h"

namespace bench {

enum class Cores { one, two };

// While it lives, the server runs on the first core that this process may use, and the calling thread with all threads
// that it starts runs on the same core, or on the second one.
class Placement {
 public:
  // Throws std::runtime_error if there are not so many cores, or if the system refuses.
  Placement(const Server& server, Cores cores);
  ~Placement();
  Placement(const Placement&) = delete;
  Placement& operator=(const Placement&) = delete;

  // The cores that this process may use.
  static std::vector<int> usable_cores();

  // The names in figures: one_core, two_cores.
  static std::string name(Cores cores) { return cores == Cores::one ? "one_core" : "two_cores"; }

 private:
  const int server_;  // process id
  const std::vector<int> before_;
};

}  // namespace bench
