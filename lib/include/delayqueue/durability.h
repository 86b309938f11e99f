// Durability: how safe a write must be before a call returns.
#pragma once

#include <delayqueue/export.h>
#include <delayqueue/types.h>

namespace delayqueue {

// Where a write must be stored before a call returns. Redis replies when the master has the write in memory.
//
// By default the call returns after this reply. With appendonly yes and appendfsync everysec a power cut can lose the
// last second or two of writes, and so can a kill -9 of the server while its disk is busy. A failover can lose writes
// that no replica had received.
//
// If the write is not confirmed within the timeout, a call of a Producer throws ConnectionError: the message is stored,
// but not as durably as required. Send it again with its id: while it is in the queue, this creates no second message,
// and waits again.
class DELAYQUEUE_EXPORT Durability {
 public:
  enum class Kind { none, replicas, disk };

  Durability() = default;

  // `count` replicas (1 to 1,000) have the write in memory, too (WAIT). It survives the loss of the master if one of
  // them is promoted. The timeout is at least 1 ms.
  static Durability replicas(int count, milliseconds timeout = milliseconds(1000));

  // The master has the write on its disk (WAITAOF). Needs Redis 7.2 or later, or Valkey, with appendonly yes. With
  // appendfsync everysec a call takes up to a second. If the server cannot confirm this, the call throws ReplyError
  // before anything is written.
  static Durability disk(milliseconds timeout = milliseconds(2000));

  Kind kind() const { return kind_; }
  int replica_count() const { return replica_count_; }
  milliseconds timeout() const { return timeout_; }

 private:
  Durability(Kind kind, int replica_count, milliseconds timeout)
      : kind_(kind), replica_count_(replica_count), timeout_(timeout) {}

  Kind kind_ = Kind::none;
  int replica_count_ = 0;
  milliseconds timeout_{0};
};
DELAYQUEUE_EXPORT const char* to_string(Durability::Kind kind);  // "none", "replicas", "disk"

}  // namespace delayqueue
