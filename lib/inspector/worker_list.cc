#include "inspector/worker_list.h"

#include "queue/info_fields.h"
#include "store/record.h"
#include "store/registry.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace delayqueue {
namespace {

constexpr std::size_t kReadAtOnce = 100;  // entries of at most store::kLongestValue

Worker damaged(std::string_view name) {
  Worker worker;
  worker.consumer = store::cut(name);
  worker.damaged = true;
  return worker;
}

// Unset: the entry has ended.
std::optional<Worker> worker_of(const std::string& id, const std::string& value, std::int64_t now_us) {
  auto entry = store::entry_of(value);
  if (!entry) return damaged(id);
  if (entry->ends_us <= now_us) return std::nullopt;
  Worker worker;
  worker.consumer = id;
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

// The workers of some entries. A value of a length that no consumer writes is not read.
std::vector<Worker> read_entries(redis::Connection& connection, const store::Keys& keys,
                                 const std::vector<std::string>& ids) {
  redis::Pipeline measuring(connection);
  std::vector<store::Answer<std::size_t>> lengths;
  lengths.reserve(ids.size());
  for (const std::string& id : ids) lengths.push_back(store::entry_length(measuring, keys, id));
  measuring.run();
  std::vector<Worker> workers;
  std::vector<std::string> readable;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (lengths[i].get() > store::kLongestValue) {
      workers.push_back(damaged(ids[i]));
    } else {
      readable.push_back(ids[i]);
    }
  }
  if (readable.empty()) return workers;
  redis::Pipeline reading(connection);
  const auto answer = store::entries(reading, keys, readable);
  reading.command("TIME");
  reading.run();
  const auto values = answer.get();
  const std::int64_t now_us = delayqueue::time_of(reading.reply(1)).count();
  for (std::size_t i = 0; i < std::min(values.size(), readable.size()); ++i) {
    if (!values[i]) continue;
    if (auto worker = worker_of(readable[i], *values[i], now_us)) workers.push_back(std::move(*worker));
  }
  return workers;
}

}  // namespace

// In steps, since the registry may be of any size. More than kMostConsumers entries are not of this library.
std::vector<Worker> read_workers(SharedConnection& home) {
  const store::Keys& keys = home.moves().keys();
  const std::vector<std::string> names =
      home.ask([&](redis::Pipeline& pipeline) { return store::consumer_names(pipeline, keys); });
  std::vector<Worker> workers;
  std::vector<std::string> ids;
  for (const std::string& name : names) {
    if (store::is_id(name)) {
      ids.push_back(name);
    } else {
      workers.push_back(damaged(name));
    }
  }
  for (std::size_t i = 0; i < ids.size(); i += kReadAtOnce) {
    const std::vector<std::string> some(
        ids.begin() + static_cast<std::ptrdiff_t>(i),
        ids.begin() + static_cast<std::ptrdiff_t>(std::min(i + kReadAtOnce, ids.size())));
    auto found = home.with_connection([&](redis::Connection& link) { return read_entries(link, keys, some); });
    std::move(found.begin(), found.end(), std::back_inserter(workers));
  }
  std::sort(workers.begin(), workers.end(), [](const Worker& a, const Worker& b) {
    return std::tie(a.damaged, a.host, a.pid, a.consumer) < std::tie(b.damaged, b.host, b.pid, b.consumer);
  });
  return workers;
}

}  // namespace delayqueue
