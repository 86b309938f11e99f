// TestServer: the private server of a Sandbox, whose clock can be moved forward.
#pragma once

#include "testing/leftovers.h"
#include "testing/server_clock.h"
#include "testing/server_link.h"

#include <delayqueue/client.h>
#include <delayqueue/inspector.h>
#include <delayqueue/server.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {
namespace testing {

using Time = std::chrono::system_clock::time_point;

// A duration for an error text: "15 min", "1.5 s".
std::string to_text(milliseconds time);

// A name that was read from Redis, for an error text.
std::string quoted(const std::string& name);

class TestServer {
 public:
  // Throws SetupError if the clock of the server cannot be moved, and what the constructor of PrivateServer throws.
  explicit TestServer(PrivateServerOptions options);

  PrivateServer& server() { return *server_; }
  std::string url() const { return server_->url(); }

  // Time on the server.
  Time now() const { return std::chrono::system_clock::now() + clock_.offset(); }

  // Moves the clock forward, and wakes a consumer of each queue.
  void jump(std::chrono::microseconds by);

  // Reads which queues there are, with any prefix. To be called before the next two, and a jump after which consumers
  // are to be woken.
  void find_queues();

  struct InFlight {
    std::string queue;
    MessageInfo message;
  };
  // The messages in flight: their leases have not ended.
  std::vector<InFlight> in_flight();

  // The slot of the next schedule of each queue, whose bases are given; unset: it has none.
  std::vector<std::optional<Time>> next_slots(const std::vector<std::string>& bases);

 private:
  struct Queue {
    std::string name;
    std::unique_ptr<Inspector> inspector;
  };

  void prove_clock();

  ServerClock clock_;
  std::unique_ptr<LeftoverRemover> remover_;  // unset: the folder is the caller's
  std::unique_ptr<PrivateServer> server_;
  std::unique_ptr<ServerLink> link_;
  std::unique_ptr<Client> client_;
  std::map<std::string, Queue> queues_;  // by their bases
  std::vector<std::string> registries_;  // the keys that list them
};

// The messages of one queue that are in flight, also those whose leases have ended.
std::vector<MessageInfo> held_messages(Inspector& inspector);

}  // namespace testing
}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
