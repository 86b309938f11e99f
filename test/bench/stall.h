// The server's own time for single script calls.
#pragma once

#include "bench/part.h"
#include "redis/connection.h"
#include "redis/pipeline.h"

namespace bench {

// Adds one script call to a pipeline. Returns the function that checks its answer, if it needs any.
using CheckAnswer = std::function<void()>;
using AddCall = std::function<CheckAnswer(delayqueue::redis::Pipeline&, std::size_t call)>;

class Stall {
 public:
  explicit Stall(Bench& bench) : bench_(bench), connection_(bench.server.connect()) {}

  // Adds stall_ms.<name>, the p99.9 of Scale::calls calls, and stall_p50_ms.<name>, their median. Calls during which
  // Redis allocated or freed a large hash table are left out; the longest of them is stall_growth_ms.<name>. They are
  // recognized by used_memory, which changes by more than 200 messages can take: a table of n buckets takes 8 n bytes.
  void measure(const std::string& name, const AddCall& add_call);

 private:
  struct Totals {
    std::string stats;  // INFO commandstats
    double memory;
  };

  Totals call(const AddCall& add_call, std::size_t number);

  Bench& bench_;
  std::unique_ptr<delayqueue::redis::Connection> connection_;
};

}  // namespace bench
