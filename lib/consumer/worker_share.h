// What one lane may use of the workers and of the bound of messages, which all lanes of a consumer share.
#pragma once

#include "run/worker_pool.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace delayqueue {

using run::minus;

struct WorkerShare {
  run::WorkerLoad load;      // of the queue's line
  std::size_t prefetch = 0;  // how many messages the queue may hold in addition to the running ones
  std::size_t room = std::numeric_limits<std::size_t>::max();  // most messages that the lane may take
  std::size_t claimed = 0;                                     // workers that messages of other queues wait for
  std::size_t siblings = 0;          // messages of other lanes of the queue that wait for their bodies, or may come
  std::size_t siblings_claimed = 0;  // workers that some of these wait for
  bool has_others = false;           // other lanes share the workers and places
  bool redelivers = false;           // a redelivered message of another lane is on its way to a free worker

  std::size_t idle() const {
    return std::min(minus(load.idle, claimed + siblings_claimed), minus(load.allowed, siblings_claimed));
  }
};

}  // namespace delayqueue
