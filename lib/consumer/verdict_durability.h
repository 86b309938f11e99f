// Confirms that verdicts are as durable as the option `durability` requires. Used by the consumer's thread only.
#pragma once

#include "consumer/reporter.h"
#include "consumer/round_trip.h"
#include "queue/write_concern.h"

#include <delayqueue/options.h>

#include <cstddef>
#include <string>

namespace delayqueue {

class VerdictDurability {
 public:
  VerdictDurability(const Durability& wanted, Reporter& reporter) : write_concern_(wanted), reporter_(reporter) {}

  // Whether add() adds a request that waits. It must be the last one of a round trip.
  bool waits() const { return write_concern_.waits(); }

  // Checks that this server can confirm writes. Throws ReplyError.
  void check(redis::Connection& connection) const { write_concern_.check(connection); }

  // Adds the request that confirms all writes before it, among them so many verdicts. `stats`: the key of the queue.
  void add(RoundTrip& round_trip, std::size_t verdicts, const std::string& stats);

 private:
  void read(const std::string& missing, std::size_t verdicts);

  const WriteConcern write_concern_;
  Reporter& reporter_;
  bool below_ = false;  // the last verdicts were not as durable as required
};

}  // namespace delayqueue
