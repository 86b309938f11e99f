// Consumes the messages of a queue and prints them, until SIGINT (Ctrl-C) or SIGTERM.   work [URL] QUEUE

#include "command_line.h"

#include <delayqueue/delayqueue.h>

#include <chrono>
#include <iostream>
#include <string>

namespace {

using namespace std::chrono_literals;

constexpr char kUsage[] =
    "usage: work [URL] QUEUE\n"
    "  Prints the messages of QUEUE as they come due, one line each: id, attempt, payload.\n"
    "  SIGINT (Ctrl-C) and SIGTERM stop it cleanly.\n";

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

void log(const delayqueue::LogEntry& entry) {
  if (entry.severity >= delayqueue::Severity::info) std::cerr << "work: " + entry.line + '\n';
}

}  // namespace

int main(int argc, char** argv) {
  const CommandLine line = read_command_line(argc, argv);
  if (line.words.size() != 1) {
    std::cerr << kUsage << kUrlUsage;
    return 2;
  }

  return run_main("work", [&] {
    delayqueue::ConsumerOptions options;
    options.logger = log;
    delayqueue::Consumer worker(line.url, line.words[0], print, options);
    std::cerr << "work: waiting for messages; Ctrl-C stops\n";
    // Until SIGINT or SIGTERM. Then running handlers may finish; prefetched messages are ready again at once.
    if (worker.run(delayqueue::StopSignals().timeout(20s))) return 0;
    std::cerr
        << "work: some messages could not be settled in time; they will be delivered again when their leases end\n";
    return 1;
  });
}
