// Takes messages out of a queue and prints them, until SIGINT (Ctrl-C) or SIGTERM.   work [URL] QUEUE

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
    "  SIGINT (Ctrl-C) and SIGTERM end it in good order.\n"
    "  URL is redis://[user:password@]host[:port][/db], rediss://..., unix:///path or embedded:/folder;\n"
    "  default: $DELAYQUEUE_URI, or else redis://127.0.0.1:6379\n";

bool is_url(const std::string& word) {
  return word.find("://") != std::string::npos || word.rfind("embedded:", 0) == 0;
}

std::string default_url() {
  const char* set = std::getenv("DELAYQUEUE_URI");
  return set != nullptr && *set != '\0' ? set : "redis://127.0.0.1:6379";
}

// Payloads are any bytes; what could upset a terminal is not printed.
std::string printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '.';
  }
  return text;
}

// The handler. A real one does its work here, and must bear being called twice with the same id.
delayqueue::Verdict print(const delayqueue::Message& message) {
  std::string line = message.id + ' ' + std::to_string(message.attempt) + ' ' + printable(message.payload) + '\n';
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

  // Before there are other threads: they inherit it, and so the signals wait for sigwait() below.
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
    std::cerr << "work: waiting for messages; Ctrl-C ends\n";

    int signal = 0;
    sigwait(&signals, &signal);
    std::cerr << "work: stopping\n";
    // What runs may finish, what has not begun goes back to the queue at once.
    if (worker.stop(20s)) return 0;
    std::cerr << "work: not everything could be settled; it will be delivered again when its lease ends\n";
    return 1;
  } catch (const std::invalid_argument& e) {
    std::cerr << "work: " << e.what() << '\n';
    return 2;
  } catch (const std::exception& e) {
    std::cerr << "work: " << e.what() << '\n';
    return 1;
  }
}
