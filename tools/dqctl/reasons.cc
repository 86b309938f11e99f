#include "reasons.h"

#include <algorithm>

#include "lines.h"

namespace dqctl {

Object reason_object(const ReasonCount& one) {
  Object object;
  object.add("reason", one.reason).add("count", one.count).add("first", one.first).add("last", one.last);
  one.example.empty() ? object.add_null("example") : object.add("example", one.example);
  return object;
}

void ReasonCounts::add(const delayqueue::MessageInfo& message) {
  ++messages_;
  auto found = kept_.find(message.reason);
  if (found == kept_.end() && kept_.size() < kMost) found = kept_.emplace(message.reason, ReasonCount()).first;
  ReasonCount& one = found == kept_.end() ? rest_ : found->second;
  ++one.count;
  const bool is_last = !one.last || (message.at && *message.at >= *one.last);
  if (message.at && (!one.first || *message.at < *one.first)) one.first = message.at;
  if (message.at && is_last) one.last = message.at;
  if ((is_last || one.example.empty()) && is_stored_id(message.id)) one.example = message.id;
}

std::vector<ReasonCount> ReasonCounts::sorted() const {
  std::vector<ReasonCount> all;
  all.reserve(kept_.size() + 1);
  for (const auto& [reason, count] : kept_) all.emplace_back(count).reason = reason;
  std::sort(all.begin(), all.end(), [](const ReasonCount& a, const ReasonCount& b) {
    return a.count != b.count ? a.count > b.count : *a.reason < *b.reason;
  });
  if (rest_.count > 0) all.push_back(rest_);
  return all;
}

}  // namespace dqctl
