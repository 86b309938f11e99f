#include "support/wrong_clock.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>

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

void write_program(const std::string& path, const std::string& offset) {
  std::ofstream(path) << "#!/bin/sh\n"
                         "program=${DELAYQUEUE_REDIS_SERVER:-$(command -v redis-server || command -v valkey-server)}\n"
                         "export FAKE_CLOCK='"
                      << offset << "' LD_PRELOAD='" << DELAYQUEUE_FAKE_CLOCK << "'\nexec \"$program\" \"$@\"\n";
  ::chmod(path.c_str(), 0700);
}

}  // namespace

WrongClock::WrongClock() : offset_(make_offset(folder_.file("offset"))) {
  delayqueue::PrivateServerOptions options;
  options.program = folder_.file("server");
  write_program(options.program, folder_.file("offset"));
  server_ = std::make_unique<delayqueue::PrivateServer>(options);
}

WrongClock::~WrongClock() {
  server_.reset();
  ::munmap(offset_, sizeof(Offset));
}

void WrongClock::jump(std::chrono::milliseconds by) { *offset_ += by.count() * 1000; }

}  // namespace test
