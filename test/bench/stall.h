// The server's own time in single script calls.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/part.h"
#include "redis/connection.h"
#include "redis/pipeline.h"

namespace bench {

// One call of a script, added to a pipeline; what to do with its answer once it is there, if anything.
using Answered = std::function<void()>;
using Ask = std::function<Answered(delayqueue::redis::Pipeline&, std::size_t call)>;

class Stall {
 public:
  explicit Stall(Bench& bench) : bench_(bench), connection_(bench.server.connect()) {}

  // Adds stall_ms.<name>: the p99.9 of Scale::calls calls; stall_p50_ms.<name> is what most take. Calls in which Redis made a large table of its own, or let go of
  // one, are told apart; the longest of them is stall_growth_ms.<name>. Such a call is one after which Redis uses a lot
  // more memory, or less, than 200 messages can make out: a table of n places takes 8 n bytes.
  void measure(const std::string& name, const Ask& ask);

 private:
  struct Totals {
    double busy_us;  // in all scripts so far
    double memory;
  };

  Totals call(const Ask& ask, std::size_t number);

  Bench& bench_;
  std::unique_ptr<delayqueue::redis::Connection> connection_;
};

}  // namespace bench
