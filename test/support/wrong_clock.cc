#include "support/wrong_clock.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/sanitized.h"

namespace test {
namespace {

using Offset = std::atomic<std::int64_t>;

Offset* make_offset(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const bool sized = fd >= 0 && ::ftruncate(fd, sizeof(Offset)) == 0;
  void* const page = sized ? ::mmap(nullptr, sizeof(Offset), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  if (fd >= 0) ::close(fd);
  if (page == MAP_FAILED) throw std::runtime_error("wrong clock: cannot map " + path);
  return static_cast<Offset*>(page);
}

// `begin`: its first commands; `runs`: what it executes.
void write_program(const std::string& path, const std::string& offset, const std::string& begin,
                   const std::string& runs) {
  std::ofstream(path) << "#!/bin/sh\n"
                      << begin << "\nexport FAKE_CLOCK='" << offset << "' LD_PRELOAD='" << DELAYQUEUE_FAKE_CLOCK
                      << "'\nexec " << runs << "\n";
  ::chmod(path.c_str(), 0700);
}

}  // namespace

WrongClock::WrongClock() : offset_(make_offset(folder_.file("offset"))) {
  delayqueue::PrivateServerOptions options;
  options.program = folder_.file("server");
  write_program(options.program, folder_.file("offset"),
                "program=${DELAYQUEUE_REDIS_SERVER:-$(command -v redis-server || command -v valkey-server)}",
                "\"$program\" \"$@\"");
  server_ = std::make_unique<delayqueue::PrivateServer>(options);
}

WrongClock::~WrongClock() {
  server_.reset();
  ::munmap(offset_, sizeof(Offset));
}

void WrongClock::jump(std::chrono::milliseconds by) { *offset_ += by.count() * 1000; }

std::string WrongClock::runner() const {
  const std::string path = folder_.file("runner");
  write_program(path, folder_.file("offset"), "export FAKE_STEADY_CLOCK=1", "\"$@\"");
  return path;
}

bool can_run_with_wrong_clock() {
  if (TEST_SANITIZED)
    std::cout << "skipped: a program with a sanitizer does not run with a preloaded clock" << std::endl;
  return TEST_SANITIZED == 0;
}

}  // namespace test
