// Temporary folders, removed with the process that made them.
#pragma once

#include "embedded/server_process.h"

#include <sys/types.h>

#include <filesystem>

namespace delayqueue {

// A new folder in the folder that $TMPDIR, $TMP, $TEMP or $TEMPDIR names, else in /tmp; locked and marked as temporary.
// The destructor removes it with its contents. The constructor also removes folders that killed processes have left
// behind; it throws what fail_with() throws.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  const pid_t owner_;  // a forked process has a copy of this object, and must not remove the folder
  std::filesystem::path path_;
  Descriptor lock_;  // on the folder itself
};

// Removes the mark of a temporary folder, so that it is no longer removed automatically.
void keep_folder(const Descriptor& folder);

}  // namespace delayqueue
