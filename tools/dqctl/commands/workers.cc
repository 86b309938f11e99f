// dqctl workers
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "commands.h"
#include "output/table.h"
#include "row_error.h"
#include "signals.h"

namespace dqctl {
namespace {

using delayqueue::RunningMessage;
using delayqueue::Worker;

constexpr std::size_t kLongestShown = 5;

// A consumer, with what its entries in the registries of its queues tell.
struct WorkerRow {
  Worker worker{};                                                // `in_flight`: of all the queues that were read
  std::vector<std::pair<std::string, RunningMessage>> longest{};  // with their queues
};

struct WorkerReading {
  std::vector<WorkerRow> rows{};  // by host and process
  Time now{};                     // by Redis' clock
  RowErrors errors{};
  std::vector<Object> error_objects{};
};

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
    context.out().stderr_line("queue " + in_quotes(queue) + ": " + printable(error->text));
    reading.error_objects.push_back(Object().add("queue", queue).add("error", printable(error->text)));
  }
  for (auto& one : by_id) reading.rows.push_back(std::move(one.second));
  std::stable_sort(reading.rows.begin(), reading.rows.end(), [](const WorkerRow& a, const WorkerRow& b) {
    return std::tie(a.worker.damaged, a.worker.host, a.worker.pid) <
           std::tie(b.worker.damaged, b.worker.host, b.worker.pid);
  });
  return reading;
}

std::string names_of(const Worker& worker) {
  std::string text;
  for (const std::string& queue : worker.queues) text += (text.empty() ? "" : ", ") + printable(queue);
  const std::uint64_t more = worker.queue_count - std::min<std::uint64_t>(worker.queue_count, worker.queues.size());
  return more == 0 ? text : text + " and " + count_text(more) + " more";
}

std::vector<Cell> row_of(const WorkerRow& row, Time now) {
  const Worker& worker = row.worker;
  if (worker.damaged) {
    std::vector<Cell> cells(10);
    cells[0] = {"?", Colour::red};
    cells[4] = {names_of(worker)};
    cells[7] = {"damaged entry " + id_text(worker.consumer) + ": another program wrote it", Colour::red};
    return cells;
  }
  const bool full = worker.concurrency > 0 && worker.busy >= worker.concurrency;
  std::vector<Cell> cells = {
      {printable(worker.host), Colour::bold},
      {std::to_string(worker.pid)},
      {printable(worker.name)},
      {printable(worker.version)},
      {names_of(worker)},
      {count_text(worker.busy) + '/' + count_text(worker.concurrency), full ? Colour::yellow : Colour::plain},
      {count_text(worker.in_flight), worker.in_flight == 0 ? Colour::dim : Colour::plain}};
  if (row.longest.empty()) {
    cells.insert(cells.end(), 2, {});
  } else {
    const RunningMessage& longest = row.longest.front().second;
    cells.insert(cells.end(), {{id_text(longest.id)}, {span_text(age_between(longest.since, now))}});
  }
  cells.push_back({since_text(worker.seen, now)});
  return cells;
}

Object object_of(const WorkerRow& row, Time now) {
  const Worker& worker = row.worker;
  Object object;
  object.add("consumer", worker.consumer).add("damaged", worker.damaged).add("queues", worker.queues);
  if (worker.damaged) return object;
  std::vector<Object> longest;
  for (const auto& [queue, one] : row.longest) {
    longest.push_back(Object()
                          .add("queue", queue)
                          .add("id", one.id)
                          .add("since", one.since)
                          .add("running_ms", age_between(one.since, now).count()));
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
      .add("seen", worker.seen);
}

Exit workers(Context& context, const std::string& queue) {
  Output& out = context.out();
  const bool only_one = !queue.empty();
  const WorkerReading reading = read_registries(
      context, only_one ? std::vector<std::string>{queue} : context.inspector("queues").queues(), only_one);
  Listing listing(out,
                  {{"HOST"},
                   {"PID", true},
                   {"NAME"},
                   {"VERSION"},
                   {"QUEUES"},
                   {"BUSY", true},
                   {"IN FLIGHT", true},
                   {"LONGEST RUNNING"},
                   {"FOR", true},
                   {"SEEN"}},
                  "workers", only_one ? Object().add("queue", queue) : Object());
  for (const WorkerRow& row : reading.rows) listing.add(row_of(row, reading.now), object_of(row, reading.now));
  listing.end(only_one ? Object() : Object().add("errors", reading.error_objects));
  if (interrupted()) return Exit::partly;
  if (reading.rows.empty()) {
    out.stderr_line("no consumer is registered" +
                    (only_one ? " in " + in_quotes(queue) : " at " + context.shown_uri()) +
                    "; those of the Go library, and with register_consumer off, never are");
  }
  return reading.errors.code();
}

}  // namespace

void add_workers(Cli& cli, Context& context) {
  const auto queue = std::make_shared<std::string>();
  cli.add("workers",
          "Shows the consumers that run: host and process, how busy they are, and which messages their handlers have "
          "been working on for longest",
          {"workers", "workers orders", "workers orders -o json"})
      .argument("QUEUE", *queue, "Its name; without it the consumers of all queues", false)
      .run([&context, queue] { return workers(context, *queue); });
}

}  // namespace dqctl
