// A worker or a producer as a process of its own, to be killed by tests.
//
//   worker_program consume <url> <queue> <concurrency> <lease in ms> <poll interval in ms>
//   worker_program produce <url> <queue> <messages>
//   worker_program fork <url> <queue>
//
// Says what it does, a line each: "begin <id> <attempt>", "end <id>", "stopped 0|1"; "sent <id>", "done"; "fork <pid>".
// "fork" sends a message, forks and ends; the fork then sends one, too, and stays until it is killed. The first word of
// a payload tells the handler what to do: "die", "hang", "slow", "brief"; all others are acked at once.
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

// One write, so that lines of several threads do not mix, and none waits in a buffer when the process is killed.
void say(const std::string& words) {
  const std::string line = words + "\n";
  if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) std::_Exit(3);
}

bool handle(const Message& message) {
  say("begin " + message.id + " " + std::to_string(message.attempt));
  if (message.payload == "die") ::kill(::getpid(), SIGKILL);
  if (message.payload == "hang") std::this_thread::sleep_for(24h);
  if (message.payload == "slow") std::this_thread::sleep_for(500ms);
  if (message.payload == "brief") std::this_thread::sleep_for(30ms);
  say("end " + message.id);
  return true;
}

int consume(const std::string& url, const std::string& queue, int concurrency, std::chrono::milliseconds lease,
            std::chrono::milliseconds poll) {
  sigset_t asked_to_stop;
  ::sigemptyset(&asked_to_stop);
  ::sigaddset(&asked_to_stop, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &asked_to_stop, nullptr);  // before any thread is made: they inherit it

  delayqueue::ConsumerOptions options;
  options.concurrency = concurrency;
  options.lease = lease;
  options.poll_interval = poll;
  options.reconnect_grace = 200ms;
  options.backoff = delayqueue::fixed(0ms);
  options.logger = delayqueue::no_log();
  delayqueue::Consumer consumer(url, queue, handle, options);
  consumer.start();
  int signal = 0;
  ::sigwait(&asked_to_stop, &signal);
  const bool clean = consumer.stop(60s);
  say(clean ? "stopped 1" : "stopped 0");
  return clean ? 0 : 1;
}

int produce(const std::string& url, const std::string& queue, int messages) {
  delayqueue::Producer producer(url, queue);
  for (int i = 0; i < messages; ++i) {
    delayqueue::SendOptions options;
    for (;;) {
      try {
        say("sent " + producer.send(std::to_string(i), options).id);
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
  say("done");
  return 0;
}

int fork_and_end(const std::string& url, const std::string& queue) {
  produce(url, queue, 1);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child != 0) return child > 0 ? 0 : 1;
  ::alarm(60);  // no test leaves it behind for longer
  say("fork " + std::to_string(::getpid()));
  while (::getppid() == parent) std::this_thread::sleep_for(1ms);
  produce(url, queue, 1);
  for (;;) ::pause();
}

}  // namespace

int main(int count, char** words) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // no test leaves one behind
  const std::string mode = count > 1 ? words[1] : "";
  try {
    if (mode == "consume" && count == 7) {
      return consume(words[2], words[3], std::atoi(words[4]), std::chrono::milliseconds(std::atoi(words[5])),
                     std::chrono::milliseconds(std::atoi(words[6])));
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
