#include "inspector/queue_removal.h"

#include "inspector/leftovers.h"
#include "inspector/steps.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <thread>
#include <tuple>

namespace delayqueue {

Remains QueueRemoval::run() {
  // The keys of partitions that the layout has lost are keys of the queue, too.
  std::set<unsigned> numbers;
  for (const unsigned partition : partitions_.probe(Partitions::Probe::reachable)) numbers.insert(partition);
  for (const unsigned partition : partitions_.all()) numbers.insert(partition);
  for (const unsigned partition : numbers) all_.push_back(&partitions_.of(partition));
  Remains remains = find_all();
  if (remains.wrong_type || remains.pending + remains.unack + remains.dead + remains.schedules > 0) {
    return remains;
  }
  for (SharedConnection* const partition : all_) {
    const store::Keys& keys = partition->moves().keys();
    for (const std::string* list : {&keys.ready, &keys.retry}) remove_hints(*partition, *list);
  }
  while (true) {
    for (SharedConnection* const partition : all_) collect_all(*partition);
    remains = find_all();
    remains.served = remains.none() && is_served();
    if (!remains.none() || delete_all()) return remains;
  }
}

Remains QueueRemoval::find_all() {
  Remains sum;
  for (SharedConnection* const partition : all_) {
    const Remains remains = find(*partition);
    for (const auto count : {&Remains::pending, &Remains::ready, &Remains::unack, &Remains::retry, &Remains::dead,
                             &Remains::retries, &Remains::schedules}) {
      sum.*count += remains.*count;
    }
    sum.wrong_type = sum.wrong_type || remains.wrong_type;
  }
  return sum;
}

Remains QueueRemoval::find(SharedConnection& partition) {
  return partition.with_connection([&](redis::Connection& connection) {
    const store::Keys& keys = partition.moves().keys();
    redis::Pipeline pipeline(connection);
    Remains remains;
    const std::tuple<const char*, const std::string*, std::uint64_t*> lengths[] = {
        {"ZCARD", &keys.pending, &remains.pending},   {"LLEN", &keys.ready, &remains.ready},
        {"ZCARD", &keys.unack, &remains.unack},       {"LLEN", &keys.retry, &remains.retry},
        {"ZCARD", &keys.dead, &remains.dead},         {"HLEN", &keys.count, &remains.retries},
        {"HLEN", &keys.schedules, &remains.schedules}};
    for (const auto& length : lengths) pipeline.command(std::get<0>(length)).key(*std::get<1>(length));
    pipeline.run();
    for (std::size_t i = 0; i < std::size(lengths); ++i) {
      if (is_wrong_type(pipeline, i)) {
        remains.wrong_type = true;
      } else {
        *std::get<2>(lengths[i]) = static_cast<std::uint64_t>(std::max(0LL, pipeline.reply(i).integer()));
      }
    }
    const bool placed = remains.pending + remains.ready + remains.unack + remains.retry + remains.dead > 0;
    if (placed) remains.retries = 0;
    return remains;
  });
}

// Removes the name before the scripts run: a send to a partition after its script is a first send, and registers the
// queue again.
bool QueueRemoval::delete_all() {
  SharedConnection& home = partitions_.home();
  const auto with_name = [&](const auto& call) {
    home.with_connection([&](redis::Connection& connection) { call(connection); });
  };
  const auto restore_name = [&](redis::Connection& connection) { home.endpoint().register_queue(connection); };
  with_name([&](redis::Connection& connection) {
    redis::Pipeline pipeline(connection);
    pipeline.command("SREM").key(home.moves().keys().queues).arg(home.moves().keys().base);
    pipeline.run();
    pipeline.reply(0);
  });
  bool deleted = false;
  try {
    deleted = std::all_of(all_.begin(), all_.end(), [](SharedConnection* partition) {
      return partition->ask([&](redis::Pipeline& pipeline) { return partition->moves().forget(pipeline); });
    });
  } catch (const ReplyError&) {
    with_name(restore_name);
    throw;
  }
  if (!deleted) with_name(restore_name);
  return deleted;
}

// An idle consumer removes the marker within a round trip. The wait is longer, for one that is reconnecting.
bool QueueRemoval::is_served() {
  constexpr milliseconds kTimeout{300};
  const auto begin = redis::Clock::now();
  SharedConnection& home = partitions_.home();  // where consumers wait for the messages of all partitions
  home.with_connection([&](redis::Connection& connection) {
    redis::Pipeline pipeline(connection);
    home.moves().wake(pipeline);
    pipeline.run();
    pipeline.reply(0);
  });
  while (redis::Clock::now() - begin < kTimeout) {
    const bool marked = home.with_connection([&](redis::Connection& connection) {
      redis::Pipeline pipeline(connection);
      pipeline.command("EXISTS").key(home.moves().keys().wake);
      pipeline.run();
      return pipeline.reply(0).integer() == 1;
    });
    if (!marked) return true;
    std::this_thread::sleep_for(milliseconds(20));
  }
  return false;
}

}  // namespace delayqueue
