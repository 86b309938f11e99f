#include "chaos/report.h"

namespace chaos {
namespace {

constexpr std::size_t kShown = 5;  // breaches of each rule
constexpr Us kSoon = 1'000'000;

// In microseconds, sorted, by kind of fault.
std::map<std::string, std::vector<Us>> recoveries(const Ledger& ledger) {
  std::map<std::string, std::vector<Us>> found;
  const auto& begins = ledger.begins();
  for (const Back& back : ledger.backs()) {
    const auto first = std::lower_bound(begins.begin(), begins.end(), back.at);
    if (first != begins.end()) found[back.kind].push_back(*first - back.at);
  }
  for (auto& [kind, times] : found) std::sort(times.begin(), times.end());
  return found;
}

double ms(Us us) { return static_cast<double>(us) / 1000; }

}  // namespace

void print_counts(const RunOptions& options, const Ledger& ledger, const Verdicts& verdicts, std::size_t broken) {
  const Counts& counts = verdicts.counts;
  const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf(
      "chaos topology=%s durability=%s seed=%llu seconds=%lld sent=%llu in_doubt=%llu delivered=%llu duplicates=%llu ",
      options.topology.c_str(), options.replicas ? "replicas" : "none", number(options.seed),
      static_cast<long long>(options.seconds), number(counts.sent), number(counts.in_doubt), number(counts.delivered),
      number(counts.duplicates));
  std::printf("acked=%llu dead=%llu cancelled=%llu ", number(counts.acked), number(counts.dead),
              number(counts.cancelled));
  int total = 0;
  for (const auto& [kind, count] : ledger.faults()) total += count;
  std::printf("faults=%d", total);
  for (const auto& [kind, count] : ledger.faults()) std::printf(" %s=%d", kind.c_str(), count);
  if (ledger.mixed()) std::printf(" given_up_in_go=%llu", number(counts.given_up_in_go));
  std::printf(" in_window=%llu lost=%llu broken=%zu\n", number(counts.in_window), number(counts.lost), broken);
  std::fflush(stdout);
}

void print_recoveries(const Ledger& ledger) {
  for (const auto& [kind, times] : recoveries(ledger)) {
    std::printf("  recovery after %s: n=%zu min=%.0f median=%.0f max=%.0f ms\n", kind.c_str(), times.size(),
                ms(times.front()), ms(times[times.size() / 2]), ms(times.back()));
  }
}

std::vector<std::string> slow_recoveries(const Ledger& ledger) {
  std::vector<std::string> slow;
  const auto check = [&slow](const std::string& what, const std::vector<Us>& sorted, Us most) {
    if (sorted.size() < 3 || sorted[sorted.size() / 2] <= most) return;
    slow.push_back("the median recovery after " + what + " took " + std::to_string(sorted[sorted.size() / 2] / 1000) +
                   " ms");
  };
  std::vector<Us> all;
  for (const auto& [kind, times] : recoveries(ledger)) {
    check(kind, times, 2 * kSoon);
    all.insert(all.end(), times.begin(), times.end());
  }
  std::sort(all.begin(), all.end());
  check("any fault", all, all.size() < 5 ? 2 * kSoon : kSoon);  // of few recoveries, one slow kind dominates the median
  return slow;
}

void print_breaches(const std::string& folder, const Verdicts& verdicts, const std::vector<std::string>& problems) {
  for (const std::string& problem : problems) std::printf("BROKEN: %s\n", problem.c_str());
  std::map<std::string, std::vector<const Breach*>> by_rule;
  for (const Breach& breach : verdicts.breaches) by_rule[breach.rule].push_back(&breach);
  for (const auto& [rule, breaches] : by_rule) {
    std::printf("BROKEN: %s: %zu times\n", rule.c_str(), breaches.size());
    for (std::size_t i = 0; i < std::min(kShown, breaches.size()); ++i) {
      std::printf("  %s\n", breaches[i]->id.c_str());
      if (breaches[i]->words.empty()) continue;
      for (const auto& line : lines_about(folder, breaches[i]->words)) std::printf("    %s\n", line.c_str());
    }
  }
}

}  // namespace chaos
