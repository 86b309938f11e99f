// A Redis whose wall clock can be set wrong while it runs, as an administrator or a virtual machine's host would. For
// Linux, and for servers that are linked dynamically.
#pragma once

#include <delayqueue/private_server.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "support/raw_server.h"

namespace test {

class WrongClock {
 public:
  WrongClock();
  ~WrongClock();
  WrongClock(const WrongClock&) = delete;
  WrongClock& operator=(const WrongClock&) = delete;

  delayqueue::PrivateServer& server() { return *server_; }

  // The server's clock jumps, forward or (less than 0) back. Returns when it has.
  void jump(std::chrono::milliseconds by);

 private:
  TempDir folder_;
  std::atomic<std::int64_t>* offset_ = nullptr;
  std::unique_ptr<delayqueue::PrivateServer> server_;
};

}  // namespace test
