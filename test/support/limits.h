// Limits of this process: file descriptors and threads.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>

#include "os/descriptor.h"
#include "support/standard.h"

namespace test {

// Uses up all descriptors of this process until it is destroyed.
class NoDescriptors {
 public:
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = 200;
    ::setrlimit(RLIMIT_NOFILE, &few);
    for (int fd = 0; (fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken_.emplace_back(fd);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

  void free_one() {
    REQUIRE_FALSE(taken_.empty());
    taken_.pop_back();
  }

 private:
  rlimit before_{};
  std::vector<delayqueue::Descriptor> taken_;
};

inline std::size_t threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

#ifdef __GLIBC__
constexpr std::size_t kTooLargeStack = std::size_t{1} << 50;  // more than the address space

// The default size of the stacks of new threads.
inline std::size_t stack_of_threads() {
  pthread_attr_t attributes;
  ::pthread_getattr_default_np(&attributes);
  std::size_t bytes = 0;
  ::pthread_attr_getstacksize(&attributes, &bytes);
  ::pthread_attr_destroy(&attributes);
  return bytes;
}

inline void give_threads_stacks_of(std::size_t bytes) {
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, bytes);
  ::pthread_setattr_default_np(&attributes);
  ::pthread_attr_destroy(&attributes);
}

// While it exists, no thread can be created in this process.
class NoThreads {
 public:
  NoThreads() { give_threads_stacks_of(kTooLargeStack); }
  ~NoThreads() { give_threads_stacks_of(before_); }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  const std::size_t before_ = stack_of_threads();
};
#endif

}  // namespace test
