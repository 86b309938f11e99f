#include "serve/dead_reasons.h"

#include <algorithm>
#include <vector>

#include "filter.h"
#include "reasons.h"

namespace dqctl {
namespace {

constexpr std::uint64_t kMostCounted = 10'000;
constexpr std::size_t kMostReasons = 100;

}  // namespace

Object reasons_object(Context& context, const std::string& queue) {
  const delayqueue::Counts counts = context.counts(queue);
  ReasonCounts reasons;
  Walk walk(context.inspector(queue), delayqueue::State::dead, {}, counts.now, 0);
  walk.read_newest_first();
  walk.leave_bodies_out();
  walk.stop_after(kMostCounted);
  while (const auto message = walk.next()) reasons.add(*message);
  const std::vector<ReasonCount> all = reasons.sorted();
  std::vector<Object> objects;
  for (std::size_t i = 0; i < std::min(all.size(), kMostReasons); ++i) objects.push_back(reason_object(all[i]));
  Object object;
  object.add("queue", queue).add("dead", counts.dead).add("reasons", objects);
  return object.add("counted", reasons.messages()).add("distinct", reasons.distinct());
}

}  // namespace dqctl
