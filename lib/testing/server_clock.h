// ServerClock: a wall clock that runs ahead of this machine's, for a server that is started with it.
#pragma once

#include "os/descriptor.h"

#include <delayqueue/version.h>

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {
namespace testing {

// The library clock.so is preloaded into the server, and adds an offset to each time that the server reads. Library and
// offset are files in memory, which the server opens by their descriptors in this process. So nothing is installed or
// searched for, and nothing is left when the process ends, in whichever way.
//
// One thread at a time may move it. The server must end before it.
class ServerClock {
 public:
  ServerClock();  // throws SetupError
  ~ServerClock();
  ServerClock(const ServerClock&) = delete;
  ServerClock& operator=(const ServerClock&) = delete;

  // The variables of a server, or of another program, that runs by this clock: see PrivateServerOptions. Programs that
  // start later or again have the same clock.
  std::vector<std::string> environment() const;

  // Ahead of this machine's clock, or behind it if negative.
  std::chrono::microseconds offset() const { return std::chrono::microseconds(offset_->load()); }

  // Takes effect at once.
  void move(std::chrono::microseconds by) { *offset_ += by.count(); }

 private:
  std::string path_of(const Descriptor& file) const;

  const pid_t owner_;
  Descriptor library_, page_;
  std::atomic<std::int64_t>* offset_ = nullptr;  // in page_
};

}  // namespace testing
}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
