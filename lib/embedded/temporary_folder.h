// Folders that go with the process that made them.
#pragma once

#include "embedded/server_process.h"

#include <sys/types.h>

#include <filesystem>

namespace delayqueue {

// A new folder in $TMPDIR or /tmp, locked and marked as temporary; removed with all that is in it when this goes. What a
// killed process left behind is removed by the next process that makes one. Throws what fail_with() throws.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  const pid_t owner_;  // a process forked from it has a copy of this object, and removes nothing
  std::filesystem::path path_;
  Descriptor lock_;  // of the folder itself
};

// The folder will stay: no sweep may remove it, though it was a temporary one before.
void keep_folder(const Descriptor& folder);

}  // namespace delayqueue
