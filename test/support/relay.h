// A proxy between clients and test::server() that detects pipelining: requests sent before the last reply arrived.
#pragma once

#include "embedded/server_process.h"
#include "support/local.h"

namespace test {

// Parses commands and replies. While armed, it delays the last outstanding reply on a link by 100 ms. A client that
// waits for all replies before its next request just gets the reply late. If a client sends a request meanwhile, the
// relay counts it.
class Relay {
 public:
  enum class Then { answer, cut };  // when a client sends a request during the delay: pass it on, or close the link

  Relay();
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  std::string url() const { return "unix://" + dir_.file("socket"); }

  void arm(Then then) {
    then_ = then;
    armed_ = true;
  }
  void disarm() { armed_ = false; }

  std::size_t early_requests() const { return early_requests_; }  // how often

 private:
  struct Link;

  void run();
  bool serve(Link& link);
  bool forward_commands(Link& link);
  bool answer(Link& link);

  const TempDir dir_;
  const delayqueue::Descriptor listening_;
  std::atomic<bool> armed_{false};
  std::atomic<bool> ended_{false};
  std::atomic<Then> then_{Then::answer};
  std::atomic<std::size_t> early_requests_{0};
  std::thread thread_;  // last: it uses the other members
};

}  // namespace test
