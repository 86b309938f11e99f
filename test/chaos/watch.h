// Records failovers that the test did not cause: on a busy machine a healthy master may answer too late and be
// replaced. Changes that it acknowledged shortly before may be lost.
#pragma once

#include "chaos/journal.h"

namespace chaos {

class Watch {
 public:
  // `master` returns the address of the master; it may throw.
  Watch(std::function<std::string()> master, const Journal& journal);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // While an object of this class lives, failovers are caused by the test and not recorded.
  class ExpectedFailover {
   public:
    explicit ExpectedFailover(Watch& watch) : watch_(watch) { ++watch_.expected_; }
    ~ExpectedFailover() { --watch_.expected_; }
    ExpectedFailover(const ExpectedFailover&) = delete;
    ExpectedFailover& operator=(const ExpectedFailover&) = delete;

   private:
    Watch& watch_;
  };

 private:
  void run();

  const std::function<std::string()> master_;
  const Journal& journal_;
  std::atomic<int> expected_{0};
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace chaos
