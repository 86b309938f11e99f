// What about a server may lose a queue that is on it: asked for, and told.
#pragma once

#include "redis/connection.h"
#include "report.h"

#include <delayqueue/inspector.h>

#include <string>
#include <vector>

namespace delayqueue {

// One round trip. What the server does not let us ask is a Risk of kind unknown, not an error. Throws ConnectionError if
// the link breaks.
std::vector<Risk> find_risks(redis::Connection& connection);

// Whether the server's clock and this machine's are more than 5 s apart.
std::vector<Risk> compare_clocks(redis::Connection& connection);

// Remembers which risks were told. Of one thread at a time.
class RiskWatch {
 public:
  // Finds and tells them. Throws ConnectionError if the link breaks; then the next look is left out, lest a server that
  // answers these questions so is never got past.
  void look(redis::Connection& connection, const Report& report);

  // Logs those that were not there the last time: a warning each, what is unknown at level debug.
  void tell(const std::vector<Risk>& risks, const std::string& where, const Report& report);

 private:
  std::vector<std::string> told_;
  bool broke_ = false;
};

}  // namespace delayqueue
