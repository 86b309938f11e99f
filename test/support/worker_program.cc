// A consumer or producer in a separate process, for tests that kill it.
//
//   worker_program consume <url> <queue> <concurrency> <lease in ms> <poll interval in ms>
//   worker_program produce <url> <queue> <messages>
//   worker_program fork <url> <queue>
//
// Prints one line per event: "begin <id> <attempt>", "end <id>", "stopped 0|1"; "sent <id>", "done"; "fork <pid>".
// "fork" sends a message, forks and exits; the child then sends one too and stays until it is killed. The payload tells
// the handler what to do: "die", "hang", "slow" or "brief". Every message whose handler returns is acked.
#include <delayqueue/delayqueue.h>

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>

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

int consume(const std::string& url, const std::string& queue, std::size_t concurrency, std::chrono::milliseconds lease,
            std::chrono::milliseconds poll) {
  sigset_t stop_signals;
  ::sigemptyset(&stop_signals);
  ::sigaddset(&stop_signals, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &stop_signals, nullptr);  // before any thread is made: threads inherit the mask

  delayqueue::ConsumerOptions options;
  options.concurrency = concurrency;
  options.lease = lease;
  options.poll_interval = poll;
  options.reconnect_grace = 200ms;
  options.backoff = delayqueue::Backoff::fixed(0ms);
  options.logger = delayqueue::no_log();
  delayqueue::Consumer consumer(url, queue, handle, options);
  consumer.start();
  int signal = 0;
  ::sigwait(&stop_signals, &signal);
  const bool clean = consumer.stop(60s);
  print_line(clean ? "stopped 1" : "stopped 0");
  return clean ? 0 : 1;
}

int produce(const std::string& url, const std::string& queue, int messages) {
  delayqueue::Producer producer(url, queue);
  for (int i = 0; i < messages; ++i) {
    delayqueue::SendOptions options;
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

}  // namespace

int main(int count, char** words) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // ends it with the test
  const std::string mode = count > 1 ? words[1] : "";
  try {
    if (mode == "consume" && count == 7) {
      return consume(words[2], words[3], static_cast<std::size_t>(std::atoi(words[4])),
                     std::chrono::milliseconds(std::atoi(words[5])), std::chrono::milliseconds(std::atoi(words[6])));
    }
    if (mode == "produce" && count == 5) return produce(words[2], words[3], std::atoi(words[4]));
    if (mode == "fork" && count == 4) return fork_and_end(words[2], words[3]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "worker_program: %s\n", e.what());
    return 2;
  }
  std::fputs("usage: worker_program consume|produce|fork <url> <queue> ...\n", stderr);
  return 2;
}
