// Consumes the messages of a queue in coroutines on one thread, until SIGINT (Ctrl-C) or SIGTERM.
//   coroutine [URL] QUEUE

#include "command_line.h"

#include <delayqueue/asio.h>
#include <delayqueue/delayqueue.h>

#include <signal.h>

#include <chrono>
#include <iostream>
#include <string>

namespace {

namespace net = delayqueue::net;
using namespace std::chrono_literals;

constexpr char kUsage[] =
    "usage: coroutine [URL] QUEUE\n"
    "  Handles up to 10,000 messages of QUEUE at the same time, for a second each, in one thread. Sends a message to\n"
    "  QUEUE-done for each.\n"
    "  SIGINT (Ctrl-C) and SIGTERM stop it cleanly.\n";

// The handler. A real one awaits a request here. It must be idempotent: a message may be delivered more than once.
net::awaitable<delayqueue::Verdict> handle(delayqueue::Sender& done, const delayqueue::Message& message) {
  net::steady_timer request(co_await net::this_coro::executor, 1s);
  co_await request.async_wait(net::use_awaitable);
  if (message.lease_lost()) co_return delayqueue::nack("the request took too long");
  co_await delayqueue::async_send(done, message.payload(), net::use_awaitable);
  co_return delayqueue::ack();
}

}  // namespace

int main(int argc, char** argv) {
  const CommandLine line = read_command_line(argc, argv);
  if (line.words.size() != 1) {
    std::cerr << kUsage << kUrlUsage;
    return 2;
  }
  return run_main("coroutine", [&] {
    net::io_context io(1);
    net::signal_set signals(io, SIGINT, SIGTERM);
    delayqueue::Producer done(line.url, line.words[0] + "-done");
    delayqueue::Consumer worker(
        line.url, line.words[0],
        delayqueue::in_coroutines(io.get_executor(),
                                  [&done](const delayqueue::Message& message) { return handle(done, message); }),
        {.concurrency = 10'000, .tuning = {.threads = 1}});
    bool clean = false;
    signals.async_wait([&](auto error, int) {
      if (error) return;
      std::cerr << "coroutine: stopping\n";
      // This thread runs the coroutines, so it must not wait in stop(). io.run() returns when the callback has run.
      auto work = net::make_work_guard(io);
      worker.request_stop([&clean, &io, work](bool stopped) { net::post(io, [&clean, stopped] { clean = stopped; }); },
                          20s);
    });
    worker.start();
    std::cerr << "coroutine: waiting for messages; Ctrl-C stops\n";
    io.run();
    if (clean) return 0;
    std::cerr << "coroutine: some messages could not be settled in time; they will be delivered again when their "
                 "leases end\n";
    return 1;
  });
}
