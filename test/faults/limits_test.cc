// The system refuses this process file descriptors or threads.
#include "support/test.h"

#include <sys/resource.h>
#include <unistd.h>

#include "os/interrupt.h"
#include "redis/socket.h"
#include "security/other_user.h"
#include "support/answers.h"
#include "support/forked.h"
#include "support/limits.h"
#include "support/sanitized.h"

namespace delayqueue {
namespace {

using doctest::Contains;
using test::server;

constexpr char kFiles[] = "raise this process's limit of open files (ulimit -n)";
constexpr char kSentinel[] = "redis+sentinel://127.0.0.1:1/master";

// Not with sanitizers: they need a pipe to look at an object of a type for the first time.
constexpr bool kNeedsDescriptors = TEST_SANITIZED != 0;

TEST_CASE("limits: without descriptors, constructors throw a SetupError that names the limit, and leave none open" *
          doctest::skip(kNeedsDescriptors)) {
  const std::string url = server().url();
  test::NoDescriptors none;
  CHECK_THROWS_WITH_AS(Producer(kSentinel, "q"), Contains(kFiles), SetupError);
  const auto make_consumer = [&] { Consumer(url, "q", ack_all); };
  for (int free = 0; free < 6; ++free) {  // it makes three pipes
    CAPTURE(free);
    CHECK_THROWS_WITH_AS(make_consumer(), Contains(kFiles), SetupError);
    none.free_one();
  }
  make_consumer();
}

TEST_CASE("limits: without descriptors, each of several sends throws a ConnectionError, and may be repeated" *
          doctest::skip(kNeedsDescriptors)) {
  Producer producer(server().url(), fresh_queue());
  const auto send_all = [&] {
    std::vector<std::future<Sent>> sends;
    for (int i = 0; i < 4; ++i) sends.push_back(std::async(std::launch::async, [&] { return producer.send("a"); }));
    return sends;
  };
  {
    const test::NoDescriptors none;
    for (auto& sent : send_all()) CHECK_THROWS_WITH_AS(sent.get(), Contains(kFiles), ConnectionError);
  }
  for (auto& sent : send_all()) CHECK(sent.get().created());
}

#ifdef __GLIBC__
constexpr char kRaiseThreads[] = "raise the limit of processes and threads (ulimit -u";

TEST_CASE("limits: send_async without a thread throws a SetupError and sends nothing; the next one sends") {
  const std::string queue = fresh_queue();
  Producer producer(server().url(), queue);
  {
    const test::NoThreads none;
    CHECK_THROWS_WITH_AS(static_cast<void>(producer.send_async("a")), Contains(kRaiseThreads), SetupError);
  }
  CHECK(producer.send_async("b").get().created());
  CHECK(Inspector(server().url(), queue).counts().ready == 1);
}

TEST_CASE("limits: a Consumer whose start() was refused a thread throws a SetupError, and can be started") {
  const std::string queue = fresh_queue();
  std::atomic<int> handled{0};
  Consumer consumer(server().url(), queue, [&](const Message&) {
    ++handled;
    return ack();
  });
  {
    const test::NoThreads none;
    CHECK_THROWS_WITH_AS(consumer.start(), Contains(kRaiseThreads), SetupError);
  }
  consumer.start();
  Producer(server().url(), queue).send("a");
  CHECK(test::eventually([&] { return handled == 1; }));
  CHECK(consumer.stop(10s));
}

TEST_CASE("limits: a worker that cannot be replaced goes on when its handler returns, and the next one is replaced") {
  test::Queue queue;
  test::Gate gates[2];
  test::Lines lines;
  std::atomic<int> others{0};
  ConsumerOptions options = test::quick();
  options.lease = 100ms;
  options.processing_timeout = 200ms;
  options.logger = lines.logger();
  const auto consumer = queue.consumer(
      [&](const Message& message) {
        if (message.payload() != "other") gates[message.payload() == "second"].pass();
        others += message.payload() == "other";
        return ack();
      },
      options);
  consumer->start();
  const auto once = with(&SendOptions::retries, 0);
  {
    const test::NoThreads none;
    queue.send("first", once);
    REQUIRE(test::eventually([&] { return !lines.find("whose handler hangs is not replaced").empty(); }));
    CHECK(!lines.find(kRaiseThreads).empty());
  }
  queue.send("other");
  std::this_thread::sleep_for(300ms);
  CHECK(others == 0);
  gates[0].open();
  CHECK(test::eventually([&] { return others == 1; }));
  queue.send("second", once);
  queue.send("other");
  CHECK(test::eventually([&] { return others == 2; }));  // by its replacement
  gates[1].open();
  CHECK(consumer->stop(10s));
}

TEST_CASE("limits: a connection that needs a thread throws a ConnectionError without one") {
  redis::Address address;
  address.host = "localhost";
  address.port = 1;
  Interrupt interrupt;
  const Interrupt::Scope until(interrupt);  // without one, a name is looked up in this thread
  const test::NoThreads none;
  const auto connect = [&] { redis::open_transport(address, nullptr, std::chrono::steady_clock::now() + 10s); };
  CHECK_THROWS_WITH_AS(connect(), Contains(kRaiseThreads), ConnectionError);
  CHECK_THROWS_WITH_AS(Producer(kSentinel, "q").send("a"), Contains(kRaiseThreads), ConnectionError);
  CHECK_THROWS_WITH_AS(PrivateServer{}, Contains(kRaiseThreads), ConnectionError);
}

TEST_CASE("limits: a handler that destroys its Consumer without a thread: its verdict counts, no more is taken" *
          doctest::skip(!test::kForksMakeThreads)) {
  const std::string queue = fresh_queue();
  Producer(server().url(), queue).send_batch({"a", "b"});
  // In a child, because the threads of this consumer never end.
  CHECK(test::in_child([&] {
          std::unique_ptr<Consumer> consumer;
          const auto handler = [&](const Message&) {
            const test::NoThreads none;
            consumer.reset();
            return ack();
          };
          consumer = std::make_unique<Consumer>(server().url(), queue, handler, with(&ConsumerOptions::concurrency, 1));
          consumer->start();
          Inspector inspector(server().url(), queue);
          return test::eventually([&] {
            const Counts counts = inspector.counts();
            return counts.totals.acked == 1 && counts.unack == 0 && counts.pending + counts.ready + counts.retry == 1;
          });
        }) == 0);
}
#endif

// start() makes a thread for the first connection, which ends, then four workers, then the thread of the loop. Returns
// 0 if each refusal leaves no thread behind, and the consumer can be started later. Does not use doctest.
int start_with_few_threads() try {
  ::alarm(60);
  rlimit all{};
  ::getrlimit(RLIMIT_NPROC, &all);
  ConsumerOptions options;
  options.concurrency = 4;
  options.logger = no_log();
  for (rlim_t threads = 1; threads <= 5; ++threads) {
    Consumer consumer("unix:///no/server", "q", ack_all, options);
    const rlimit few{threads, all.rlim_max};
    ::setrlimit(RLIMIT_NPROC, &few);
    try {
      consumer.start();
      return 1;
    } catch (const SetupError&) {
    }
    if (!test::eventually([] { return test::threads_of_this_process() == 1; })) return 2;
    ::setrlimit(RLIMIT_NPROC, &all);
    consumer.start();
    if (test::threads_of_this_process() < 6) return 3;
    static_cast<void>(consumer.stop(1ms));
  }
  return 0;
} catch (const std::exception&) {
  return 4;
}

TEST_CASE("limits: start() ends the threads that it has made when the system refuses the next one" *
          doctest::skip(!test::kForksMakeThreads)) {
  if (!test::can_be_other_user()) return;  // the limit of threads does not apply to root
  CHECK(test::as_other_user(start_with_few_threads) == 0);
}

}  // namespace
}  // namespace delayqueue
