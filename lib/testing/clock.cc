// A library to preload into a program, made by ServerClock. Shifts the program's wall clock by the number of
// microseconds in the file $DELAYQUEUE_CLOCK_OFFSET. Its monotonic clock stays right, unless $DELAYQUEUE_CLOCK_STEADY
// is set: then that is shifted, too.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

using Offset = std::atomic<std::int64_t>;

const Offset* offset = nullptr;
bool shifts_steady_clock = false;

// The program must not run with another clock than it should.
[[noreturn]] void give_up() {
  constexpr char kText[] = "the clock of delayqueue::testing: cannot map $DELAYQUEUE_CLOCK_OFFSET\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kText, sizeof kText - 1);
  ::_exit(1);
}

[[gnu::constructor]] void map_offset() {
  const char* path = std::getenv("DELAYQUEUE_CLOCK_OFFSET");
  const int fd = path == nullptr ? -1 : ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) give_up();
  void* const page = ::mmap(nullptr, sizeof(Offset), PROT_READ, MAP_SHARED, fd, 0);
  ::close(fd);
  if (page == MAP_FAILED) give_up();
  offset = static_cast<const Offset*>(page);
  shifts_steady_clock = std::getenv("DELAYQUEUE_CLOCK_STEADY") != nullptr;
}

// A direct system call: some libraries ask for the time before libc is loaded.
int get_time(clockid_t clock, timespec* now) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const long result = ::syscall(SYS_clock_gettime, clock, now);
  const bool shifts = clock == CLOCK_REALTIME || (clock == CLOCK_MONOTONIC && shifts_steady_clock);
  if (result != 0 || !shifts || offset == nullptr) return static_cast<int>(result);
  const std::int64_t ns = now->tv_sec * kSecond + now->tv_nsec + offset->load() * 1000;
  now->tv_sec = ns / kSecond;
  now->tv_nsec = ns % kSecond;
  return 0;
}

}  // namespace

// Defined under other C++ names, because libcs declare these functions differently.
extern "C" {

int delayqueue_clock_gettime(clockid_t clock, timespec* now) __asm__("clock_gettime");
int delayqueue_clock_gettime(clockid_t clock, timespec* now) { return get_time(clock, now); }

int delayqueue_gettimeofday(timeval* now, void* zone) __asm__("gettimeofday");
int delayqueue_gettimeofday(timeval* now, void* /*zone*/) {
  timespec fine{};
  const int result = get_time(CLOCK_REALTIME, &fine);
  now->tv_sec = fine.tv_sec;
  now->tv_usec = fine.tv_nsec / 1000;
  return result;
}

time_t delayqueue_time(time_t* also) __asm__("time");
time_t delayqueue_time(time_t* also) {
  timespec fine{};
  get_time(CLOCK_REALTIME, &fine);
  if (also != nullptr) *also = fine.tv_sec;
  return fine.tv_sec;
}
}
