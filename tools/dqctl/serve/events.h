// Server-sent events for the clients of /api/events.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace dqctl {

// Any number of threads may use it.
class Events {
 public:
  static constexpr std::size_t kMostListeners = 16;

  class Listener;

  // Starts a stream with this document of queues. asked: called about each second while the stream waits. Null: there
  // are kMostListeners already. The Events must outlive the result.
  std::shared_ptr<Listener> listen(const std::string& queues, std::function<void()> asked);

  // The documents are JSON without line breaks. A listener that is slow misses documents of queues, but no change of
  // the last 100.
  void publish_queues(const std::string& document);
  void publish_change(const std::string& document);

  std::size_t listeners() const;

  void stop();  // ends all streams

 private:
  using Bytes = std::shared_ptr<const std::string>;

  mutable std::mutex mutex_;  // guards all members below
  std::condition_variable published_;
  std::uint64_t documents_ = 0;  // documents of queues so far
  Bytes queues_{};
  std::deque<std::pair<std::uint64_t, Bytes>> changes_{};  // with their numbers, from 1 on
  std::uint64_t last_change_ = 0;
  std::size_t listeners_ = 0;
  bool stopped_ = false;
};

// One stream. One thread may use it.
class Events::Listener {
 public:
  Listener(Events& events, std::function<void()> asked, std::string first);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Waits for events, and returns their bytes. Empty: the stream ends, after an hour at most.
  std::string next();

 private:
  using Steady = std::chrono::steady_clock;

  Events& events_;
  const std::function<void()> asked_;
  const Steady::time_point end_;
  std::string first_;
  std::uint64_t documents_, last_change_;  // sent so far
};

}  // namespace dqctl
