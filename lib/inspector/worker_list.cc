#include "inspector/worker_list.h"

#include "queue/info_fields.h"
#include "store/record.h"
#include "store/registry.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

namespace delayqueue {
namespace {

// Unset: the entry has ended.
std::optional<Worker> worker_of(const std::string& id, const std::string& value, std::int64_t now_us) {
  Worker worker;
  worker.consumer = id;
  auto entry = store::entry_of(value);
  if (!entry || !store::is_id(id)) {
    worker.damaged = true;
    return worker;
  }
  if (entry->ends_us <= now_us) return std::nullopt;
  worker.name = std::move(entry->name);
  worker.host = std::move(entry->host);
  worker.pid = entry->pid;
  worker.version = std::move(entry->version);
  worker.queues = std::move(entry->queues);
  worker.queue_count = entry->queue_count;
  worker.busy = entry->busy;
  worker.concurrency = entry->concurrency;
  worker.in_flight = entry->in_flight;
  for (store::RunningEntry& one : entry->running) {
    worker.longest.push_back(
        {std::move(one.id), store::from_us(entry->seen_us - one.running.count() * 1000), one.fetching});
  }
  worker.seen = store::from_us(entry->seen_us);
  worker.overdue = store::is_overdue(*entry, now_us);
  return worker;
}

}  // namespace

// In steps, since the registry may be of any size. More than kMostConsumers entries are not of this library.
std::vector<Worker> read_workers(SharedConnection& home) {
  std::map<std::string, Worker> by_id;  // a step may return an entry again
  std::string cursor = "0";
  do {
    home.with_connection([&](redis::Connection& connection) {
      redis::Pipeline pipeline(connection);
      const auto answer = store::scan_consumers(pipeline, home.store().keys(), cursor);
      pipeline.command("TIME");
      pipeline.run();
      const store::ScannedConsumers step = answer.get();
      const std::int64_t now_us = delayqueue::time_of(pipeline.reply(1)).count();
      for (const auto& [id, value] : step.entries) {
        if (auto worker = worker_of(id, value, now_us)) by_id.insert_or_assign(id, std::move(*worker));
      }
      cursor = step.cursor;
    });
  } while (cursor != "0" && by_id.size() < store::kMostConsumers);
  std::vector<Worker> workers;
  workers.reserve(by_id.size());
  for (auto& one : by_id) workers.push_back(std::move(one.second));
  std::stable_sort(workers.begin(), workers.end(), [](const Worker& a, const Worker& b) {
    return std::tie(a.damaged, a.host, a.pid) < std::tie(b.damaged, b.host, b.pid);
  });
  return workers;
}

}  // namespace delayqueue
