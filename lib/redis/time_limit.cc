#include "redis/time_limit.h"

#include <algorithm>

namespace delayqueue::redis {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kShortestWait{50};

}  // namespace

milliseconds TimeLimit::cut(milliseconds timeout) {
  const Deadline limit = of_thread();
  if (limit == Deadline::max()) return timeout;
  const auto left = std::chrono::ceil<milliseconds>(limit - Clock::now());
  return std::min(timeout, std::max(left, kShortestWait));
}

Deadline TimeLimit::cut(Deadline deadline) {
  const Deadline limit = of_thread();
  if (limit == Deadline::max()) return deadline;
  return std::min(deadline, std::max(limit, Clock::now() + kShortestWait));
}

Deadline& TimeLimit::of_thread() {
  thread_local Deadline limit = Deadline::max();
  return limit;
}

}  // namespace delayqueue::redis
