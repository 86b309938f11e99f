#include "chaos/run.h"

#include <stdlib.h>
#include <unistd.h>

#include "chaos/crew.h"
#include "chaos/fsck.h"
#include "chaos/in_flight.h"
#include "chaos/links.h"
#include "chaos/remains.h"
#include "chaos/report.h"
#include "chaos/rules.h"
#include "chaos/world.h"

namespace chaos {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kLease{1500};
constexpr auto kQuiet = 180s;  // for the delivery of all remaining messages, also under a sanitizer
constexpr auto kOutage = 60s;  // longer than any fault keeps the number of partitions from being set
constexpr int kWorkers = 4;
constexpr int kProducers = 3;
constexpr std::uint64_t kMostInFlight = 24;  // fewer than all workers could have

std::string new_folder() {
  std::string path = (std::filesystem::temp_directory_path() / "delayqueue-chaos-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) throw std::system_error(errno, std::generic_category(), path);
  return path;
}

// The reason for which there are no workers in Go; empty if there are.
std::string no_go(const World& world, const RunOptions& options) {
  if (world.socket().empty()) return "none (the Go library is tested with a single server only)";
  if (options.calm) return "none (they deliver again what takes long)";
  return ::access(options.go.c_str(), X_OK) == 0 ? "" : "none (module not available)";
}

// Whether a process stands for a version before partitions: one worker and one producer, if the queue gets partitions.
bool is_old(const World& world, int number) {
  return !world.numbers().empty() && (number == 1 || number == kWorkers + 1);
}

// Every second process connects through the proxy, if there is one. Some have a short command timeout.
std::vector<Member> members(const World& world, const Links* links, const RunOptions& options) {
  std::vector<Member> all;
  for (int i = 0; i < kWorkers + kProducers; ++i) {
    const bool works = i < kWorkers;
    Member member;
    const bool old = is_old(world, i);
    member.name =
        (works ? "worker-" : "producer-") + std::string(old ? "old-" : "") + std::to_string(works ? i : i - kWorkers);
    member.works = works;
    const bool disturbed = links != nullptr && i % 2 == 1;
    member.words = {"url=" + (disturbed ? links->url() : world.url()),
                    std::string("queue=") + kQueue,
                    "lease=" + std::to_string(kLease.count()),
                    "timeout=" + std::to_string(i % 3 == 0 ? 1000 : 3000),
                    std::string("replicas=") + (options.replicas ? "1" : "0"),
                    std::string("mixed=") + (no_go(world, options).empty() ? "1" : "0"),
                    std::string("old=") + (old && options.old.empty() ? "1" : "0"),
                    std::string("headers=") + (options.old.empty() ? "1" : "0")};
    if (!works) member.words.emplace_back(old || !options.old.empty() ? "keys=0" : "keys=1");
    if (old) member.program = options.old;
    if (works) member.words.emplace_back("concurrency=8");
    if (!works) {
      member.words.push_back("rate=" + std::to_string(std::max<std::int64_t>(1, options.rate / kProducers)));
      member.words.emplace_back(options.calm ? "crashes=0" : "crashes=1");
      member.words.emplace_back(world.numbers().empty() ? "partitions=0" : "partitions=1");
    }
    all.push_back(std::move(member));
  }
  if (no_go(world, options).empty()) {
    all.push_back({"worker-go-0",
                   true,
                   true,
                   {"program=" + options.go, "socket=" + world.socket(), std::string("queue=") + kQueue},
                   {}});
  }
  return all;
}

// Applies each step when it is due. Steps that are delayed beyond the end are dropped.
void play(const std::vector<Step>& steps, Clock::time_point began, Clock::time_point end,
          const std::function<void(const Step&)>& apply) {
  auto free = began;
  for (const Step& step : steps) {
    const auto at = std::max(began + step.at, free + step.rest);
    std::this_thread::sleep_until(std::min(at, end));
    if (at >= end) return;
    apply(step);
    free = Clock::now();
  }
}

RunOptions with_go(RunOptions options) {
  if (options.go.empty()) options.go = INTEROP_PROGRAM;
  return options;
}

class Conductor {
 public:
  explicit Conductor(const RunOptions& options)
      : options_(with_go(options)),
        journal_(folder_ + "/conductor.log"),
        world_(make_world(options.topology, kQueue, journal_)) {}

  bool run() {
    if (options_.replicas && options_.topology == "single") {
      throw std::invalid_argument(
          "--durability replicas: the topology single has no replicas; expected sentinel, cluster or partitions");
    }
    if (!world_->address().empty()) links_ = std::make_unique<Links>(world_->address(), journal_);
    draw_lanes();
    std::vector<std::string> problems;
    {
      const bool looks = world_->numbers().empty() && !no_go(*world_, options_).empty();
      const std::uint64_t most = world_->numbers().empty() ? kMostInFlight : 16 * kMostInFlight;
      InFlight in_flight(world_->url(), kQueue, most, looks, journal_);
      Crew crew(folder_, members(*world_, links_.get(), options_), std::move(processes_), options_.seed, journal_);
      Fsck fsck(world_->url(), kQueue, journal_);
      disturb(crew);
      problems = finish(crew);
      found_ = fsck.end();
      for (auto& found : in_flight.end()) found_.push_back(std::move(found));
      looks_ = in_flight.looks();
      most_in_flight_ = in_flight.most();
      checks_ = fsck.checks();
      for (auto& found : Fsck::last_check(world_->url(), kQueue)) found_.push_back(std::move(found));
    }
    return report(problems);
  }

 private:
  void draw_lanes() {
    if (options_.calm) return;
    Random random(options_.seed);
    const milliseconds end = std::chrono::seconds(options_.seconds);
    std::vector<FaultKind> kinds = world_->faults();
    const auto hopeless = [&](const FaultKind& kind) { return options_.replicas && kind.loses_copies; };
    kinds.erase(std::remove_if(kinds.begin(), kinds.end(), hopeless), kinds.end());
    servers_ = draw_lane(random, kinds, 1100ms, 1600ms, end);  // longer than a recovery may take
    processes_ = draw_lane(random, process_faults(kLease), 100ms, 900ms, end);
    if (links_ != nullptr) connections_ = draw_lane(random, Links::faults(kLease), 200ms, 1000ms, end);
  }

  void disturb(Crew& crew) {
    const auto began = Clock::now();
    const auto end = began + std::chrono::seconds(options_.seconds);
    std::exception_ptr failure;
    std::thread connections([&] { play(connections_, began, end, [&](const Step& step) { links_->apply(step); }); });
    std::thread partitions([&] { change_partitions(crew, began); });
    try {
      play(servers_, began, end, [&](const Step& step) {
        world_->apply(step);
        if (options_.verbose) print_step(began, step);
      });
    } catch (...) {
      failure = std::current_exception();
    }
    connections.join();
    partitions.join();
    if (failure != nullptr) std::rethrow_exception(failure);
    std::this_thread::sleep_until(end);
  }

  // Sets the numbers of partitions one after the other. Then replaces all workers, so that none remembers the
  // partitions that get no more messages.
  void change_partitions(Crew& crew, Clock::time_point began) {
    const std::vector<unsigned> numbers = world_->numbers();
    const milliseconds whole = std::chrono::seconds(options_.seconds);
    const int parts = 2 * static_cast<int>(numbers.size()) + 1;
    int part = 1;
    for (const unsigned number : numbers) {
      std::this_thread::sleep_until(began + part * whole / parts);
      set_partitions(number);
      part += 2;
    }
    if (!numbers.empty()) crew.replace_workers();
  }

  // Tries again while a master is away.
  void set_partitions(unsigned number) {
    const std::string text = std::to_string(number);
    for (const auto deadline = Clock::now() + kOutage; Clock::now() < deadline;) {
      journal_.line("setting_partitions " + text);
      try {
        delayqueue::QueueAdmin(world_->url(), kQueue).set_partitions(number);
        journal_.line("partitions " + text);
        return;
      } catch (const std::exception& e) {
        journal_.line("setting_failed " + text + ' ' + e.what());
      }
      std::this_thread::sleep_for(100ms);
    }
    unset_.push_back("the number of partitions could not be set to " + text + ": see conductor.log");
  }

  // The partitions must have been used, and partition 0 by the worker that knows no other. Returns a line to print.
  std::string judge_partitions(const Ledger& ledger, std::vector<std::string>& problems) const {
    const std::size_t most = world_->bases().size();
    if (most == 1) return {};
    problems.insert(problems.end(), unset_.begin(), unset_.end());
    std::set<unsigned> used;
    std::ptrdiff_t by_old = 0;
    for (const Message& message : ledger.messages()) {
      if (message.made() != nullptr) used.insert(message.partition());
      by_old += std::count_if(message.deliveries.begin(), message.deliveries.end(),
                              [](const Delivery& one) { return one.by.rfind("worker-old", 0) == 0; });
    }
    if (used.size() < most / 2) problems.emplace_back("too few partitions were used");
    if (by_old == 0) problems.emplace_back("the worker that knows one partition has handled nothing");
    return "  partitions: " + std::to_string(used.size()) + " of " + std::to_string(most) +
           " used; deliveries by the worker that knows one: " + std::to_string(by_old) + '\n';
  }

  static void print_step(Clock::time_point began, const Step& step) {
    const auto passed = std::chrono::duration_cast<milliseconds>(Clock::now() - began);
    std::fprintf(stderr, "%6.1f s  %s\n", static_cast<double>(passed.count()) / 1000, step.kind.c_str());
  }

  std::vector<std::string> finish(Crew& crew) {
    std::vector<std::string> problems;
    journal_.line("calm");
    if (links_ != nullptr) links_->calm_down();
    world_->calm_down();
    if (!crew.calm_down(60s)) problems.emplace_back("a producer did not end");
    if (!drained(*world_, kQueue, options_.old.empty(), kQuiet)) problems.emplace_back("not everything was delivered");
    remains_ = read_remains(*world_, kQueue, options_.old.empty());
    journal_.line("drained");
    if (!crew.stop_workers(30s)) problems.emplace_back("a worker did not stop");
    for (const auto& alarm : crew.alarms()) problems.push_back(alarm);
    for (const auto& file : std::filesystem::directory_iterator(folder_)) {  // usually the report of a sanitizer
      const bool in_go = file.path().filename().string().rfind("worker-go", 0) == 0;  // its library prints logs
      const bool wrote = file.path().extension() == ".err" && file.file_size() > 0 && !in_go;
      if (wrote) problems.push_back("unexpected output on stderr: " + file.path().string());
    }
    return problems;
  }

  bool report(const std::vector<std::string>& problems) {
    const Ledger ledger(folder_);
    Verdicts verdicts = judge(ledger, remains_, options_.replicas);
    // A worker in Go changes a message in three separate commands, so a check may find it in between.
    if (!ledger.mixed()) verdicts.breaches.insert(verdicts.breaches.end(), found_.begin(), found_.end());
    std::vector<std::string> all = problems;
    if (options_.calm && verdicts.counts.duplicates > 0) all.emplace_back("duplicates without any fault");
    for (const auto& slow : slow_recoveries(ledger)) all.push_back(slow);
    const std::string usage = judge_partitions(ledger, all);
    print_counts(options_, ledger, verdicts, verdicts.breaches.size() + all.size());
    std::printf("  QueueAdmin::check: %d times\n", checks_);
    if (looks_ > 0) std::printf("  in flight: at most %zu in %zu looks\n", most_in_flight_, looks_);
    std::printf("  unique keys: %zu messages, %zu sends kept\n", ledger.with_keys(), ledger.kept());
    const std::string no = no_go(*world_, options_);
    std::printf("  go workers: %s\n%s", no.empty() ? "1" : no.c_str(), usage.c_str());
    print_recoveries(ledger);
    const bool good = verdicts.breaches.empty() && all.empty();
    if (!good) {
      int i = 0;
      for (const std::string& file : world_->logs()) {
        std::filesystem::copy_file(file, folder_ + "/server-" + std::to_string(i++) + ".txt");
      }
      print_breaches(folder_, verdicts, all);
    }
    if (good && !options_.keep) {
      std::filesystem::remove_all(folder_);
    } else {
      std::printf("journals: %s\n", folder_.c_str());
    }
    return good;
  }

  const RunOptions options_;
  const std::string folder_ = new_folder();
  const Journal journal_;
  const std::unique_ptr<World> world_;
  std::unique_ptr<Links> links_;
  std::vector<Step> servers_, processes_, connections_;
  Remains remains_;
  std::vector<std::string> unset_;  // problems with the numbers of partitions
  int checks_ = 0;
  std::size_t looks_ = 0, most_in_flight_ = 0;
  std::vector<Breach> found_;  // findings of the checks
};

}  // namespace

bool run(const RunOptions& options) { return Conductor(options).run(); }

}  // namespace chaos
