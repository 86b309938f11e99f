// The connections that answer requests of dqctl serve.
#pragma once

#include <delayqueue/client.h>
#include <delayqueue/inspector.h>
#include <delayqueue/queue_admin.h>

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "context.h"

namespace dqctl {

// Inspectors and admins of queues, each created on first use; the last 100 of each kind are kept. Any number of threads
// may use it, and what it returns.
class Clients {
 public:
  static constexpr milliseconds kLongestReply{3000};

  // Connects as the context does, with at most kLongestReply for each reply: a request must not wait long for a server
  // that is frozen.
  explicit Clients(const Context& context);

  // Throw std::invalid_argument for a name that no queue can have.
  std::shared_ptr<delayqueue::Inspector> inspector(const std::string& queue);
  std::shared_ptr<delayqueue::QueueAdmin> admin(const std::string& queue);

 private:
  template <class Object>
  using Kept = std::list<std::pair<std::string, std::shared_ptr<Object>>>;  // latest first

  template <class Object>
  std::shared_ptr<Object> object(Kept<Object>& kept, const std::string& queue);

  const delayqueue::Client client_;
  std::mutex mutex_;  // guards the lists
  Kept<delayqueue::Inspector> inspectors_{};
  Kept<delayqueue::QueueAdmin> admins_{};
};

}  // namespace dqctl
