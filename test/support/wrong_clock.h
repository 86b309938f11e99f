// A Redis server whose wall clock a test can change while it runs, as an administrator or a hypervisor might. Needs
// Linux and a dynamically linked server.
#pragma once

#include "support/raw_server.h"
#include "testing/server_clock.h"

namespace test {

class WrongClock {
 public:
  WrongClock();

  delayqueue::PrivateServer& server() { return *server_; }

  // Moves the server's clock forward, or back if `by` is negative. Takes effect before it returns.
  void jump(std::chrono::milliseconds by) { clock_.move(by); }

  // Returns the path of a program that runs the command in its arguments. The clocks of that, also the steady one, jump
  // together with the server's, as if the time passed. Only if can_run_with_wrong_clock().
  std::string runner() const;

 private:
  TempDir folder_;
  delayqueue::testing::ServerClock clock_;
  std::unique_ptr<delayqueue::PrivateServer> server_;
};

// Returns false, and prints that the test is skipped, in a build with a sanitizer.
bool can_run_with_wrong_clock();

}  // namespace test
