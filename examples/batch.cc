// Consumes the messages of a queue in batches, until SIGINT (Ctrl-C) or SIGTERM.   batch [URL] QUEUE

#include "command_line.h"

#include <delayqueue/batch.h>
#include <delayqueue/delayqueue.h>

#include <chrono>
#include <cstddef>
#include <iostream>
#include <string>
#include <vector>

namespace {

using namespace std::chrono_literals;

constexpr char kUsage[] =
    "usage: batch [URL] QUEUE\n"
    "  Handles the messages of QUEUE in batches of up to 100, or those of 50 ms, and prints the size of each batch.\n"
    "  SIGINT (Ctrl-C) and SIGTERM stop it cleanly.\n";

// The handler. A real one writes all rows of the batch with one statement here; if that throws, all are nacked.
std::vector<delayqueue::Verdict> insert(const delayqueue::MessageBatch& batch) {
  std::vector<delayqueue::Verdict> verdicts;
  std::size_t bytes = 0;
  for (const delayqueue::Message& message : batch) {
    bytes += message.payload().size();
    verdicts.push_back(message.payload().empty() ? delayqueue::reject("empty") : delayqueue::ack());
  }
  std::cout << std::to_string(batch.size()) + " messages, " + std::to_string(bytes) + " bytes\n" << std::flush;
  return verdicts;
}

}  // namespace

int main(int argc, char** argv) {
  const CommandLine line = read_command_line(argc, argv);
  if (line.words.size() != 1) {
    std::cerr << kUsage << kUrlUsage;
    return 2;
  }

  return run_main("batch", [&] {
    delayqueue::Consumer worker(line.url, line.words[0], delayqueue::in_batches(insert, {.size = 100, .wait = 50ms}),
                                {.concurrency = 400});
    std::cerr << "batch: waiting for messages; Ctrl-C stops\n";
    // Until SIGINT or SIGTERM. Then running handlers may finish; prefetched messages are ready again at once.
    if (worker.run(delayqueue::StopSignals().timeout(20s))) return 0;
    std::cerr
        << "batch: some messages could not be settled in time; they will be delivered again when their leases end\n";
    return 1;
  });
}
