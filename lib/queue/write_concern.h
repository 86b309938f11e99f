// Waits until what was written is as safe as the user asked for.
#pragma once

#include "redis/pipeline.h"

#include <delayqueue/options.h>

#include <optional>
#include <string>

namespace delayqueue {

// Redis answers before a write is on any other server or on its disk. WAIT and WAITAOF tell when it is. They speak of
// all that was written before them on any connection, so a send that is repeated, and changes nothing, is told of, too.
class WriteConcern {
 public:
  explicit WriteConcern(const Durability& wanted) : wanted_(wanted) {}

  // Makes sure that this server can tell. Throws ReplyError that says what it lacks: WAITAOF, or an append-only file.
  void check(redis::Connection& connection) const;

  bool waits() const { return wanted_.kind != Durability::Kind::none; }

  // Adds the question behind the writes of a pipeline; nothing if nothing was asked for.
  using Asked = std::optional<redis::Answer<redis::Reply>>;
  // `briefly`: it will hardly be safe in time, so only look.
  Asked ask(redis::Pipeline& pipeline, bool briefly = false) const;

  // What the answer falls short of, in words; empty: all is safe. Throws nothing.
  std::string missing(const Asked& asked) const noexcept;

 private:
  void add(redis::Pipeline& pipeline, milliseconds timeout) const;

  const Durability wanted_;
};

}  // namespace delayqueue
