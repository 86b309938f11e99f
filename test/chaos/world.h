// The servers of a run, and their faults.
#pragma once

#include "chaos/journal.h"
#include "chaos/schedule.h"
#include "support/node.h"

namespace chaos {

// Faults are written into the journal:
//   fault <kind> ...
//   back <kind>                    Redis serves again, after a fault that stopped it
//   window <from us> <to us> [<partition>,...]
//                                  changes acknowledged in this time may be lost by asynchronous replication: those of
//                                  messages in these partitions, or of all
class World {
 public:
  virtual ~World() = default;

  virtual std::string url() const = 0;
  virtual std::string base() const = 0;               // of the keys of partition 0
  virtual std::string address() const { return {}; }  // the address of a server for the proxy; empty: no proxy
  virtual std::string socket() const { return {}; }   // for workers in Go; empty: not possible

  // The numbers of partitions that a run sets, one after the other; empty: the queue has one.
  virtual std::vector<unsigned> numbers() const { return {}; }

  // The bases of the keys of all partitions that the queue has at the end.
  virtual std::vector<std::string> bases() const { return {base()}; }

  virtual std::vector<FaultKind> faults() const = 0;

  // Returns when Redis serves again. Other repairs end before the next fault that needs them.
  virtual void apply(const Step& step) = 0;

  // Ends all faults and repairs everything.
  virtual void calm_down() = 0;

  // The paths of the servers' logs.
  virtual std::vector<std::string> logs() = 0;

  // The server that has this key of the queue.
  virtual const test::Node& owner(const std::string& key) = 0;
};

std::unique_ptr<World> make_world(const std::string& topology, const std::string& queue, const Journal& journal);

}  // namespace chaos
