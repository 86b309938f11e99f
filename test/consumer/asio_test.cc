// Coroutines of Asio as handlers, and sends that are awaited. A separate program, because it needs C++20; skipped where
// Asio is not installed.
#include "support/test.h"

#include <delayqueue/asio.h>

namespace delayqueue {
namespace {

// An io_context with one thread.
class OneThread {
 public:
  OneThread() : thread_([this] { io_.run(); }) {}
  ~OneThread() { stop(); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

  auto executor() { return io_.get_executor(); }
  std::thread::id id() const { return thread_.get_id(); }
  void stop() {
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }

 private:
  net::io_context io_;
  decltype(net::make_work_guard(std::declval<net::io_context&>().get_executor())) work_ =
      net::make_work_guard(io_.get_executor());
  std::thread thread_;
};

net::awaitable<void> sleep_for(milliseconds time) {
  net::steady_timer timer(co_await net::this_coro::executor, time);
  co_await timer.async_wait(net::use_awaitable);
}

TEST_CASE("asio: coroutines on the caller's executor settle messages, many at the same time in one thread") {
  Queue queue;
  queue.producer.send_batch(numbers(200));
  OneThread io;
  std::atomic<int> elsewhere{0};
  std::atomic<int> running{0};
  std::atomic<int> most{0};
  ConsumerOptions options = quick(200);
  options.tuning.threads = 1;
  const auto consumer = queue.consumer(in_coroutines(io.executor(),
                                                     [&](const Message&) -> net::awaitable<Verdict> {
                                                       if (std::this_thread::get_id() != io.id()) ++elsewhere;
                                                       most = std::max<int>(most, ++running);
                                                       co_await sleep_for(300ms);
                                                       --running;
                                                       co_return ack();
                                                     }),
                                       options);
  consumer->start();
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(consumer->stop());
  CHECK(consumer->metrics().stats.acked == 200);
  CHECK(elsewhere == 0);
  CHECK(most > 100);
}

TEST_CASE("asio: an exception of the coroutine is a nack with its text") {
  Queue queue;
  const std::string id = queue.send("x");
  OneThread io;
  ConsumerOptions options = quick();
  options.backoff = Backoff::fixed(1h);
  const auto consumer = queue.consumer(in_coroutines(io.executor(),
                                                     [](const Message&) -> net::awaitable<Verdict> {
                                                       co_await sleep_for(1ms);
                                                       throw std::runtime_error("stock service: timeout");
                                                     }),
                                       options);
  consumer->start();
  CHECK(eventually([&] { return consumer->metrics().stats.nacked == 1; }, kPatience));
  CHECK(consumer->stop());
  CHECK(queue.inspector.find(id)->reason == "stock service: timeout");
}

TEST_CASE("asio: the executor's only thread may request the stop, and its coroutines are waited for") {
  Queue queue;
  queue.producer.send_batch(numbers(3));
  OneThread io;
  std::unique_ptr<Consumer> consumer;
  std::atomic<int> clean{-1};
  std::atomic<int> begun{0};
  consumer = std::make_unique<Consumer>(queue.url, queue.name,
                                        in_coroutines(io.executor(),
                                                      [&](const Message&) -> net::awaitable<Verdict> {
                                                        const bool last = ++begun == 3;
                                                        if (last)
                                                          consumer->request_stop(
                                                              [&](bool result) { clean = result ? 1 : 0; }, kPatience);
                                                        co_await sleep_for(100ms);
                                                        co_return ack();
                                                      }),
                                        quick(3));
  consumer->start();
  CHECK(eventually([&] { return clean == 1; }, kPatience));
  CHECK(consumer->metrics().stats.acked == 3);
  CHECK(queue.empty());
}

TEST_CASE("asio: coroutines that are suspended when their context ends leave their messages to the leases") {
  Queue queue;
  queue.producer.send_batch(numbers(3));
  std::optional<OneThread> io(std::in_place);
  std::atomic<int> begun{0};
  auto consumer = queue.consumer(in_coroutines(io->executor(),
                                               [&](const Message&) -> net::awaitable<Verdict> {
                                                 ++begun;
                                                 co_await sleep_for(1h);
                                                 co_return ack();
                                               }),
                                 quick(3));
  consumer->start();
  REQUIRE(eventually([&] { return begun == 3; }, kPatience));
  CHECK_FALSE(consumer->stop(50ms));
  consumer.reset();
  io.reset();
  CHECK(queue.inspector.counts().unack == 3);
}

TEST_CASE("asio: a coroutine awaits a send, and gets its errors") {
  Queue queue;
  OneThread io;
  const auto send = [&](std::string payload, std::string id) -> net::awaitable<Sent> {
    co_return co_await async_send(queue.producer, std::move(payload), with(&SendOptions::id, std::move(id)),
                                  net::use_awaitable);
  };
  const std::string id = "0197f3a4-5b6c-7d8e-9f01-23456789abcd";
  const Sent sent = net::co_spawn(io.executor(), send("x", id), net::use_future).get();
  CHECK(sent.id == id);
  CHECK(sent.created());
  CHECK_FALSE(net::co_spawn(io.executor(), send("x", id), net::use_future).get().created());
  CHECK(queue.inspector.counts().ready == 1);
  const auto is_refused = [&]() -> net::awaitable<bool> {  // caught in the thread that frees the exception
    try {
      co_await send("x", "no UUID");
    } catch (const std::invalid_argument&) {
      co_return true;
    }
    co_return false;
  };
  CHECK(net::co_spawn(io.executor(), is_refused(), net::use_future).get());
  CHECK(async_send(queue.producer, "y", net::use_future).get().created());
  const auto send_short = [&]() -> net::awaitable<Sent> {
    co_return co_await async_send(queue.producer, "z", net::use_awaitable);
  };
  CHECK(net::co_spawn(io.executor(), send_short(), net::use_future).get().created());
  CHECK(queue.inspector.counts().ready == 3);
}

TEST_CASE("asio: a send calls a function that has no executor, in another thread") {
  Queue queue;
  std::atomic<int> called{0};
  async_send(queue.producer, "x", [&, caller = std::this_thread::get_id()](std::exception_ptr error, const Sent& sent) {
    called = error == nullptr && sent.created() && std::this_thread::get_id() != caller ? 1 : 2;
  });
  CHECK(eventually([&] { return called == 1; }, kPatience));
}

}  // namespace
}  // namespace delayqueue
