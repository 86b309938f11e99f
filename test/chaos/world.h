// The servers of a run, and what can happen to them.
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
//   back <kind>                    Redis serves again, after a fault that kept it from serving
//   window <from us> <to us>       what was acknowledged in it may be lost: asynchronous replication
class World {
 public:
  virtual ~World() = default;

  virtual std::string url() const = 0;
  virtual std::string base() const = 0;               // of the queue's keys
  virtual std::string address() const { return {}; }  // where a proxy can stand before it; empty: nowhere
  virtual std::string socket() const { return {}; }   // for workers in Go; empty: they cannot have one

  virtual std::vector<FaultKind> faults() const = 0;

  // Returns when Redis serves again; what is still to be put in order is so before the next fault that needs it.
  virtual void apply(const Step& step) = 0;

  // Nothing disturbs any more: everything is in order, and stays so.
  virtual void calm_down() = 0;

  // What the servers wrote.
  virtual std::vector<std::string> logs() = 0;

  // A command for the server that has the queue. Throws std::runtime_error without an answer.
  virtual test::Reply cmd(const std::vector<std::string>& words) = 0;
};

std::unique_ptr<World> make_world(const std::string& topology, const std::string& queue, const Journal& journal);

}  // namespace chaos
