#include "support/entropy.h"

#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>

namespace test {
namespace {

thread_local int next_error = 0;  // 0: the next call succeeds

}  // namespace

std::atomic<int> entropy_calls{0};

void fail_next_entropy(int error) { next_error = error; }

}  // namespace test

// Replaces the function of the C library.
extern "C" int getentropy(void* to, std::size_t size) {
  ++test::entropy_calls;
  if (const int error = std::exchange(test::next_error, 0); error != 0) {
    errno = error;
    return -1;
  }
  return ::syscall(SYS_getrandom, to, size, 0) == static_cast<long>(size) ? 0 : -1;
}
#endif
