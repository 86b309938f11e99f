// Stands between clients and test::server(), and lets them wait for their last answer.
#pragma once

#include <atomic>
#include <cstddef>
#include <list>
#include <string>
#include <thread>

#include "embedded/server_process.h"
#include "support/local.h"

namespace test {

// Knows where commands and answers end. While it is armed it keeps back the last answer that is due on a link: who
// waits for all answers before asking more says nothing then, and gets it after a moment. One who asks more all the
// same has several requests under way.
class Relay {
 public:
  enum class Then { answer, cut };  // what comes to one who has asked more

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

  std::size_t asked_more() const { return asked_more_; }  // times

 private:
  struct Link;

  void run();
  bool serve(Link& link);
  bool hear(Link& link);
  bool answer(Link& link);

  const TempDir dir_;
  const delayqueue::Descriptor listening_;
  std::atomic<bool> armed_{false};
  std::atomic<bool> ended_{false};
  std::atomic<Then> then_{Then::answer};
  std::atomic<std::size_t> asked_more_{0};
  std::thread thread_;  // last: it uses the rest
};

}  // namespace test
