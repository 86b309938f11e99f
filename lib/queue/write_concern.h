// Write concern: confirms that writes are as durable as Durability requires.
#pragma once

#include "redis/pipeline.h"

#include <delayqueue/options.h>

#include <optional>
#include <string>

namespace delayqueue {

// Redis replies to a write before any replica or its disk has it. WAIT and WAITAOF wait until they have it. They cover
// all writes that were executed before them on any connection. So they also confirm a repeated send, which writes
// nothing.
class WriteConcern {
 public:
  explicit WriteConcern(const Durability& wanted) : wanted_(wanted) {}

  // Checks that this server can confirm writes. Throws ReplyError that names the missing part: WAITAOF, or an
  // append-only file.
  void check(redis::Connection& connection) const;

  bool waits() const { return wanted_.kind() != Durability::Kind::none; }

  // Adds WAIT or WAITAOF after the writes of a pipeline; nothing for Durability::Kind::none. With `briefly` it waits
  // for at most 10 ms: for a server that did not confirm the last writes in time.
  using Asked = std::optional<redis::Answer<redis::Reply>>;
  Asked ask(redis::Pipeline& pipeline, bool briefly = false) const;

  // Reads the reply and describes the missing durability; empty: all writes are confirmed. Throws nothing.
  std::string missing(const Asked& asked) const noexcept;

 private:
  void add(redis::Pipeline& pipeline, milliseconds timeout) const;

  const Durability wanted_;
};

}  // namespace delayqueue
