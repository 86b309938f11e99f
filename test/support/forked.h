// Code in a process that is forked from this one.
#pragma once

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/standard.h"

namespace test {

// The thread sanitizer ends a forked process that makes a thread.
#if defined(__SANITIZE_THREAD__)
constexpr bool kForksMakeThreads = false;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr bool kForksMakeThreads = false;
#else
constexpr bool kForksMakeThreads = true;
#endif
#else
constexpr bool kForksMakeThreads = true;
#endif

// Runs `call` in a forked process. Returns 0 if it returned true, 1 if not, 2 if it threw; SIGALRM ends a hang.
inline int in_child(const std::function<bool()>& call) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(20);
    int code = 2;
    try {
      code = call() ? 0 : 1;
    } catch (...) {
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace test
