#include "store/keys.h"

namespace delayqueue::store {
namespace {

std::string base_of(const std::string& prefix, const std::string& queue, bool hash_tag) {
  const std::string base = prefix + ':' + queue;
  return hash_tag ? '{' + base + '}' : base;
}

}  // namespace

Keys make_keys(const std::string& queue, const KeyOptions& options) {
  Keys keys;
  keys.base = base_of(options.prefix, queue, options.hash_tag);
  keys.pending = keys.base + ":pending";
  keys.ready = keys.base + ":ready";
  keys.unack = keys.base + ":unack";
  keys.retry = keys.base + ":retry";
  keys.count = keys.base + ":retry:cnt";
  keys.garbage = keys.base + ":garbage";
  keys.attempts = keys.base + ":attempts";
  keys.reason = keys.base + ":reason";
  keys.dead = keys.base + ":dead";
  keys.stats = keys.base + ":stats";
  keys.paused = keys.base + ":paused";
  keys.wake = keys.base + ":wake";
  keys.watch = keys.base + ":watch";
  keys.lock = keys.base + ":lock";
  keys.settings = keys.base + ":settings";
  const std::string& body_prefix = options.bodies_under_dp ? "dp" : options.prefix;
  keys.bodies = base_of(body_prefix, queue, options.hash_tag) + ":msg:";
  keys.staged = keys.base + ":staged:";
  keys.queues = options.prefix + ":queues";
  keys.channel = "dq:" + queue + ":reportEvents";
  return keys;
}

std::string queue_of(std::string_view base, const std::string& prefix) {
  std::string_view name = base;
  if (name.size() > 2 && name.front() == '{' && name.back() == '}') name = name.substr(1, name.size() - 2);
  const std::string start = prefix + ':';
  if (name.substr(0, start.size()) != start) return std::string(base);
  return std::string(name.substr(start.size()));
}

}  // namespace delayqueue::store
