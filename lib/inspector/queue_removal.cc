#include "inspector/queue_removal.h"

#include "inspector/leftovers.h"
#include "inspector/steps.h"

#include <algorithm>
#include <iterator>
#include <thread>
#include <tuple>

namespace delayqueue {

Remains QueueRemoval::run() {
  Remains remains = find_remains();
  if (remains.wrong_type || remains.pending + remains.unack + remains.dead > 0) return remains;
  for (const std::string* list : {&keys().ready, &keys().retry}) remove_hints(shared_connection_, *list);
  while (true) {
    collect_all(shared_connection_);
    remains = find_remains();
    remains.served = remains.none() && is_served();
    if (!remains.none() || delete_keys()) return remains;
  }
}

Remains QueueRemoval::find_remains() {
  return shared_connection_.with_connection([&](redis::Connection& connection) {
    redis::Pipeline pipeline(connection);
    Remains remains;
    const std::tuple<const char*, const std::string*, std::uint64_t*> lengths[] = {
        {"ZCARD", &keys().pending, &remains.pending}, {"LLEN", &keys().ready, &remains.ready},
        {"ZCARD", &keys().unack, &remains.unack},     {"LLEN", &keys().retry, &remains.retry},
        {"ZCARD", &keys().dead, &remains.dead},       {"HLEN", &keys().count, &remains.retries}};
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

// Removes the name before the script runs: a send after the script is a first send, and registers the queue again.
bool QueueRemoval::delete_keys() {
  return shared_connection_.with_connection([&](redis::Connection& connection) {
    redis::Pipeline name(connection);
    name.command("SREM").key(keys().queues).arg(keys().base);
    name.run();
    name.reply(0);
    bool forgotten = false;
    try {
      redis::Pipeline pipeline(connection);
      const auto answer = store().forget(pipeline);
      pipeline.run();
      forgotten = answer.get();
    } catch (const ReplyError&) {
      shared_connection_.endpoint().register_queue(connection);
      throw;
    }
    if (!forgotten) shared_connection_.endpoint().register_queue(connection);
    return forgotten;
  });
}

// An idle consumer removes the marker within a round trip. The wait is longer, for one that is reconnecting.
bool QueueRemoval::is_served() {
  constexpr milliseconds kTimeout{300};
  const auto begin = redis::Clock::now();
  shared_connection_.with_connection([&](redis::Connection& connection) {
    redis::Pipeline pipeline(connection);
    store().wake(pipeline);
    pipeline.run();
    pipeline.reply(0);
  });
  while (redis::Clock::now() - begin < kTimeout) {
    const bool marked = shared_connection_.with_connection([&](redis::Connection& connection) {
      redis::Pipeline pipeline(connection);
      pipeline.command("EXISTS").key(keys().wake);
      pipeline.run();
      return pipeline.reply(0).integer() == 1;
    });
    if (!marked) return true;
    std::this_thread::sleep_for(milliseconds(20));
  }
  return false;
}

}  // namespace delayqueue
