// Busy waiting of a lone sender: when it waits busily, and that faults have the same effect as without.
#include "producer/busy_wait.h"

#include <delayqueue/delayqueue.h>

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "support/proxy.h"
#include "support/server.h"

namespace {

thread_local long empty_reads = 0;

}  // namespace

// Replaces the function of the C library in this program, to count the reads of a thread that find nothing: one for
// each answer that the thread sleeps for, and many in a busy wait.
extern "C" ssize_t recv(int fd, void* to, std::size_t size, int flags) {
  const ssize_t got = ::recvfrom(fd, to, size, flags, nullptr, nullptr);
  if (got < 0 && errno == EAGAIN) ++empty_reads;
  return got;
}

namespace delayqueue {
namespace {

using namespace std::chrono_literals;
using std::chrono::microseconds;
using test::FaultProxy;

std::size_t one_core() { return 1; }
std::size_t two_cores() { return 2; }

// Ends `waits` waits whose answers take so long. Returns how many of them may be busy.
int busy_waits(BusyWait& wait, int waits, microseconds asleep, microseconds busy) {
  int count = 0;
  for (int i = 0; i < waits; ++i) {
    const bool is_busy = wait.begin() > 0us;
    count += is_busy ? 1 : 0;
    wait.end(is_busy ? busy : asleep);
  }
  return count;
}

TEST_CASE("busy wait: 16 waits sleep, 16 are busy, and the rest of 1000 are busy if that was a tenth faster") {
  struct {
    microseconds asleep, busy;
    int of_rest;
  } const cases[] = {{90us, 40us, 968}, {60us, 54us, 968}, {60us, 55us, 0}, {90us, 61us, 0}, {40us, 50us, 0}};
  for (const auto& one : cases) {
    CAPTURE(one.busy.count());
    BusyWait wait(60us, two_cores);
    for (int round = 0; round < 3; ++round) {
      CHECK(busy_waits(wait, 16, one.asleep, one.busy) == 0);
      CHECK(busy_waits(wait, 16, one.asleep, one.busy) == 16);
      CHECK(busy_waits(wait, 968, one.asleep, one.busy) == one.of_rest);
    }
  }
}

TEST_CASE("busy wait: ends when it is no longer faster, and begins when it is") {
  BusyWait wait(60us, two_cores);
  CHECK(busy_waits(wait, 1000, 90us, 40us) == 984);
  CHECK(busy_waits(wait, 1000, 40us, 50us) == 16);
  CHECK(busy_waits(wait, 1000, 90us, 40us) == 984);
}

TEST_CASE("busy wait: is not for answers that take long, and one slow answer does not decide") {
  BusyWait wait(60us, two_cores);
  CHECK(busy_waits(wait, 1000, 5000us, 3000us) == 16);
  CHECK(wait.begin() == 0us);
  wait.end(10s);
  CHECK(busy_waits(wait, 999, 50us, 49us) == 16);
  CHECK(wait.begin() == 0us);
  wait.end(90us);
  CHECK(busy_waits(wait, 15, 90us, 40us) == 0);
  CHECK(wait.begin() == 60us);
  wait.end(10s);
  CHECK(busy_waits(wait, 983, 90us, 40us) == 983);
}

TEST_CASE("busy wait: never on one core, and never if it is switched off") {
  BusyWait alone(60us, one_core);
  CHECK(busy_waits(alone, 3000, 90us, 40us) == 0);
  BusyWait off(0us, two_cores);
  CHECK(busy_waits(off, 3000, 90us, 40us) == 0);
}

TEST_CASE("busy wait: when another thread has sent, 16 waits sleep again") {
  BusyWait wait(60us, two_cores);
  CHECK(busy_waits(wait, 500, 90us, 40us) == 484);
  for (int i = 0; i < 100; ++i) {
    wait.restart();
    CHECK(busy_waits(wait, 16, 90us, 40us) == 0);
  }
}

ProducerOptions waiting_busily(microseconds longest) {
  ProducerOptions options;
  options.busy_wait = longest;
  return options;
}

// Sends through a proxy that delays, so that no answer arrives within a busy wait.
class SlowSends {
 public:
  explicit SlowSends(microseconds busy_wait)
      : proxy_(test::server().socket()), producer_(proxy_.url(), test::fresh_queue(), waiting_busily(busy_wait)) {
    static_cast<void>(producer_.cancel("0197f3a4-5b6c-7d8e-9f01-23456789abcd"));  // connects
    producer_.send("loads the script");
    proxy_.delay(2ms);
  }

  // Returns how many reads found nothing.
  long send(int messages) {
    const long before = empty_reads;
    for (int i = 0; i < messages; ++i) producer_.send("x");
    return empty_reads - before;
  }

 private:
  FaultProxy proxy_;
  Producer producer_;
};

TEST_CASE("busy wait: a lone sender tries it, and then sleeps because it does not help") {
  if (usable_cores() < 2) return;
  SlowSends sends(500us);
  CHECK(sends.send(15) <= 2 * 15);  // one was sent before
  CHECK(sends.send(16) > 3 * 16);
  CHECK(sends.send(50) <= 2 * 50);
}

TEST_CASE("busy wait: a Producer with busy_wait 0 sleeps at once") {
  SlowSends sends(0us);
  CHECK(sends.send(50) <= 2 * 50);
}

#ifdef __linux__
TEST_CASE("busy wait: a thread that may run on one core only sleeps at once") {
  long reads = 0;
  std::thread([&] {
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &core);
    if (::sched_setaffinity(0, sizeof core, &core) != 0) return;
    SlowSends sends(500us);
    reads = sends.send(50);
  }).join();
  CHECK(reads > 0);
  CHECK(reads <= 2 * 50);
}
#endif

TEST_CASE("busy wait: threads that send at the same time sleep at once") {
  SlowSends sends(500us);
  std::atomic<int> left{200};
  std::atomic<long> reads{0};
  std::atomic<int> sent{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (--left >= 0) {
        reads += sends.send(1);
        ++sent;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(sent == 200);
  CHECK(reads <= 2 * 200);
}

TEST_CASE("busy wait: a lost reply is a ConnectionError with the id, and sending it again makes no second message") {
  const std::string queue = test::fresh_queue();
  FaultProxy proxy(test::server().socket());
  ProducerOptions options = waiting_busily(1000us);
  options.connection.command_timeout = 500ms;
  Producer producer(proxy.url(), queue, options);
  for (int i = 0; i < 17; ++i) producer.send("x");  // the next waits are busy, if there are several cores
  const auto fails = [&] {
    try {
      producer.send("in doubt");
    } catch (const ConnectionError& e) {
      REQUIRE(e.ids().size() == 1);
      SendOptions again;
      again.id = e.ids().front();
      proxy.hold_replies(false);
      CHECK(!producer.send("in doubt", again).created);
      return true;
    }
    return false;
  };
  proxy.drop_replies(1);
  CHECK(fails());
  producer.send("x");
  proxy.hold_replies(true);
  CHECK(fails());
  producer.send("x");
  CHECK(Inspector(test::server().url(), queue).counts().ready == 17 + 4);
}

}  // namespace
}  // namespace delayqueue
