// File descriptors that are closed with their owner.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace delayqueue {

// Closes what it holds.
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

// Takes over a new descriptor and moves it above the three of the standard streams; it is closed at exec. Where the
// program has closed its stdout, the system gives number 1 to the next socket or pipe, and the server would execute
// what the program prints. Every descriptor that this library keeps goes through here. On failure, and for a negative
// `fd`, the result holds none and errno is that of the failed call.
inline Descriptor above_standard(int fd) {
  Descriptor given(fd);
  if (fd > STDERR_FILENO) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  if (fd < 0 || fd > STDERR_FILENO) return given;
  Descriptor moved(::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  const int error = errno;  // given's end may change it
  given = Descriptor();
  errno = error;
  return moved;
}

}  // namespace delayqueue
