// Write concern: confirms that writes are as durable as Durability requires.
#pragma once

#include "redis/failure.h"
#include "redis/pipeline.h"

#include <delayqueue/client.h>

#include <optional>
#include <string>

namespace delayqueue {

// Redis replies to a write before any replica or its disk has it. WAIT and WAITAOF wait until they have it. Since Redis
// 7.2, and in Valkey, they wait for the last write of their own connection, and so for all writes that were executed
// before that one on any connection. A repeated send writes nothing, but what the first one wrote must be confirmed: so
// a write that changes nothing follows it.
class WriteConcern {
 public:
  explicit WriteConcern(const Durability& wanted) : wanted_(wanted) {}

  // Checks that this server can confirm writes. Throws ReplyError that names the missing part: WAITAOF, or an
  // append-only file.
  void check(redis::Connection& connection) const;

  bool waits() const { return wanted_.kind() != Durability::Kind::none; }
  milliseconds timeout() const { return wanted_.timeout(); }  // 0: it does not wait

  struct Asked {
    std::optional<redis::Answer<redis::Reply>> written{}, confirmed{};
  };

  // Adds WAIT or WAITAOF after requests that write; nothing for Durability::Kind::none.
  Asked ask(redis::Pipeline& pipeline) const;

  // The same after requests that may write nothing, or for writes of another connection: adds a write that changes
  // nothing before. `stats`: the key of the totals of the queue. With `briefly` it waits for at most 10 ms: for a
  // server that did not confirm the last writes in time.
  Asked ask_after_write(redis::Pipeline& pipeline, const std::string& stats, bool briefly = false) const;

  // Reads the replies and describes the missing durability; unset: all writes are confirmed. Of kind `connection` if
  // the server could not tell, as after a failover; else `not_durable`. With `has_written` the requests have written,
  // so that Redis may have refused the write that was added: memory may be full.
  std::optional<redis::Failure> missing(const Asked& asked, bool has_written = false) const;

 private:
  redis::Answer<redis::Reply> add(redis::Pipeline& pipeline, milliseconds timeout) const;

  const Durability wanted_;
};

}  // namespace delayqueue
