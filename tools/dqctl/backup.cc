#include "backup.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>

#include "exit.h"
#include "lines.h"
#include "output/text.h"
#include "own_file.h"

namespace dqctl {
namespace {

// Makes the name of a new file durable: it is stored in the folder.
void sync_folder_of(const std::string& file) {
  const std::size_t slash = file.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : file.substr(0, slash);
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

}  // namespace

Backup::Backup(const std::string& file, bool append)
    : name_(file), file_(open_own_file("--backup", file, append ? IfExists::append : IfExists::refuse)) {
  sync_folder_of(file);
  const off_t size = ::lseek(file_.get(), 0, SEEK_END);
  char last = '\n';
  if (size > 0 && ::pread(file_.get(), &last, 1, size - 1) == 1 && last != '\n')
    write("\n");  // an earlier run was cut off within a line
}

void Backup::throw_write_error() const {
  throw Failure(Exit::failed, "--backup: " + in_quotes(name_) + ": " + std::generic_category().message(errno) +
                                  "; what is not in it was not removed");
}

void Backup::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto n = ::write(file_.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw_write_error();
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

void Backup::write(const std::vector<delayqueue::MessageInfo>& messages) {
  std::string lines;
  for (const auto& message : messages) lines += line_of(message) + '\n';
  write(lines);
  while (::fsync(file_.get()) != 0) {
    if (errno == EINVAL || errno == ENOTSUP) break;  // the file system does not support fsync
    if (errno != EINTR) throw_write_error();
  }
  written_ += messages.size();
}

}  // namespace dqctl
