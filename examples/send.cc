// Sends one message and prints its id.   send [URL] QUEUE PAYLOAD [SECONDS]

#include "command_line.h"

#include <delayqueue/delayqueue.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>

namespace {

constexpr char kUsage[] =
    "usage: send [URL] QUEUE PAYLOAD [SECONDS]\n"
    "  Sends PAYLOAD to QUEUE, due in SECONDS (default: now), and prints the id of the message.\n";

delayqueue::milliseconds seconds(const std::string& word) {
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  if (word.empty() || *end != '\0' || !(value >= 0 && value < 1e10)) {
    throw std::invalid_argument("SECONDS: \"" + word + "\"; expected a number of 0 or more");
  }
  return std::chrono::ceil<delayqueue::milliseconds>(std::chrono::duration<double>(value));
}

}  // namespace

int main(int argc, char** argv) {
  const CommandLine line = read_command_line(argc, argv);
  if (line.words.size() != 2 && line.words.size() != 3) {
    std::cerr << kUsage << kUrlUsage;
    return 2;
  }
  return run_main("send", [&] {
    delayqueue::SendOptions options;
    if (line.words.size() == 3) options.delay = seconds(line.words[2]);
    delayqueue::Producer producer(line.url, line.words[0]);
    std::cout << producer.send(line.words[1], options).id << '\n';
    return 0;
  });
}
