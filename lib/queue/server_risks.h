// Risks: settings and states of a server that can lose or delay the messages of a queue.
#pragma once

#include "queue/event_sink.h"
#include "redis/connection.h"

#include <delayqueue/server.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace delayqueue {

// Finds the risks of a server, in one round trip. A query that the server refuses becomes a Risk of kind unknown, not
// an error. Throws ConnectionError if the connection breaks.
std::vector<Risk> find_risks(redis::Connection& connection);

// Whether this process has called find_risks() for a server, and none of its answers allowed an eviction of keys.
bool is_eviction_excluded();

// Returns a risk if the server's clock and this machine's are more than 5 s apart.
std::vector<Risk> compare_clocks(redis::Connection& connection);

// Logs the risks of servers, each once per process and server. One thread at a time may use it.
class RiskWatch {
 public:
  // Finds the risks of the server, for log(). Throws ConnectionError if the connection breaks. The next call then sends
  // nothing and returns nullopt: a server that closes the connection at these queries must not prevent the consumer
  // from working.
  std::optional<std::vector<Risk>> find(redis::Connection& connection);

  // Logs each risk as a warning, those of kind unknown with severity debug. A risk that the last call for this server
  // found and this one does not is logged again when it comes back.
  void log(const std::vector<Risk>& risks, const std::string& where, const EventSink& sink);

 private:
  std::string where_;              // the server of the last call
  std::vector<std::size_t> seen_;  // its risks then: hashes of server and risk
  bool skip_next_ = false;
};

}  // namespace delayqueue
