#include "chaos/run.h"

#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "chaos/crew.h"
#include "chaos/remains.h"
#include "chaos/report.h"
#include "chaos/rules.h"
#include "chaos/world.h"

namespace chaos {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kLease{1500};
constexpr auto kQuiet = 180s;  // for all that is left to be delivered, under a sanitizer, too
constexpr int kWorkers = 4;
constexpr int kProducers = 3;
constexpr char kQueue[] = "chaos";

std::string new_folder() {
  std::string path = (std::filesystem::temp_directory_path() / "delayqueue-chaos-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) throw std::system_error(errno, std::generic_category(), path);
  return path;
}

// Half of them work through what disturbs connections. Some wait for answers only shortly.
std::vector<Member> members(const World& world, const RunOptions& options) {
  std::vector<Member> all;
  for (int i = 0; i < kWorkers + kProducers; ++i) {
    const bool works = i < kWorkers;
    Member member;
    member.name = (works ? "worker-" : "producer-") + std::to_string(works ? i : i - kWorkers);
    member.works = works;
    member.words = {"url=" + (i % 2 == 0 ? world.url() : world.disturbed_url()), std::string("queue=") + kQueue,
                    "lease=" + std::to_string(kLease.count()), "timeout=" + std::to_string(i % 3 == 0 ? 1000 : 3000)};
    if (works) member.words.emplace_back("concurrency=8");
    if (!works) {
      member.words.push_back("rate=" + std::to_string(std::max<std::int64_t>(1, options.rate / kProducers)));
      member.words.emplace_back(options.calm ? "crashes=0" : "crashes=1");
    }
    all.push_back(std::move(member));
  }
  return all;
}

class Conductor {
 public:
  explicit Conductor(const RunOptions& options)
      : options_(options),
        journal_(folder_ + "/conductor.log"),
        world_(make_world(options.topology, kQueue, journal_)) {}

  bool run() {
    const milliseconds end = std::chrono::seconds(options_.seconds);
    Random random(options_.seed);
    std::vector<Step> servers, processes;
    if (!options_.calm) {
      servers = draw_lane(random, world_->faults(), 200ms, 1000ms, end);
      processes = draw_lane(random, process_faults(kLease), 100ms, 900ms, end);
    }
    std::vector<std::string> problems;
    {
      Crew crew(folder_, members(*world_, options_), std::move(processes), options_.seed, journal_);
      play(servers, end);
      problems = finish(crew);
    }
    return report(problems);
  }

 private:
  void play(const std::vector<Step>& steps, milliseconds end) {
    const auto began = Clock::now();
    std::size_t next = 0;
    for (auto told = began; Clock::now() - began < end; std::this_thread::sleep_for(5ms)) {
      if (next < steps.size() && Clock::now() - began >= steps[next].at) world_->apply(steps[next++]);
      if (!options_.verbose || Clock::now() - told < 1s) continue;
      told = Clock::now();
      const auto passed = std::chrono::duration_cast<std::chrono::seconds>(told - began).count();
      std::fprintf(stderr, "\r%4lld s, %zu of %zu faults of servers", static_cast<long long>(passed), next,
                   steps.size());
    }
    if (options_.verbose) std::fputc('\n', stderr);
  }

  std::vector<std::string> finish(Crew& crew) {
    std::vector<std::string> problems;
    journal_.line("calm");
    world_->calm_down();
    if (!crew.calm_down(60s)) problems.emplace_back("a producer did not end");
    if (!drained(*world_, kQueue, kQuiet)) problems.emplace_back("not everything was delivered");
    remains_ = look_at(*world_, kQueue);
    journal_.line("drained");
    if (!crew.stop_workers(30s)) problems.emplace_back("a worker did not stop");
    for (const auto& alarm : crew.alarms()) problems.push_back(alarm);
    return problems;
  }

  bool report(const std::vector<std::string>& problems) {
    const Ledger ledger(folder_);
    const Verdicts verdicts = judge(ledger, remains_);
    std::vector<std::string> all = problems;
    if (options_.calm && verdicts.counts.duplicates > 0) all.emplace_back("duplicates without any fault");
    for (const auto& slow : slow_recoveries(ledger)) all.push_back(slow);
    print_counts(options_, ledger, verdicts, verdicts.breaches.size() + all.size());
    print_recoveries(ledger);
    const bool good = verdicts.breaches.empty() && all.empty();
    if (!good) print_breaches(folder_, verdicts, all);
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
  Remains remains_;
};

}  // namespace

bool run(const RunOptions& options) { return Conductor(options).run(); }

}  // namespace chaos
