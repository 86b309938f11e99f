// The names of a queue's keys. No other file builds one. Names and types are those of the Go library
// HDT3213/delayqueue. This library adds attempts, reason, dead, stats, paused, wake, watch, lock and settings.
#pragma once

#include <string>
#include <string_view>

namespace delayqueue::store {

struct Keys {
  std::string base;  // <prefix>:<queue>, in braces with a hash tag

  std::string pending, ready, unack, retry, count, garbage;  // count is retry:cnt
  std::string attempts, reason, dead, stats, paused, wake, watch, lock, settings;

  std::string bodies;   // prefix of the bodies' keys; the id follows
  std::string staged;   // prefix of the keys of staged payloads; a new UUID follows
  std::string queues;   // set of the bases of all queues with this prefix; it is in another slot of a cluster
  std::string channel;  // Pub/Sub channel of the Go library's events
};

struct KeyOptions {
  std::string prefix = "dp";
  bool hash_tag = false;
  bool bodies_under_dp = false;
};

Keys make_keys(const std::string& queue, const KeyOptions& options);

// The name of the queue that has this base; the base itself if it has another prefix.
std::string queue_of(std::string_view base, const std::string& prefix);

}  // namespace delayqueue::store
