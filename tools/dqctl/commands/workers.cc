// dqctl workers
#include <algorithm>

#include "commands.h"
#include "output/table.h"
#include "registries.h"
#include "signals.h"

namespace dqctl {
namespace {

using delayqueue::RunningMessage;
using delayqueue::Worker;

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
  std::vector<Cell> cells = {{printable(worker.host), Colour::bold},
                             {std::to_string(worker.pid)},
                             {printable(worker.name)},
                             {printable(worker.version)},
                             {names_of(worker)},
                             {worker.overdue ? "?" : count_text(worker.busy) + '/' + count_text(worker.concurrency),
                              full || worker.overdue ? Colour::yellow : Colour::plain},
                             {count_text(worker.in_flight), worker.in_flight == 0 ? Colour::dim : Colour::plain}};
  if (row.longest.empty() || worker.overdue) {
    cells.insert(cells.end(), 2, {});
  } else {
    const RunningMessage& longest = row.longest.front().second;
    const std::string payload = !longest.fetching ? "" : " (payload of " + count_text(*longest.fetching) + " bytes)";
    cells.insert(cells.end(), {{id_text(longest.id) + payload}, {span_text(age_between(longest.since, now))}});
  }
  cells.push_back({since_text(worker.seen, now) + (worker.overdue ? ": killed, frozen or cut off" : ""),
                   worker.overdue ? Colour::red : Colour::plain});
  return cells;
}

Exit workers(Context& context, const std::string& queue) {
  Output& out = context.out();
  const bool only_one = !queue.empty();
  const WorkerReading reading = read_registries(
      context, only_one ? std::vector<std::string>{queue} : context.inspector("queues").queues(), only_one);
  for (const std::string& line : reading.error_lines) out.stderr_line(line);
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
  for (const WorkerRow& row : reading.rows) listing.add(row_of(row, reading.now), worker_object(row, reading.now));
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
