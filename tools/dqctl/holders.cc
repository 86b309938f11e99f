#include "holders.h"

#include <delayqueue/error.h>

#include <algorithm>
#include <map>
#include <utility>

namespace dqctl {

std::vector<delayqueue::Worker> registered_workers(delayqueue::Inspector& inspector) {
  try {
    return inspector.workers();
  } catch (const delayqueue::ReplyError&) {  // what the caller shows is right without it, too
    return {};
  }
}

std::vector<HeldMessage> held_messages(const std::vector<delayqueue::Worker>& workers) {
  std::map<std::string, HeldMessage> by_id;
  for (const delayqueue::Worker& worker : workers) {
    for (const delayqueue::RunningMessage& one : worker.longest) {
      HeldMessage& held = by_id[one.id];
      if (held.id.empty() || held.since < one.since) held = {one.id, one.since, worker, one.fetching};
    }
  }
  std::vector<HeldMessage> held;
  held.reserve(by_id.size());
  for (auto& one : by_id) held.push_back(std::move(one.second));
  std::stable_sort(held.begin(), held.end(), [](const auto& a, const auto& b) { return a.since < b.since; });
  return held;
}

std::string place_text(const delayqueue::Worker& worker) {
  const std::string name = worker.name.empty() ? "" : " (" + printable(worker.name) + ')';
  return "host " + printable(worker.host) + ", process " + std::to_string(worker.pid) + name;
}

}  // namespace dqctl
