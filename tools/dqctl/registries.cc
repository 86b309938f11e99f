#include "registries.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "signals.h"

namespace dqctl {
namespace {

using delayqueue::RunningMessage;
using delayqueue::Worker;

constexpr std::size_t kLongestShown = 5;

// Adds what the consumer has written for another queue.
void merge(WorkerRow& row, const std::string& queue, const Worker& worker) {
  const std::uint64_t before = row.worker.in_flight;
  if (worker.seen >= row.worker.seen) row.worker = worker;
  row.worker.in_flight = before + worker.in_flight;
  for (const RunningMessage& one : worker.longest) row.longest.emplace_back(queue, one);
  std::stable_sort(row.longest.begin(), row.longest.end(),
                   [](const auto& a, const auto& b) { return a.second.since < b.second.since; });
  if (row.longest.size() > kLongestShown) row.longest.resize(kLongestShown);
}

}  // namespace

WorkerReading read_registries(Context& context, const std::vector<std::string>& queues, bool only_one) {
  WorkerReading reading;
  std::map<std::string, WorkerRow> by_id;
  for (const std::string& queue : queues) {
    if (interrupted()) break;
    const auto read = [&] {
      delayqueue::Inspector& inspector = context.inspector(queue);
      reading.now = std::max(reading.now, (only_one ? context.counts(queue) : inspector.counts()).now);
      for (const Worker& worker : inspector.workers()) {
        const std::string key = worker.damaged ? queue + '\n' + worker.consumer : worker.consumer;
        WorkerRow& row = by_id[key];
        merge(row, queue, worker);
        if (worker.damaged) row.worker.queues = {queue};
      }
    };
    if (only_one) {
      read();
      continue;
    }
    const auto error = read_row(context, read);
    reading.errors.add(error);
    if (!error) continue;
    reading.error_lines.push_back("queue " + in_quotes(queue) + ": " + printable(error->text));
    reading.error_objects.push_back(Object().add("queue", queue).add("error", printable(error->text)));
  }
  for (auto& one : by_id) reading.rows.push_back(std::move(one.second));
  std::stable_sort(reading.rows.begin(), reading.rows.end(), [](const WorkerRow& a, const WorkerRow& b) {
    return std::tie(a.worker.damaged, a.worker.host, a.worker.pid) <
           std::tie(b.worker.damaged, b.worker.host, b.worker.pid);
  });
  return reading;
}

Object worker_object(const WorkerRow& row, Time now) {
  const Worker& worker = row.worker;
  Object object;
  object.add("consumer", worker.consumer).add("damaged", worker.damaged).add("queues", worker.queues);
  if (worker.damaged) return object;
  std::vector<Object> longest;
  for (const auto& [queue, one] : row.longest) {
    Object running;
    running.add("queue", queue).add("id", one.id).add("since", one.since);
    running.add("running_ms", age_between(one.since, now).count());
    if (one.fetching) running.add("fetching_bytes", *one.fetching);
    longest.push_back(std::move(running));
  }
  return object.add("queue_count", worker.queue_count)
      .add("name", worker.name)
      .add("host", worker.host)
      .add("pid", worker.pid)
      .add("version", worker.version)
      .add("busy", worker.busy)
      .add("concurrency", worker.concurrency)
      .add("in_flight", worker.in_flight)
      .add("longest", longest)
      .add("seen", worker.seen)
      .add("overdue", worker.overdue);
}

}  // namespace dqctl
