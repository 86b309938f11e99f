// Helpers for the C++ side of the interop tests.
#pragma once

#include "interop/go_program.h"
#include "support/server.h"

namespace test {

// Collects the messages that a C++ handler got. Thread-safe.
class Deliveries {
 public:
  void add(const delayqueue::Message& message) {
    const std::lock_guard lock(mutex_);
    all_.push_back(message);
  }
  std::vector<delayqueue::Message> all() const {
    const std::lock_guard lock(mutex_);
    return all_;
  }
  std::size_t size() const { return all().size(); }

 private:
  mutable std::mutex mutex_;  // guards all_
  std::vector<delayqueue::Message> all_;
};

// A handler that records each message and returns `verdict`.
inline delayqueue::Handler record(Deliveries& to, delayqueue::Verdict verdict = delayqueue::ack()) {
  return [&to, verdict = std::move(verdict)](const delayqueue::Message& message) {
    to.add(message);
    return verdict;
  };
}

// Options of a consumer that polls often, so that it sees soon what Go does.
inline delayqueue::ConsumerOptions quick() {
  delayqueue::ConsumerOptions options;
  options.concurrency = 2;
  options.tuning.poll_interval = std::chrono::milliseconds(50);
  options.tuning.reconnect_grace = std::chrono::milliseconds(100);
  return options;
}

// All keys of a queue, except those that stay when it has no messages.
inline Snapshot leftovers(const std::string& base) {
  auto keys = snapshot(base);
  keys.erase("stats");
  keys.erase("wake");
  keys.erase("consumers");
  return keys;
}

inline bool nothing_left(const std::string& base, std::chrono::milliseconds limit = std::chrono::seconds(20)) {
  return eventually([&] { return leftovers(base).empty(); }, limit);
}

inline std::vector<std::string> sorted(std::vector<std::string> words) {
  std::sort(words.begin(), words.end());
  return words;
}

inline std::string hex(const std::string& bytes) {
  std::string digits;
  for (const char c : bytes) {
    digits += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
    digits += "0123456789abcdef"[static_cast<unsigned char>(c) & 15];
  }
  return digits;
}

}  // namespace test
