// The servers of a run, and their faults.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "chaos/journal.h"
#include "chaos/schedule.h"
#include "support/server.h"

namespace chaos {

// Faults are written into the journal:
//   fault <kind> ...
//   back <kind>                    Redis serves again, after a fault that stopped it
//   window <from us> <to us>       changes acknowledged in this time may be lost by asynchronous replication
class World {
 public:
  virtual ~World() = default;

  virtual std::string url() const = 0;
  virtual std::string base() const = 0;               // of the queue's keys
  virtual std::string address() const { return {}; }  // the address of a server for the proxy; empty: no proxy
  virtual std::string socket() const { return {}; }   // for workers in Go; empty: not possible

  virtual std::vector<FaultKind> faults() const = 0;

  // Returns when Redis serves again. Other repairs end before the next fault that needs them.
  virtual void apply(const Step& step) = 0;

  // Ends all faults and repairs everything.
  virtual void calm_down() = 0;

  // The paths of the servers' logs.
  virtual std::vector<std::string> logs() = 0;

  // Runs a command on the server that has the queue. Throws std::runtime_error without an answer.
  virtual test::Reply cmd(const std::vector<std::string>& words) = 0;
};

std::unique_ptr<World> make_world(const std::string& topology, const std::string& queue, const Journal& journal);

}  // namespace chaos
