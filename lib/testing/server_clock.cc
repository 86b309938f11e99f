#include "testing/server_clock.h"

#include <delayqueue/error.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <system_error>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {
namespace testing {

extern const unsigned char clock_library[];  // clock.so; made by the build
extern const std::size_t clock_library_size;

namespace {

using Offset = std::atomic<std::int64_t>;

[[noreturn]] void fail(const char* call, int error) {
  throw SetupError(std::string("the clock of a Sandbox: ") + call +
                   " failed: " + std::generic_category().message(error) + "; moving the clock of a server needs Linux");
}

Descriptor file_in_memory(const char* name) {
#ifdef __linux__
  Descriptor file = above_standard(::memfd_create(name, MFD_CLOEXEC));
#else
  static_cast<void>(name);
  errno = ENOSYS;
  Descriptor file;
#endif
  if (file.get() < 0) fail("memfd_create()", errno);
  return file;
}

Descriptor library_in_memory() {
  Descriptor file = file_in_memory("delayqueue-clock.so");
  for (std::size_t written = 0; written < clock_library_size;) {
    const ssize_t count = ::write(file.get(), clock_library + written, clock_library_size - written);
    if (count < 0 && errno != EINTR) fail("write()", errno);
    if (count > 0) written += static_cast<std::size_t>(count);
  }
  return file;
}

}  // namespace

ServerClock::ServerClock()
    : owner_(::getpid()), library_(library_in_memory()), page_(file_in_memory("delayqueue-clock-offset")) {
  if (::ftruncate(page_.get(), sizeof(Offset)) != 0) fail("ftruncate()", errno);
  void* const page = ::mmap(nullptr, sizeof(Offset), PROT_READ | PROT_WRITE, MAP_SHARED, page_.get(), 0);
  if (page == MAP_FAILED) fail("mmap()", errno);
  offset_ = static_cast<Offset*>(page);
}

ServerClock::~ServerClock() { ::munmap(offset_, sizeof(Offset)); }

std::vector<std::string> ServerClock::environment() const {
  return {"LD_PRELOAD=" + path_of(library_), "DELAYQUEUE_CLOCK_OFFSET=" + path_of(page_)};
}

std::string ServerClock::path_of(const Descriptor& file) const {
  return "/proc/" + std::to_string(owner_) + "/fd/" + std::to_string(file.get());
}

}  // namespace testing
}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
