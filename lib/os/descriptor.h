// Descriptor: an owned file descriptor.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace delayqueue {

// Closes the descriptor in its destructor. Negative: none.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }  // for the caller to close

 private:
  int fd_;
};

// Takes ownership of a new descriptor, moves it above the three of the standard streams, and sets close-on-exec. Every
// descriptor that this library keeps goes through here: in a program that has closed its stdout, the next socket would
// get number 1, and the server would execute the output of the program. On failure, and for a negative `fd`, the result
// is empty and errno is that of the failed call.
inline Descriptor above_standard(int fd) {
  Descriptor given(fd);
  if (fd > STDERR_FILENO) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  if (fd < 0 || fd > STDERR_FILENO) return given;
  Descriptor moved(::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  const int error = errno;  // closing `given` may change it
  given = Descriptor();
  errno = error;
  return moved;
}

}  // namespace delayqueue
