#include "queue_metrics.h"

#include <delayqueue/metrics.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "listed_queues.h"
#include "signals.h"

namespace dqctl {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::duration_cast;
using std::chrono::microseconds;

constexpr std::size_t kMostOnPage = 10'000;  // queues on one page, unless they are named

// The first request of an inspector connects and checks the queue, so the duration is that of the second one.
void read(Context& context, delayqueue::QueueMetrics& metrics, bool exists) {
  static_cast<void>(exists ? context.inspector(metrics.queue).counts() : context.counts(metrics.queue));
  const Clock::time_point begin = Clock::now();
  metrics.counts = context.inspector(metrics.queue).counts();
  metrics.round_trip = duration_cast<microseconds>(Clock::now() - begin);
}

}  // namespace

MetricsPage read_metrics(Context& context, std::vector<std::string> queues) {
  context.use_short_timeouts(false);
  const bool exist = queues.empty();
  MetricsPage page;
  if (exist) {
    queues = context.inspector("queues").queues();
    const std::uint64_t left_out = limit_names(queues, kMostOnPage);
    if (left_out > 0) {
      page.errors.push_back(counted(left_out, "queue", "is", "are") + " left out: names over " +
                            count_text(kLongestListed) + " bytes, or after the first " + count_text(kMostOnPage) +
                            "; pass their names to read them");
    }
  }
  std::vector<delayqueue::QueueMetrics> all;
  std::set<std::string> seen;
  for (const std::string& queue : queues) {
    if (interrupted()) break;
    if (!seen.insert(queue).second) continue;
    delayqueue::QueueMetrics& metrics = all.emplace_back();
    metrics.queue = queue;
    const auto error = read_row(context, [&] { read(context, metrics, exist); });
    page.rows.add(error);
    if (error) page.errors.push_back(in_quotes(queue) + ": " + printable(error->text));
  }
  page.text = delayqueue::prometheus_text(all);
  return page;
}

}  // namespace dqctl
