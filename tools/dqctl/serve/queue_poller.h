// Polls Redis for dqctl serve in one thread. All clients share its readings, so that they cost Redis as much as one.
#pragma once

#include <delayqueue/inspector.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "context.h"
#include "serve/history.h"
#include "stuck.h"
#include "totals.h"

namespace dqctl {

using TotalRates = std::array<std::optional<double>, kTotals.size()>;  // events per second, in the order of kTotals

struct QueueReading {
  std::string queue{};
  QueueState state{};
  std::optional<TotalRates> rates{};  // unset: there was no reading before
  std::optional<StuckFinding> worst{};
  std::optional<milliseconds> oldest{};  // see FindingWatch, as the next
  std::optional<delayqueue::Counts> a_minute_ago{};
  std::string error{};       // why the queue could not be read; the fields above are then unset
  bool unreachable = false;  // the error is a failed connection
};

// All queues. Never changes once it is published.
struct Readings {
  std::vector<std::shared_ptr<const QueueReading>> queues{};  // by name
  std::uint64_t left_out = 0;                                 // queues beyond kMostPolled or kLongestListed
  std::optional<Time> read_at{};                              // by the clock of this machine; unset: never yet
  std::optional<Time> failing_since{};                        // unset: Redis is reachable
  std::string error{};  // why Redis is not reachable; the fields above are then those of the last good poll

  const QueueReading* find(const std::string& queue) const;  // null: not there
};

class QueuePoller {
 public:
  static constexpr std::size_t kMostPolled = History::kMostQueues;

  // changed: called by the polling thread after each poll. The constructor polls once. It throws if Redis refuses that,
  // but not if Redis is unreachable. From then on only this object may use the context.
  QueuePoller(Context& context, History& history, std::function<void(const Readings&)> changed);
  ~QueuePoller();
  QueuePoller(const QueuePoller&) = delete;
  QueuePoller& operator=(const QueuePoller&) = delete;

  void start();

  // Polls every second for some seconds from now on; without this call every 15 s. Thread-safe, as the calls below.
  void ask();

  // ask(), and the readings: not older than a second, unless the next ones take longer than that.
  std::shared_ptr<const Readings> fresh();

  // The readings as they are, without waiting and without ask().
  std::shared_ptr<const Readings> last() const;

  // False: after `limit` the thread still waits for a server. Then do not destroy this object.
  bool stop(milliseconds limit);

 private:
  using Steady = std::chrono::steady_clock;

  struct Previous {
    delayqueue::Counts counts{};
    std::optional<TotalRates> rates{};
    FindingWatch findings{};
  };

  void run();
  void poll();
  void publish(Readings readings);
  void publish_failure(const std::string& error);
  std::shared_ptr<const QueueReading> read_queue(const std::string& name);
  std::optional<TotalRates> update_rates(Previous& previous, bool is_first, const delayqueue::Counts& counts);
  Steady::time_point next_poll() const;

  Context& context_;
  History& history_;
  const std::function<void(const Readings&)> changed_;
  std::map<std::string, Previous> previous_{};  // used by the polling thread only

  mutable std::mutex mutex_;  // guards all members below
  std::condition_variable wake_, polled_, ended_;
  std::shared_ptr<const Readings> readings_ = std::make_shared<Readings>();
  std::uint64_t polls_ = 0;
  Steady::time_point begun_{}, polled_at_{};  // of the last poll: its begin and its end
  Steady::time_point asked_{};
  bool stopping_ = false, has_ended_ = true;
  std::thread thread_{};
};

}  // namespace dqctl
