// The names of a queue's keys: the only place that makes them. Names and types are those of the Go library
// HDT3213/delayqueue, plus ours: attempts, reason, dead, stats, paused, wake, watch, lock.
#pragma once

#include <string>
#include <string_view>

namespace delayqueue::store {

struct Keys {
  std::string base;  // <prefix>:<queue>, in braces with a hash tag

  std::string pending, ready, unack, retry, count, garbage;  // count is retry:cnt
  std::string attempts, reason, dead, stats, paused, wake, watch, lock;

  std::string bodies;   // a body's key is this followed by its id
  std::string queues;   // the set of all queues' bases under this prefix; lives in another slot
  std::string channel;  // of the Go library's events
};

struct KeyOptions {
  std::string prefix = "dp";
  bool hash_tag = false;
  bool bodies_under_dp = false;
};

Keys make_keys(const std::string& queue, const KeyOptions& options);

// The queue's name in a base, or the base itself if it is not of this prefix.
std::string queue_of(std::string_view base, const std::string& prefix);

}  // namespace delayqueue::store
