// Cancels a message.   cancel [URL] QUEUE ID

#include "command_line.h"

#include <delayqueue/delayqueue.h>

#include <iostream>
#include <string>

namespace {

using delayqueue::State;

constexpr char kUsage[] =
    "usage: cancel [URL] QUEUE ID\n"
    "  Cancels the message with this ID and prints the state that it had.\n"
    "  Exit code 0 if it was removed, 1 if it is in flight or there is no such message.\n";

}  // namespace

int main(int argc, char** argv) {
  const CommandLine line = read_command_line(argc, argv);
  if (line.words.size() != 2) {
    std::cerr << kUsage << kUrlUsage;
    return 2;
  }
  return run_main("cancel", [&] {
    delayqueue::Producer producer(line.url, line.words[0]);
    const State was = producer.cancel(line.words[1]);
    if (was == State::unknown) {
      std::cout << "unknown: never sent, handled already, or cancelled before\n";
      return 1;
    }
    if (was == State::unack) {
      std::cout << "too late: it is in flight; if this delivery fails, there will be no other\n";
      return 1;
    }
    std::cout << "cancelled; it was " << to_string(was) << '\n';
    return 0;
  });
}
