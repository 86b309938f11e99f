// Consumes the messages of a queue and prints them, until SIGINT (Ctrl-C) or SIGTERM.   work [URL] QUEUE

#include <delayqueue/delayqueue.h>

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace std::chrono_literals;

constexpr char kUsage[] =
    "usage: work [URL] QUEUE\n"
    "  Prints the messages of QUEUE as they come due, one line each: id, attempt, payload.\n"
    "  SIGINT (Ctrl-C) and SIGTERM stop it cleanly.\n"
    "  URL is redis://[user:password@]host[:port][/db], rediss://..., unix:///path or embedded:/folder;\n"
    "  default: $DELAYQUEUE_URI, or else redis://127.0.0.1:6379\n";

bool is_url(const std::string& word) {
  return word.find("://") != std::string::npos || word.rfind("embedded:", 0) == 0;
}

std::string default_url() {
  const char* set = std::getenv("DELAYQUEUE_URI");
  return set != nullptr && *set != '\0' ? set : "redis://127.0.0.1:6379";
}

// Replaces control characters, which could control the terminal: a payload may hold any bytes.
std::string printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '.';
  }
  return text;
}

// The handler. A real one does its work here. It must be idempotent: a message may be delivered more than once.
delayqueue::Verdict print(const delayqueue::Message& message) {
  std::string line = message.id() + ' ' + std::to_string(message.attempt()) + ' ' + printable(message.payload()) + '\n';
  std::cout << line << std::flush;
  return delayqueue::ack();
}

void log(delayqueue::Severity severity, const std::string& line) {
  if (severity >= delayqueue::Severity::info) std::cerr << "work: " + line + '\n';
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  std::string url = default_url();
  if (!words.empty() && is_url(words.front())) {
    url = words.front();
    words.erase(words.begin());
  }
  if (words.size() != 1) {
    std::cerr << kUsage;
    return 2;
  }

  // Blocks the signals before there are other threads, which inherit this, so that only sigwait() below receives them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  try {
    delayqueue::ConsumerOptions options;
    options.logger = log;
    delayqueue::Consumer worker(url, words[0], print, options);
    worker.start();
    std::cerr << "work: waiting for messages; Ctrl-C stops\n";

    int signal = 0;
    sigwait(&signals, &signal);
    std::cerr << "work: stopping\n";
    // Running handlers may finish; prefetched messages are ready again at once.
    if (worker.stop(20s)) return 0;
    std::cerr
        << "work: some messages could not be settled in time; they will be delivered again when their leases end\n";
    return 1;
  } catch (const std::invalid_argument& e) {
    std::cerr << "work: " << e.what() << '\n';
    return 2;
  } catch (const std::exception& e) {
    std::cerr << "work: " << e.what() << '\n';
    return 1;
  }
}
