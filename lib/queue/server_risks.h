// What about a server may lose a queue that is on it: asked for, and told.
#pragma once

#include "queue/event_sink.h"
#include "redis/connection.h"

#include <delayqueue/inspector.h>

#include <cstddef>
#include <string>
#include <vector>

namespace delayqueue {

// One round trip. What the server does not let us ask is a Risk of kind unknown, not an error. Throws ConnectionError if
// the link breaks.
std::vector<Risk> find_risks(redis::Connection& connection);

// Whether the server's clock and this machine's are more than 5 s apart.
std::vector<Risk> compare_clocks(redis::Connection& connection);

// Logs the risks that this process has not logged yet: each once for a server, whichever of its objects sees it first.
// Of one thread at a time.
class RiskWatch {
 public:
  // Finds and logs them. Throws ConnectionError if the link breaks; then the next look is left out, lest a server that
  // answers these questions so is never got past.
  void look(redis::Connection& connection, const EventSink& report);

  // A warning each; what is unknown at level debug. One that this object saw at its last look and does not see now is
  // logged again when it comes back.
  void tell(const std::vector<Risk>& risks, const std::string& where, const EventSink& report);

 private:
  std::string where_;              // of the last look
  std::vector<std::size_t> seen_;  // there: hashes of server and text
  bool broke_ = false;
};

}  // namespace delayqueue
