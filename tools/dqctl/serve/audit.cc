#include "serve/audit.h"

#include <cstdio>

namespace dqctl {

Object change_object(const ServedChange& change) {
  Object object;
  object.add("at", change.at).add("client", change.client).add("action", to_string(change.action));
  object.add("queue", change.queue).add("id", change.id).add("detail", change.detail).add("count", change.count);
  return change.error.empty() ? object.add_null("error") : object.add("error", printable(change.error));
}

std::string change_line(const ServedChange& change) {
  std::string line = utc_text(change.at) + ' ' + printable(change.client) + ' ' + to_string(change.action) + ' ' +
                     in_quotes(change.queue);
  if (change.id) line += ' ' + in_quotes(*change.id);
  if (!change.detail.empty()) line += ' ' + change.detail;  // its values are in_quotes()
  line += " count=" + std::to_string(change.count);
  if (!change.error.empty()) line += " error=" + in_quotes(change.error);
  return line;
}

void Audit::add(const ServedChange& change) {
  {
    const std::lock_guard lock(mutex_);
    std::fprintf(stderr, "%s\n", change_line(change).c_str());
    changes_.push_front(change);
    if (changes_.size() > kKept) changes_.pop_back();
  }
  published_(change);
}

std::vector<ServedChange> Audit::latest() const {
  const std::lock_guard lock(mutex_);
  return {changes_.begin(), changes_.end()};
}

}  // namespace dqctl
