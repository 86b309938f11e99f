// A backup file of messages, as lines that `import` reads. When write() returns, the messages are on the disk.
#pragma once

#include <delayqueue/inspector.h>

#include <cstdint>
#include <string>
#include <vector>

#include "fd.h"

namespace dqctl {

class Backup {
 public:
  // Throws Usage if the file exists and `append` is false; Failure if it cannot be written. Only its owner may read
  // it.
  Backup(const std::string& file, bool append);
  Backup(const Backup&) = delete;
  Backup& operator=(const Backup&) = delete;

  void write(const std::vector<delayqueue::MessageInfo>& messages);

  std::uint64_t written() const { return written_; }

 private:
  void write(std::string_view bytes);
  [[noreturn]] void throw_write_error() const;

  const std::string name_;
  Fd file_;
  std::uint64_t written_ = 0;
};

}  // namespace dqctl
