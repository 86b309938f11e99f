// A consumer behind a link with a long round trip.
#include <delayqueue/delayqueue.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "store/scripts.h"
#include "support/answers.h"
#include "support/ledger.h"
#include "support/proxy.h"

namespace delayqueue {
namespace {

using namespace std::chrono_literals;
using test::FaultProxy;
using test::Ledger;
using test::Queue;
using test::World;

// The most payloads that one command has fetched, from the slow log, which shows long commands shortened.
std::size_t most_fetched(test::Redis& on) {
  std::size_t most = 0;
  for (const test::Reply& entry : on.cmd({"SLOWLOG", "GET", "-1"}).array) {
    const std::vector<std::string> words = entry.array.at(3).strings();
    if (words.front() != "MGET") continue;
    std::size_t more = 0;
    if (std::sscanf(words.back().c_str(), "... (%zu more arguments)", &more) == 1) --more;
    most = std::max(most, words.size() - 1 + more);
  }
  return most;
}

TEST_CASE("link: a consumer takes several batches in a round trip over a long one, and holds no more than it may") {
  World world;
  world.admin.cmd({"CONFIG", "SET", "slowlog-log-slower-than", "0", "slowlog-max-len", "100000"});
  FaultProxy proxy(world.server.socket());
  Queue queue(proxy.url());
  constexpr std::size_t kMessages = 6000;
  queue.producer.send_batch(test::numbers(kMessages));
  proxy.delay(10ms);
  Ledger ledger;
  std::atomic<std::uint64_t> most{0};
  test::ConsumerPtr consumer;
  const auto handle = [&](const Message&) {
    const ConsumerStats stats = consumer->stats();
    const std::uint64_t held = stats.prefetched + stats.running;
    for (std::uint64_t seen = most; held > seen && !most.compare_exchange_weak(seen, held);) {
    }
    return ack();
  };
  ConsumerOptions options = test::quick(8);
  options.prefetch = 1000;
  consumer = queue.consumer(ledger.watch(handle), options);
  consumer->start();
  CHECK(ledger.settles(kMessages));
  CHECK(consumer->stop());
  CHECK(most_fetched(world.admin) > store::kBatch);
  CHECK(most > store::kBatch);
  CHECK(most <= 1000 + 8);
  CHECK(queue.empty(world.admin));
}

}  // namespace
}  // namespace delayqueue
