// Notes when another server becomes the master without having been asked to: on a machine that is too busy, a healthy one
// may not answer in time. What it took shortly before may be lost then.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "chaos/journal.h"

namespace chaos {

class Watch {
 public:
  // master: its address; may throw.
  Watch(std::function<std::string()> master, const Journal& journal);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // While one of these lives, whoever made it knows better.
  class Asked {
   public:
    explicit Asked(Watch& watch) : watch_(watch) { ++watch_.asked_; }
    ~Asked() { --watch_.asked_; }
    Asked(const Asked&) = delete;
    Asked& operator=(const Asked&) = delete;

   private:
    Watch& watch_;
  };

 private:
  void run();

  const std::function<std::string()> master_;
  const Journal& journal_;
  std::atomic<int> asked_{0};
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace chaos
