#include "serve/dead_reasons.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "filter.h"
#include "lines.h"

namespace dqctl {
namespace {

constexpr std::uint64_t kMostCounted = 10'000;
constexpr std::size_t kMostReasons = 100;

struct CountedReason {
  std::string reason{};
  std::uint64_t count = 0;
  std::optional<Time> first{}, last{};
  std::string example{};
};

Object object_of(const CountedReason& one) {
  Object object;
  object.add("reason", one.reason).add("count", one.count).add("first", one.first).add("last", one.last);
  return one.example.empty() ? object.add_null("example") : object.add("example", one.example);
}

}  // namespace

Object reasons_object(Context& context, const std::string& queue) {
  const delayqueue::Counts counts = context.counts(queue);
  std::map<std::string, CountedReason> found;
  Walk walk(context.inspector(queue), delayqueue::State::dead, {}, counts.now, 0);
  walk.stop_after(kMostCounted);
  while (const auto message = walk.next()) {
    CountedReason& one = found[message->reason];
    one.reason = message->reason;
    ++one.count;
    if (!one.first) one.first = message->at;
    if (message->at) one.last = message->at;
    if (is_stored_id(message->id)) one.example = message->id;
  }
  std::vector<CountedReason> all;
  for (auto& one : found) all.push_back(std::move(one.second));
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.count > b.count; });
  std::vector<Object> objects;
  for (std::size_t i = 0; i < all.size() && i < kMostReasons; ++i) objects.push_back(object_of(all[i]));
  Object object;
  object.add("queue", queue).add("dead", counts.dead).add("reasons", objects);
  return object.add("counted", walk.examined()).add("distinct", all.size());
}

}  // namespace dqctl
