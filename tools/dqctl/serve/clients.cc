#include "serve/clients.h"

#include <algorithm>

namespace dqctl {
namespace {

constexpr std::size_t kObjectsOfServe = 100;  // of each kind

}  // namespace

Clients::Clients(const Context& context) : client_(context.hasty_client(kLongestReply)) {}

std::shared_ptr<delayqueue::Inspector> Clients::inspector(const std::string& queue) {
  return object(inspectors_, queue);
}

std::shared_ptr<delayqueue::QueueAdmin> Clients::admin(const std::string& queue) { return object(admins_, queue); }

template <class Object>
std::shared_ptr<Object> Clients::object(Kept<Object>& kept, const std::string& queue) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(kept.begin(), kept.end(), [&](const auto& one) { return one.first == queue; });
  if (found != kept.end()) {
    kept.splice(kept.begin(), kept, found);
  } else {
    kept.emplace_front(queue, std::make_shared<Object>(client_, delayqueue::QueueName::of_existing(queue)));
    if (kept.size() > kObjectsOfServe) kept.pop_back();
  }
  return kept.front().second;
}

}  // namespace dqctl
