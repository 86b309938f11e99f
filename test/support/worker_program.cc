// A consumer or producer in a separate process, for tests that kill it.
//
//   worker_program consume <url> <queue> <concurrency> <lease in ms> <poll interval in ms>
//   worker_program settle_later <url> <queue> <concurrency> <lease in ms> <poll interval in ms>
//   worker_program hold <url> <queue> <deliveries> <lease in ms>
//   worker_program produce <url> <queue> <messages> [own]
//   worker_program fork <url> <queue>
//   worker_program exit <url> <queue> main|handler
//   worker_program sandbox
//   worker_program run <url> <queue> <timeout of the stop in ms> plain|blocked|pending|stops|forks|twice|former
//
// Prints one line per event: "begin <id> <attempt>", "end <id>", "stopped 0|1"; "sent <id>", "done"; "fork <pid>".
// "produce" repeats a send in doubt with the same id; with "own" the ids are those of own_id().
// "fork" sends a message, forks and exits; the child then sends one too and stays until it is killed. The payload tells
// the handler what to do: "die", "hang", "slow" or "brief". Every message whose handler returns is acked.
// "settle_later" does the same with deliveries, in other threads, after their handlers have returned. "hold" keeps
// all deliveries until SIGTERM, prints "waited <seconds>" and a line "lost <id>" for each lost lease, and acks all.
// "sandbox" starts a Sandbox, prints "sandbox <pid of its server> <folder>", and stays until it is killed.
// "run" is in Consumer::run() until a signal, and prints "stopped 0|1" and "pending 0|1" (SIGTERM). The last word is
// what the program does besides: see run_until_signal().
#include <delayqueue/delayqueue.h>
#include <delayqueue/testing.h>

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/own_id.h"

namespace {

using namespace std::chrono_literals;
using delayqueue::Message;

// Prints a line with one unbuffered write: lines of several threads do not mix, and SIGKILL loses none.
void print_line(const std::string& words) {
  const std::string line = words + "\n";
  if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) std::_Exit(3);
}

delayqueue::Verdict handle(const Message& message) {
  print_line("begin " + message.id() + " " + std::to_string(message.attempt()));
  if (message.payload() == "die") ::kill(::getpid(), SIGKILL);
  if (message.payload() == "hang") std::this_thread::sleep_for(24h);
  if (message.payload() == "slow") std::this_thread::sleep_for(500ms);
  if (message.payload() == "brief") std::this_thread::sleep_for(30ms);
  print_line("end " + message.id());
  return delayqueue::ack();
}

// SIGTERM, which wait_for() receives. To be called before any thread is made: threads inherit the mask.
sigset_t blocked_stop_signals() {
  sigset_t stop_signals;
  ::sigemptyset(&stop_signals);
  ::sigaddset(&stop_signals, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &stop_signals, nullptr);
  return stop_signals;
}

void wait_for(const sigset_t& stop_signals) {
  int signal = 0;
  ::sigwait(&stop_signals, &signal);
}

delayqueue::ConsumerOptions options_for(std::size_t concurrency, std::chrono::milliseconds lease,
                                        std::chrono::milliseconds poll) {
  delayqueue::ConsumerOptions options;
  options.concurrency = concurrency;
  options.lease = lease;
  options.tuning.poll_interval = poll;
  options.tuning.reconnect_grace = 200ms;
  options.backoff = delayqueue::Backoff::fixed(0ms);
  options.logger = delayqueue::no_log();
  return options;
}

int stop(delayqueue::Consumer& consumer) {
  const bool clean = consumer.stop(60s);
  print_line(clean ? "stopped 1" : "stopped 0");
  return clean ? 0 : 1;
}

int consume(const std::string& url, const std::string& queue, std::size_t concurrency, std::chrono::milliseconds lease,
            std::chrono::milliseconds poll) {
  const sigset_t stop_signals = blocked_stop_signals();
  delayqueue::Consumer consumer(url, queue, handle, options_for(concurrency, lease, poll));
  consumer.start();
  wait_for(stop_signals);
  return stop(consumer);
}

int settle_later(const std::string& url, const std::string& queue, std::size_t concurrency,
                 std::chrono::milliseconds lease, std::chrono::milliseconds poll) {
  const sigset_t stop_signals = blocked_stop_signals();
  std::mutex mutex;  // guards `threads`
  std::vector<std::thread> threads;
  const auto pass_on = [&](delayqueue::Delivery delivery) {
    const std::lock_guard lock(mutex);
    threads.emplace_back([delivery = std::move(delivery)]() mutable {
      std::this_thread::sleep_for(100ms);  // the handler has returned
      const delayqueue::Verdict verdict = handle(delivery.message());
      static_cast<void>(std::move(delivery).settle(verdict));
    });
  };
  delayqueue::Consumer consumer(url, queue, pass_on, options_for(concurrency, lease, poll));
  consumer.start();
  wait_for(stop_signals);
  const int code = stop(consumer);
  for (std::thread& thread : threads) thread.join();
  return code;
}

int hold(const std::string& url, const std::string& queue, std::size_t deliveries, std::chrono::milliseconds lease) {
  const sigset_t stop_signals = blocked_stop_signals();
  const auto begin = std::chrono::steady_clock::now();
  std::mutex mutex;  // guards `held`
  std::vector<delayqueue::Delivery> held;
  delayqueue::ClientOptions client_options;
  delayqueue::ConsumerOptions options = options_for(deliveries, lease, 20ms);
  client_options.command_timeout = 10min;  // a test may let the clock jump while a request is under way
  const auto keep = [&](delayqueue::Delivery delivery) {
    print_line("begin " + delivery.message().id() + " " + std::to_string(delivery.message().attempt()));
    const std::lock_guard lock(mutex);
    held.push_back(std::move(delivery));
  };
  delayqueue::Consumer consumer({url, client_options}, queue, keep, options);
  consumer.start();
  wait_for(stop_signals);
  const auto waited = std::chrono::steady_clock::now() - begin;
  print_line("waited " + std::to_string(std::chrono::duration_cast<std::chrono::seconds>(waited).count()));
  {
    const std::lock_guard lock(mutex);
    for (delayqueue::Delivery& delivery : held) {
      if (delivery.message().lease_lost()) print_line("lost " + delivery.message().id());
      static_cast<void>(std::move(delivery).ack());
    }
  }
  return stop(consumer);
}

int produce(const std::string& url, const std::string& queue, int messages, bool own_ids = false) {
  delayqueue::Producer producer(url, queue);
  for (int i = 0; i < messages; ++i) {
    delayqueue::SendOptions options;
    if (own_ids) options.id = test::own_id(i);
    for (;;) {
      try {
        print_line("sent " + producer.send(std::to_string(i), options).id);
        break;
      } catch (const delayqueue::ConnectionError& e) {
        options.id = e.ids().front();
        std::this_thread::sleep_for(20ms);
      } catch (const delayqueue::ReplyError&) {  // Redis is loading its file
        std::this_thread::sleep_for(20ms);
      }
    }
    std::this_thread::sleep_for(500us);
  }
  print_line("done");
  return 0;
}

int fork_and_end(const std::string& url, const std::string& queue) {
  produce(url, queue, 1);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child != 0) return child > 0 ? 0 : 1;
  ::alarm(60);  // ends the child if no test kills it
  print_line("fork " + std::to_string(::getpid()));
  while (::getppid() == parent) std::this_thread::sleep_for(1ms);
  produce(url, queue, 1);
  for (;;) ::pause();
}

void on_former(int /*signal*/) { print_line("former"); }

// Prints the process id of a fork, which waits for a signal.
void fork_and_pause() {
  if (::fork() != 0) return;
  ::alarm(60);
  print_line("fork " + std::to_string(::getpid()));
  for (;;) ::pause();
}

// blocked, pending: both signals are blocked before run(); with the latter SIGTERM has arrived then. stops: another
// thread calls stop() when a handler begins. forks: the handler forks. twice: another consumer is in run() already.
// former: SIGTERM has an action.
int run_until_signal(const std::string& url, const std::string& queue, std::chrono::milliseconds timeout,
                     const std::string& besides) {
  sigset_t both;
  ::sigemptyset(&both);
  ::sigaddset(&both, SIGTERM);
  ::sigaddset(&both, SIGINT);
  if (besides == "blocked" || besides == "pending") ::pthread_sigmask(SIG_BLOCK, &both, nullptr);
  if (besides == "pending") ::raise(SIGTERM);
  if (besides == "former") ::signal(SIGTERM, on_former);
  std::atomic<bool> began{false};
  const auto handler = [&](const Message& message) {
    if (besides == "forks") fork_and_pause();
    began = true;
    return handle(message);
  };
  delayqueue::Consumer consumer(url, queue, handler, options_for(1, 30s, 20ms));
  std::thread other;
  if (besides == "stops") {
    other = std::thread([&] {
      while (!began) std::this_thread::sleep_for(1ms);
      print_line(consumer.stop(60s) ? "other 1" : "other 0");
    });
  } else if (besides == "twice") {
    other = std::thread([&] {
      while (!began) std::this_thread::sleep_for(1ms);
      delayqueue::Consumer second(url, queue, handler, options_for(1, 30s, 20ms));
      try {
        static_cast<void>(second.run(delayqueue::StopSignals()));
      } catch (const std::logic_error& e) {
        print_line(std::string("refused ") + e.what());
      }
    });
  }
  int code = 2;
  try {
    const bool clean = consumer.run(delayqueue::StopSignals().timeout(timeout));
    print_line(clean ? "stopped 1" : "stopped 0");
    code = clean ? 0 : 1;
  } catch (const std::exception& e) {
    print_line(std::string("threw ") + e.what());
  }
  if (other.joinable()) other.join();
  sigset_t pending;
  ::sigpending(&pending);
  print_line(::sigismember(&pending, SIGTERM) == 1 ? "pending 1" : "pending 0");
  if (besides == "blocked") {
    sigset_t blocked;
    ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    print_line("blocks " + std::to_string(::sigismember(&blocked, SIGTERM)) +
               std::to_string(::sigismember(&blocked, SIGINT)));
  }
  if (besides == "former") ::raise(SIGTERM);
  if (besides == "twice") {  // again, with another consumer
    delayqueue::Consumer third(url, queue, handler, options_for(1, 30s, 20ms));
    ::pthread_sigmask(SIG_BLOCK, &both, nullptr);
    ::raise(SIGINT);
    print_line(third.run(delayqueue::StopSignals({SIGINT})) ? "again 1" : "again 0");
  }
  if (besides == "stops") {
    for (;;) ::pause();
  }
  return code;
}

std::unique_ptr<delayqueue::Consumer> of_static_duration;

// Sends 8 messages, and exits with code 7 while a Consumer of static duration works on them: main() returns, or a
// handler calls exit().
int exit_while_consuming(const std::string& url, const std::string& queue, bool in_handler) {
  delayqueue::Producer(url, queue).send_batch(std::vector<std::string>(8, "brief"), delayqueue::SendOptions());
  static std::atomic<int> handled{0};
  const auto handler = [in_handler](const Message& message) {
    const delayqueue::Verdict verdict = handle(message);
    if (++handled == 3 && in_handler) std::exit(7);
    return verdict;
  };
  of_static_duration = std::make_unique<delayqueue::Consumer>(url, queue, handler, options_for(1, 30s, 20ms));
  of_static_duration->start();
  while (in_handler || handled < 3) std::this_thread::sleep_for(1ms);
  return 7;
}

[[noreturn]] void stay_with_sandbox() {
  delayqueue::testing::Sandbox box;
  delayqueue::Producer(box.client(), "orders").send("x");
  print_line("sandbox " + std::to_string(box.server().pid()) + " " + box.server().folder());
  for (;;) ::pause();
}

}  // namespace

int main(int count, char** words) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // ends it with the test
  const std::string mode = count > 1 ? words[1] : "";
  try {
    if ((mode == "consume" || mode == "settle_later") && count == 7) {
      const auto run = mode == "consume" ? consume : settle_later;
      return run(words[2], words[3], static_cast<std::size_t>(std::atoi(words[4])),
                 std::chrono::milliseconds(std::atoi(words[5])), std::chrono::milliseconds(std::atoi(words[6])));
    }
    if (mode == "hold" && count == 6) {
      return hold(words[2], words[3], static_cast<std::size_t>(std::atoi(words[4])),
                  std::chrono::milliseconds(std::atoi(words[5])));
    }
    const bool own_ids = count == 6 && words[5] == std::string("own");
    if (mode == "produce" && (count == 5 || own_ids)) {
      return produce(words[2], words[3], std::atoi(words[4]), own_ids);
    }
    if (mode == "sandbox" && count == 2) stay_with_sandbox();
    if (mode == "fork" && count == 4) return fork_and_end(words[2], words[3]);
    if (mode == "run" && count == 6) {
      return run_until_signal(words[2], words[3], std::chrono::milliseconds(std::atoi(words[4])), words[5]);
    }
    if (mode == "exit" && count == 5) {
      return exit_while_consuming(words[2], words[3], words[4] == std::string("handler"));
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "worker_program: %s\n", e.what());
    return 2;
  }
  std::fputs("usage: worker_program consume|settle_later|hold|produce|fork|exit|run <url> <queue> ...\n", stderr);
  return 2;
}
