// Measures the library on its own Redis server; scripts/bench.sh builds and runs it. See README.md in this folder.
#include <sys/resource.h>
#include <unistd.h>

#include "bench/arguments.h"
#include "bench/part.h"
#include "bench/peers.h"
#include "bench/placement.h"
#include "bench/processes.h"
#include "store/moves.h"

namespace bench {

const std::vector<Part>& parts() {
  static const std::vector<Part> all{
      {"throughput", throughput},
      {"sends", sends},
      {"receives", receives},
      {"end_to_end", end_to_end},
      {"payloads", payloads},
      {"big_sends", big_sends},
      {"batches", batches},
      {"links", links},
      {"lateness", lateness},
      {"load", load},
      {"wake", wake},
      {"idle", idle},
      {"herd", herd},
      {"crowd", crowd, Runs::full},
      {"burst", burst, Runs::full},
      {"sleepers", sleepers, Runs::full},
      {"many_queues", many_queues, Runs::full},
      {"deliveries", deliveries, Runs::full},
      {"durability", durability, Runs::full},
      {"transport", transport, Runs::full},
      {"processes", processes, Runs::full},
      {"partitions", partitions, Runs::on_request},
      {"border", border, Runs::on_request},
      {"sharing", sharing, Runs::on_request},
      {"headers", headers, Runs::on_request},
      {"limits", queue_limits, Runs::on_request},
      {"unique", unique_keys, Runs::on_request},
      {"registry", registry, Runs::on_request},
      {"rss", rss, Runs::on_request},
      {"million", million},  // last: its drain is cut short if the run takes too long
  };
  return all;
}

double cpu_time() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds_of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
}

long sleeps() {
  rusage used{};
  ::getrusage(RUSAGE_THREAD, &used);
  return used.ru_nvcsw;
}

long process_sleeps() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return used.ru_nvcsw;
}

std::string payload() { return std::string(64, 'x'); }

namespace {

sigset_t interruptions() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  return set;
}

// On SIGINT, SIGTERM or SIGHUP, ends the server and the peers, removes their folder and exits.
void end_with_signals(Server& server) {
  std::thread([&server] {
    const sigset_t set = interruptions();
    int signal = 0;
    sigwait(&set, &signal);
    end_peers();
    server.end();
    ::_exit(128 + signal);
  }).detach();
}

void describe(Bench& bench) {
  Figures& figures = bench.figures;
  figures.environment("server", bench.server.version());
  figures.environment("appendonly", bench.server.setting("appendonly"));
  figures.environment("save", bench.server.setting("save"));
  figures.environment("link", "unix socket");
  figures.environment("cores", std::to_string(std::thread::hardware_concurrency()));
  figures.environment("compiler", BENCH_COMPILER);
  figures.environment("build", BENCH_BUILD);
  figures.environment("library", BENCH_LIBRARY);
  figures.environment("run", bench.scale.name);
  figures.environment("payload", std::to_string(payload().size()) + " bytes");
  figures.environment("batch", std::to_string(delayqueue::store::kBatch));
  const std::vector<int> cores = Placement::usable_cores();
  const std::string first = std::to_string(cores.front());
  const std::string second = cores.size() > 1 ? std::to_string(cores[1]) : "none";
  figures.environment("one_core", "server " + first + ", client " + first);
  figures.environment("two_cores", "server " + first + ", client " + second);
}

// A hundred consumers need more descriptors than many systems allow by default.
void raise_file_limit() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = std::max(files.rlim_cur, std::min<rlim_t>(files.rlim_max, 4'096));
  ::setrlimit(RLIMIT_NOFILE, &files);
}

// Runs a part. If it fails, the run continues, with the figures that were measured until then. Returns whether all went
// well.
bool succeeds(Bench& bench, const std::string& name, const std::function<void()>& measure) {
  bench.progress.part(name);
  try {
    measure();
    return true;
  } catch (const std::exception& e) {
    bench.progress.left_out("the rest of the part " + name, e.what());
    return false;
  }
}

// Returns whether all parts were measured.
bool run(const Arguments& arguments) {
  raise_file_limit();
  const sigset_t set = interruptions();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);  // before any thread starts, because threads inherit the mask
  static Server server;                         // static: the detached signal thread uses it until the process ends
  end_with_signals(server);
  Figures figures;
  Progress progress;
  Bench bench{server, arguments.scale, figures, progress};
  describe(bench);
  std::string failed;  // names of parts, separated by spaces
  const auto measure = [&](const std::string& name, const std::function<void()>& part) {
    if (!succeeds(bench, name, part)) failed += (failed.empty() ? "" : " ") + name;
  };
  for (const Part& part : parts()) {
    if (arguments.wants(part)) measure(part.name, [&] { part.run(bench); });
  }
  if (!arguments.peers.empty()) measure("peers", [&] { run_peers(bench, arguments.peers); });
  progress.end();
  char took[32];
  std::snprintf(took, sizeof took, "%.1f", since(bench.start));
  figures.environment("seconds", took);
  if (!failed.empty()) figures.environment("failed", failed);
  std::puts(figures.json().c_str());
  if (!failed.empty()) std::fprintf(stderr, "bench: these parts failed: %s\n", failed.c_str());
  return failed.empty();
}

}  // namespace
}  // namespace bench

int main(int count, char** words) {
  if (count == 3 && std::string(words[1]) == "--consume") return bench::consume(words[2]);
  bench::Arguments arguments;
  try {
    arguments = bench::arguments_of(count, words);
  } catch (const std::invalid_argument& e) {
    std::fprintf(stderr, "bench: %s\n", e.what());
    return 2;
  }
  try {
    return bench::run(arguments) ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench: %s\n", e.what());
    return 1;
  }
}
