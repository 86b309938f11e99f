#include "serve/clients.h"

#include <algorithm>

namespace dqctl {
namespace {

constexpr std::size_t kClientsOfServe = 100;  // of each kind

}  // namespace

Clients::Clients(const Context& context) : uri_(context.uri()) {
  options_.connection = context.connection();
  options_.queue = context.queue_options();
  auto& connection = options_.connection;
  connection.connect_timeout = std::min(connection.connect_timeout, kLongestReply);
  connection.command_timeout = std::min(connection.command_timeout, kLongestReply);
}

std::shared_ptr<delayqueue::Inspector> Clients::inspector(const std::string& queue) {
  return client(inspectors_, queue);
}

std::shared_ptr<delayqueue::QueueAdmin> Clients::admin(const std::string& queue) { return client(admins_, queue); }

template <class Client>
std::shared_ptr<Client> Clients::client(Kept<Client>& kept, const std::string& queue) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(kept.begin(), kept.end(), [&](const auto& one) { return one.first == queue; });
  if (found != kept.end()) {
    kept.splice(kept.begin(), kept, found);
  } else {
    kept.emplace_front(queue, std::make_shared<Client>(uri_, queue, options_));
    if (kept.size() > kClientsOfServe) kept.pop_back();
  }
  return kept.front().second;
}

}  // namespace dqctl
