// The chaos test: kills, freezes and disconnects producers, workers and servers, and checks a ledger of all messages.
//
//   chaos --seconds N --seed S --topology single|sentinel|cluster|partitions
//         [--durability none|replicas] [--go program] [--old-program program] [--rate N] [--calm] [--keep] [--verbose]
//
// Exit code 1 if a message is lost or any rule is broken. See README.md in this folder.
#include <sys/prctl.h>
#include <unistd.h>

#include "chaos/run.h"
#include "chaos/worker.h"

namespace {

chaos::RunOptions options_of(int count, char** words) {
  chaos::RunOptions options;
  options.verbose = ::isatty(STDERR_FILENO) == 1;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&]() -> std::string {
      if (i + 1 >= count) throw std::invalid_argument(word + ": expected a value");
      return words[++i];
    };
    if (word == "--seconds") {
      options.seconds = std::stoll(value());
    } else if (word == "--seed") {
      options.seed = std::stoull(value());
    } else if (word == "--topology") {
      options.topology = value();
    } else if (word == "--rate") {
      options.rate = std::stoll(value());
    } else if (word == "--durability") {
      const std::string kind = value();
      if (kind != "none" && kind != "replicas")
        throw std::invalid_argument(word + ": '" + kind + "'; expected none or replicas");
      options.replicas = kind == "replicas";
    } else if (word == "--go") {
      options.go = value();
    } else if (word == "--old-program") {
      options.old = value();
    } else if (word == "--verbose") {
      options.verbose = true;
    } else if (word == "--calm") {
      options.calm = true;
    } else if (word == "--keep") {
      options.keep = true;
    } else {
      throw std::invalid_argument(word + ": unknown option; see the comment at the top of main.cc");
    }
  }
  if (!options.old.empty() && options.topology != "partitions") {
    throw std::invalid_argument("--old-program: with --topology " + options.topology + "; expected partitions");
  }
  return options;
}

}  // namespace

int main(int count, char** words) {
  const std::string mode = count > 1 ? words[1] : "";
  const bool child = mode == "work" || mode == "go" || mode == "produce";
  try {
    if (child) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // children end with this process
      const chaos::Arguments arguments(count, words, 2);
      if (mode == "go") return chaos::work_in_go(arguments);
      return mode == "work" ? chaos::work(arguments) : chaos::produce(arguments);
    }
    return chaos::run(options_of(count, words)) ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "chaos %s: %s\n", mode.c_str(), e.what());
    return 2;
  }
}
