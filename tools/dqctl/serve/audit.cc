#include "serve/audit.h"

#include <cstdio>
#include <optional>

namespace dqctl {

Object change_object(const ServedChange& change) {
  Object object;
  object.add("at", change.at).add("client", change.client.address);
  object.add("user", change.client.user.empty() ? std::nullopt : std::optional(change.client.user));
  object.add("action", to_string(change.action));
  object.add("queue", change.queue).add("id", change.id).add("detail", change.detail).add("count", change.count);
  return change.error.empty() ? object.add_null("error") : object.add("error", printable(change.error));
}

std::string change_text(const ServedChange& change) {
  std::string text = to_string(change.action) + (' ' + in_quotes(change.queue));
  if (change.id) text += ' ' + in_quotes(*change.id);
  return change.detail.empty() ? text : text + ' ' + change.detail;  // its values are in_quotes()
}

std::string change_line(const ServedChange& change) {
  std::string line = utc_text(change.at) + ' ' + printable(change.client.address) + ' ' + change_text(change);
  if (!change.client.user.empty()) line += " user=" + in_quotes(change.client.user);
  line += " count=" + std::to_string(change.count);
  if (!change.error.empty()) line += " error=" + in_quotes(change.error);
  return line;
}

void Audit::add(const ServedChange& change) {
  {
    const std::lock_guard lock(mutex_);
    std::fprintf(stderr, "%s\n", change_line(change).c_str());
    changes_.push_front(change);
    ++total_;
    if (changes_.size() > kKept) changes_.pop_back();
  }
  published_(change);
}

std::uint64_t Audit::total() const {
  const std::lock_guard lock(mutex_);
  return total_;
}

std::vector<ServedChange> Audit::latest() const {
  const std::lock_guard lock(mutex_);
  return {changes_.begin(), changes_.end()};
}

}  // namespace dqctl
