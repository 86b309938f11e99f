// LeftoverRemover: removes a folder when this process ends, even if it is killed.
#pragma once

#include "os/descriptor.h"

#include <delayqueue/version.h>

#include <sys/types.h>

#include <string>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {
namespace testing {

// A child process that waits for the end of this one. It has no other task, so that a test that is killed, or crashes,
// leaves no folder behind.
class LeftoverRemover {
 public:
  // Without a process to be had there is none: then the next server with a temporary folder removes this one.
  explicit LeftoverRemover(const std::string& folder);
  // Ends the child. The folder is left as it is.
  ~LeftoverRemover();
  LeftoverRemover(const LeftoverRemover&) = delete;
  LeftoverRemover& operator=(const LeftoverRemover&) = delete;

 private:
  const pid_t owner_;
  Descriptor pipe_;  // its end tells the child that this process has ended
  pid_t child_ = -1;
};

}  // namespace testing
}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
