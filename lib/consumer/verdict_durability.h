// Confirms that verdicts are as durable as the option `durability` requires. Used by the consumer's thread only.
#pragma once

#include "consumer/reporter.h"
#include "queue/write_concern.h"
#include "redis/connection.h"
#include "redis/pipeline.h"

#include <delayqueue/options.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue {

// WAIT and WAITAOF block their connection until the writes are durable, so they have a separate one: the takes,
// verdicts and lease renewals of all queues go on meanwhile. Each follows a write on that connection, which Redis
// replicates after the verdicts that it has executed before: see WriteConcern.
class VerdictDurability {
 public:
  VerdictDurability(const Durability& wanted, Reporter& reporter) : write_concern_(wanted), reporter_(reporter) {}

  // Whether anything has to be confirmed. If not, the functions below do nothing.
  bool waits() const { return write_concern_.waits(); }

  // Checks that this server can confirm writes. Throws ReplyError. Another thread may call it.
  void check(redis::Connection& connection) const { write_concern_.check(connection); }

  // The connection for advance(): to the server of the verdicts, and made before they are sent.
  void use(std::unique_ptr<redis::Connection> connection);

  // How many verdicts there are, for each queue that has some.
  using Verdicts = std::vector<std::pair<Counters*, std::size_t>>;

  // Redis has executed these verdicts. `stats`: the key of one of their queues, for the write before the wait.
  void add(const Verdicts& verdicts, const std::string& stats);

  // Reads the answer if it has arrived, and sends the next request if there are verdicts to confirm, or if the
  // connection has been idle so long that it might be closed. Does not wait. Throws ConnectionError.
  void advance();

  // Whether all verdicts are confirmed.
  bool is_idle() const { return executed_.empty() && (wait_ == nullptr || wait_->verdicts.empty()); }
  bool is_waiting() const { return wait_ != nullptr; }

  // For poll(), and the time by which the answer must arrive; only while it is waiting.
  int fd() const { return connection_->fd(); }
  redis::Deadline due() const { return connection_->due(); }

  // Closes the connection. The verdicts that are not confirmed are counted.
  void close();

 private:
  struct Wait {
    redis::Pipeline pipeline;
    Verdicts verdicts;
    WriteConcern::Asked asked{};
  };

  void ask();
  void read(const std::string& missing, const Verdicts& verdicts);

  const WriteConcern write_concern_;
  Reporter& reporter_;
  bool below_ = false;  // the last verdicts were not as durable as required
  Verdicts executed_;   // those that no request confirms yet
  std::string stats_;
  std::unique_ptr<redis::Connection> connection_;
  redis::Deadline idle_until_;
  std::unique_ptr<Wait> wait_;  // after connection_, which it refers to
};

}  // namespace delayqueue
