// Busy waiting of a lone sender: when it waits busily, and that faults have the same effect as without.
#include "support/test.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "producer/busy_wait.h"
#include "support/cores.h"
#include "support/forked.h"
#include "support/proxy.h"
#include "support/raw_server.h"
#include "support/tls_files.h"

namespace {

thread_local long empty_reads = 0;
thread_local const std::function<void()>* at_empty_read = nullptr;  // called once

}  // namespace

// Replace the functions of the C library in this program, to count the reads of a thread that find nothing: one for
// each answer that the thread sleeps for, and many in a busy wait. Over TLS, poll() without a timeout finds
// that.
extern "C" ssize_t recv(int fd, void* to, std::size_t size, int flags) {
  const ssize_t got = ::recvfrom(fd, to, size, flags, nullptr, nullptr);
  if (got >= 0 || errno != EAGAIN) return got;
  ++empty_reads;
  if (at_empty_read != nullptr) (*std::exchange(at_empty_read, nullptr))();
  errno = EAGAIN;
  return got;
}

extern "C" int poll(pollfd* fds, nfds_t count, int timeout_ms) {
  const timespec timeout{timeout_ms / 1000, timeout_ms % 1000 * 1'000'000L};
  const int ready = ::ppoll(fds, count, timeout_ms < 0 ? nullptr : &timeout, nullptr);
  if (ready == 0 && timeout_ms == 0) ++empty_reads;
  return ready;
}

namespace delayqueue {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using test::FaultProxy;

constexpr int kSocket = 7;

bool allows(int socket) { return socket == kSocket; }
bool forbids(int /*socket*/) { return false; }

// Ends `waits` waits whose answers take so long. Returns how many of them may be busy.
int busy_waits(BusyWait& wait, int waits, microseconds asleep, microseconds busy) {
  int count = 0;
  for (int i = 0; i < waits; ++i) {
    const bool is_busy = wait.begin(kSocket) > 0us;
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
    BusyWait wait(60us, allows);
    for (int round = 0; round < 3; ++round) {
      CHECK(busy_waits(wait, 16, one.asleep, one.busy) == 0);
      CHECK(busy_waits(wait, 16, one.asleep, one.busy) == 16);
      CHECK(busy_waits(wait, 968, one.asleep, one.busy) == one.of_rest);
    }
  }
}

TEST_CASE("busy wait: ends when it is no longer faster, and begins when it is") {
  BusyWait wait(60us, allows);
  CHECK(busy_waits(wait, 1000, 90us, 40us) == 984);
  CHECK(busy_waits(wait, 1000, 40us, 50us) == 16);
  CHECK(busy_waits(wait, 1000, 90us, 40us) == 984);
}

TEST_CASE("busy wait: is not for answers that take long, and one slow answer does not decide") {
  BusyWait wait(60us, allows);
  CHECK(busy_waits(wait, 1000, 5000us, 3000us) == 16);
  CHECK(wait.begin(kSocket) == 0us);
  wait.end(10s);
  CHECK(busy_waits(wait, 999, 50us, 49us) == 16);
  CHECK(wait.begin(kSocket) == 0us);
  wait.end(90us);
  CHECK(busy_waits(wait, 15, 90us, 40us) == 0);
  CHECK(wait.begin(kSocket) == 60us);
  wait.end(10s);
  CHECK(busy_waits(wait, 983, 90us, 40us) == 983);
}

TEST_CASE("busy wait: never where the thread may not wait busily, and never if it is switched off") {
  BusyWait forbidden(60us, forbids);
  CHECK(busy_waits(forbidden, 3000, 90us, 40us) == 0);
  BusyWait off(0us, allows);
  CHECK(busy_waits(off, 3000, 90us, 40us) == 0);
}

TEST_CASE("busy wait: each round checks again whether the thread may wait busily") {
  static bool may = true;
  BusyWait wait(60us, [](int) { return may; });
  CHECK(busy_waits(wait, 1000, 90us, 40us) == 984);
  may = false;
  CHECK(busy_waits(wait, 1000, 90us, 40us) == 0);
  may = true;
  CHECK(busy_waits(wait, 1000, 90us, 40us) == 984);
}

TEST_CASE("busy wait: when another thread has sent, 16 waits sleep again") {
  BusyWait wait(60us, allows);
  CHECK(busy_waits(wait, 500, 90us, 40us) == 484);
  for (int i = 0; i < 100; ++i) {
    wait.restart();
    CHECK(busy_waits(wait, 16, 90us, 40us) == 0);
  }
}

ProducerOptions waiting_busily(microseconds longest) { return with(&ProducerOptions::tuning, ProducerTuning{longest}); }

// Sends through a proxy that delays, so that no answer arrives within a busy wait.
class SlowSends {
 public:
  explicit SlowSends(microseconds busy_wait, FaultProxy::Via via = FaultProxy::Via::port, milliseconds each_way = 2ms)
      : SlowSends(test::server().socket(), waiting_busily(busy_wait), "", via, each_way) {}

  // scheme: of the producer's URL; empty: that of the proxy.
  SlowSends(const std::string& server, const ProducerOptions& options, const std::string& scheme,
            FaultProxy::Via via = FaultProxy::Via::port, milliseconds each_way = 2ms,
            const ClientOptions& client_options = {})
      : proxy_(server, via),
        producer_({scheme.empty() ? proxy_.url() : scheme + proxy_.address(), client_options}, test::fresh_queue(),
                  options) {
    static_cast<void>(producer_.cancel("0197f3a4-5b6c-7d8e-9f01-23456789abcd"));  // connects
    producer_.send("loads the script");
    proxy_.delay(each_way);
  }

  // Returns how many reads found nothing.
  long send(int messages) {
    return during([&](Producer& producer) {
      for (int i = 0; i < messages; ++i) producer.send("x");
    });
  }
  template <class Call>
  long during(Call call) {
    const long before = empty_reads;
    call(producer_);
    return empty_reads - before;
  }

 private:
  FaultProxy proxy_;
  Producer producer_;
};

TEST_CASE("busy wait: a lone sender tries it, and then sleeps because it does not help") {
  if (!test::has_two_cores()) return;
  SlowSends sends(500us);
  CHECK(sends.send(15) <= 2 * 15);  // one was sent before
  CHECK(sends.send(16) > 3 * 16);
  CHECK(sends.send(50) <= 2 * 50);
}

// The CPU time of this thread.
microseconds cpu_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) +
         std::chrono::duration_cast<microseconds>(std::chrono::nanoseconds(time.tv_nsec));
}

TEST_CASE("busy wait: ends after its longest time, and the thread sleeps until an answer that takes longer") {
  if (!test::has_two_cores()) return;
  SlowSends sends(500us, FaultProxy::Via::port, 10ms);
  sends.send(15);  // the next waits are busy
  const microseconds before = cpu_time();
  CHECK(sends.send(16) > 3 * 16);
  const microseconds used = cpu_time() - before;
  CAPTURE(used.count());
  CHECK(used < 8 * 16 * 500us);  // to wait busily for all answers takes 16 * 20 ms
}

TEST_CASE("busy wait: a Producer with busy_wait 0 sleeps at once") {
  SlowSends sends(0us);
  CHECK(sends.send(50) <= 2 * 50);
}

TEST_CASE(
    "busy wait: a thread that is pinned to one core sleeps at once only if its server is pinned to the same one") {
  if (!test::has_two_cores()) return;
  const cpu_set_t all = test::cores_of(0);
  const cpu_set_t first = test::only(0, all);
  const struct {
    FaultProxy::Via via;
    cpu_set_t own;
    bool tries;
  } cases[] = {{FaultProxy::Via::unix_socket, first, false},
               {FaultProxy::Via::unix_socket, test::only(1, all), true},
               {FaultProxy::Via::port, first, true}};
  for (const auto& one : cases) {
    SlowSends sends(500us, one.via);
    const test::Pinned server(::getpid(), first);  // the server is the proxy in this process
    long reads = 0;
    std::thread([&] {
      const test::Pinned own(0, one.own);
      sends.send(15);
      reads = sends.send(16);
    }).join();
    CAPTURE(one.via);
    CHECK((one.tries ? reads > 3 * 16 : reads <= 2 * 16));
  }
}

TEST_CASE("busy wait: a lone sender tries it over TLS, too") {
  if (!test::has_two_cores()) return;
  const test::TlsFiles& files = test::TlsFiles::shared();
  const test::RedisChild server(test::serving(files.server));
  ClientOptions client_options;
  client_options.tls.ca_file = files.ca;
  SlowSends sends("127.0.0.1:" + std::to_string(server.tls().port), waiting_busily(500us), "rediss://",
                  FaultProxy::Via::port, 2ms, client_options);
  CHECK(sends.send(15) <= 4 * 15);
  CHECK(sends.send(16) > 10 * 16);
  CHECK(sends.send(50) <= 4 * 50);
}

TEST_CASE("busy wait: a lone sender with durability tries it, too") {
  if (!test::has_two_cores()) return;
  std::vector<std::string> arguments = test::serving(test::TlsFiles::shared().server);
  arguments.insert(arguments.end(), {"--repl-diskless-sync-delay", "0"});
  const test::RedisChild master(arguments);
  const PrivateServer replica;
  const std::string port = std::to_string(master.plain().port);
  test::Redis(replica.socket()).cmd({"REPLICAOF", "127.0.0.1", port});
  test::Redis to_master(master.plain().port);
  REQUIRE(test::eventually([&] { return to_master.cmd({"WAIT", "1", "100"}) == 1; }, test::kPatience));
  ProducerOptions options = waiting_busily(500us);
  options.durability = Durability::replicas(1, 10s);
  options.send_timeout = 10s;
  SlowSends sends("127.0.0.1:" + port, options, "");
  CHECK(sends.send(15) <= 4 * 15);  // the answer of WAIT may arrive after the other one
  CHECK(sends.send(16) > 10 * 16);
  CHECK(sends.send(50) <= 4 * 50);
}

TEST_CASE("busy wait: batches sleep, also if each step has one large message, and are not measured") {
  SlowSends sends(500us);
  sends.send(15);  // the next waits of single messages are busy
  const long small = sends.during([](Producer& producer) {
    for (int i = 0; i < 50; ++i) producer.send_batch({"x", "y"});
  });
  CHECK(small <= 4 * 50);
  const std::vector<std::string> large(40, std::string(300 * 1024, 'x'));
  CHECK(sends.during([&](Producer& producer) { producer.send_batch(large); }) <= 20 * 40);
  if (test::has_two_cores()) CHECK(sends.send(16) > 3 * 16);
}

// Sends from three threads until 200 messages are sent. Returns how many reads found nothing.
long send_at_once(const std::vector<SlowSends*>& sends) {
  std::atomic<int> left{200};
  std::atomic<int> sent{0};
  std::atomic<long> reads{0};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      while (--left >= 0) {
        reads += sends[i % sends.size()]->send(1);
        ++sent;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(sent == 200);
  return reads;
}

TEST_CASE("busy wait: threads that send at the same time sleep at once, with one Producer or one for each") {
  SlowSends a(500us);
  CHECK(send_at_once({&a}) <= 2 * 200);
  SlowSends b(500us);
  SlowSends c(500us);
  SlowSends d(500us);
  CHECK(send_at_once({&b, &c, &d}) <= 2 * 200);
}

TEST_CASE("busy wait: after other threads have sent, a lone sender sleeps 16 times before it tries again") {
  if (!test::has_two_cores()) return;
  SlowSends sends(500us);
  sends.send(15);  // the next waits are busy
  static_cast<void>(send_at_once({&sends}));
  CHECK(sends.send(10) <= 2 * 10);  // the last of the threads may have sent a few alone
  CHECK(sends.send(22) > 3 * 16);
}

TEST_CASE("busy wait: ends when a second thread begins to send") {
  if (!test::has_two_cores()) return;
  SlowSends sends(1000us);
  SlowSends others(0us);
  sends.send(15);  // the next waits are busy
  std::atomic<bool> begin{false};
  std::atomic<bool> sending{false};
  const std::function<void()> report = [&] { sending = true; };
  const std::function<void()> let_second_begin = [&] {
    begin = true;
    while (!sending) std::this_thread::yield();
  };
  std::thread second([&] {
    while (!begin) std::this_thread::yield();
    at_empty_read = &report;
    others.send(1);
    sending = true;  // its answer may have been there at the first read
  });
  at_empty_read = &let_second_begin;
  CHECK(sends.send(1) <= 4);
  at_empty_read = nullptr;
  begin = true;
  second.join();
}

TEST_CASE("busy wait: in a child of a fork, the senders of the parent do not count") {
  if (!test::has_two_cores()) return;
  FaultProxy held(test::server().socket());
  Producer producer(held.url(), test::fresh_queue(), one_attempt());
  producer.send("x");
  held.hold_replies(true);
  std::atomic<bool> sending{false};
  const std::function<void()> report = [&] { sending = true; };
  std::thread sender([&] {
    at_empty_read = &report;
    producer.send("x");
  });
  CHECK(test::eventually([&] { return sending.load(); }, test::kPatience));
  FaultProxy slow(test::server().socket());
  slow.delay(2ms);
  const std::string queue = test::fresh_queue();
  CHECK(test::in_child([&] {
          Producer own(slow.url(), queue, waiting_busily(500us));
          for (int i = 0; i < 16; ++i) own.send("x");
          const long before = empty_reads;
          for (int i = 0; i < 16; ++i) own.send("x");
          return empty_reads - before > 3 * 16;
        }) == 0);
  held.hold_replies(false);
  sender.join();
}

TEST_CASE("busy wait: a lost reply is a ConnectionError with the id, and sending it again makes no second message") {
  const std::string queue = test::fresh_queue();
  FaultProxy proxy(test::server().socket());
  ClientOptions client_options;
  ProducerOptions options = waiting_busily(1000us);
  client_options.command_timeout = 500ms;
  options.send_timeout = 0ms;
  Producer producer({proxy.url(), client_options}, queue, options);
  for (int i = 0; i < 17; ++i) producer.send("x");  // the next waits are busy, if there are several cores
  const auto fails = [&] {
    try {
      producer.send("in doubt");
    } catch (const ConnectionError& e) {
      REQUIRE(e.ids().size() == 1);
      const auto again = with(&SendOptions::id, e.ids().front());
      proxy.hold_replies(false);
      CHECK(!producer.send("in doubt", again).created());
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
