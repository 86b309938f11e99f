// The changes that clients of dqctl serve have requested: a line of stderr for each, and the last 100 in memory, also
// those that failed. Changes::record() stores those that were made in Redis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "output/json.h"
#include "serve/change_request.h"

namespace dqctl {

struct ServedClient {
  std::string address{};
  std::string user{};  // that a proxy has named; empty: none
};

struct ServedChange {
  Time at{};
  ServedClient client{};
  Action action{};
  std::string queue{};
  std::optional<std::string> id{};  // unset: the queue, or many messages
  std::string detail{};             // what was requested
  std::uint64_t count = 0;          // messages that were changed
  std::string error{};              // why it failed, maybe after some of it was done
  bool changed = false;             // something was changed
  bool unconfirmed = false;         // the answer of Redis is lost: it may be changed
  bool is_further_part = false;     // of a change of many messages; not noted if it changed nothing

  // Who has made it, for pauses and the actions of the queue.
  const std::string& who() const { return client.user.empty() ? client.address : client.user; }
};

// What was done, such as "purge orders state=dead at_most=12".
std::string change_text(const ServedChange& change);

Object change_object(const ServedChange& change);

// One line without line breaks or other control characters, such as
// "2026-11-21T19:36:45.123Z 127.0.0.1:40312 purge orders state=dead at_most=12 count=12".
std::string change_line(const ServedChange& change);

// Any number of threads may use it.
class Audit {
 public:
  static constexpr std::size_t kKept = 100;

  // published: called after each change.
  explicit Audit(std::function<void(const ServedChange&)> published) : published_(std::move(published)) {}

  void add(const ServedChange& change);
  std::vector<ServedChange> latest() const;  // the latest first
  std::uint64_t total() const;               // since the start

 private:
  const std::function<void(const ServedChange&)> published_;
  mutable std::mutex mutex_;
  std::deque<ServedChange> changes_{};  // guarded by mutex_, as the next
  std::uint64_t total_ = 0;
};

}  // namespace dqctl
