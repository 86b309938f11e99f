// Reads that dqctl serve shares with other commands of dqctl: they take the Context of a command, which one thread may
// use at a time. Their answers are kept for some seconds.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "context.h"

namespace dqctl {

// Any number of threads may use it.
class CommandReads {
 public:
  using Warn = std::function<void(const std::string& text)>;

  // The context is used by this object only. It must live as long. warn: gets why a queue is not in metrics(), once
  // until the reason changes; the text is printable.
  explicit CommandReads(Context& context, Warn warn = {}) : context_(context), warn_(std::move(warn)) {}

  // The documents of dqctl stuck QUEUE, dqctl reasons QUEUE and dqctl workers, and the text of dqctl metrics of these
  // queues (none: of all); they are the same in all calls. They throw HttpError, Failure, std::invalid_argument and
  // delayqueue::Error. earlier: a reading of the queue that a Pace is computed from; unset: that of this call.
  std::string stuck(const std::string& queue, const std::optional<delayqueue::Counts>& earlier);
  std::string dead_reasons(const std::string& queue);
  std::string workers();

  // The list of dqctl actions, of at most 1,000 queues. version: another number has another answer.
  std::string actions(std::uint64_t version);
  std::string metrics(const std::vector<std::string>& queues);

  // Throws delayqueue::Error if Redis does not answer, and HttpError if another thread has waited for it for a second.
  // queues: as for metrics(). The user needs the right to list all queues only if the first of these cannot be read.
  void check_redis(const std::vector<std::string>& queues);

 private:
  using Steady = std::chrono::steady_clock;

  struct Kept {
    std::string text{};
    Steady::time_point at{};
  };

  static constexpr std::chrono::seconds kLongestWait{5};  // for other requests of this kind

  std::string answer(const std::string& what, Steady::duration lifetime, const std::function<std::string()>& read,
                     Steady::duration longest_wait = kLongestWait);

  Context& context_;
  const Warn warn_;
  std::timed_mutex mutex_;  // guards context_ and the members below
  std::map<std::string, Kept> kept_{};
  std::set<std::string> errors_{};  // of the last metrics()
};

}  // namespace dqctl
