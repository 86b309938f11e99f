// A relay between clients and a Redis server that delays every byte, as a longer network link does.
#pragma once

#include "support/local.h"

namespace bench {

// Each direction of a connection has a thread that reads and a thread that writes. The reader never waits for the
// writer, so the relay delays, but does not limit what is in flight.
class DelayRelay {
 public:
  // Listens on a unix socket. Throws std::runtime_error.
  DelayRelay(const std::string& server_socket, std::chrono::microseconds each_way);

  // Closes all connections. The clients should have ended.
  ~DelayRelay();
  DelayRelay(const DelayRelay&) = delete;
  DelayRelay& operator=(const DelayRelay&) = delete;

  std::string url() const { return "unix://" + dir_.file("s"); }

 private:
  class Lane;
  struct Link;

  void run();
  void accept();

  const std::string server_socket_;
  const std::chrono::microseconds delay_;
  const test::TempDir dir_;
  const delayqueue::Descriptor listener_;
  std::vector<std::unique_ptr<Link>> links_;  // used by thread_, and by the destructor after its end
  std::atomic<bool> ending_{false};
  std::thread thread_;  // last: uses the other members
};

}  // namespace bench
