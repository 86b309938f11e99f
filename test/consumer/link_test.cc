// A consumer behind a link with a long round trip.
#include <delayqueue/delayqueue.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "store/moves.h"
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

TEST_CASE("link: over a long one several takes are under way at a time, and the consumer holds no more than it may") {
  World world;
  FaultProxy proxy(world.server.socket());
  Queue queue(proxy.url());
  constexpr std::size_t kMessages = 20'000;
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
  // Messages that Redis has leased to the consumer in answers that are on their way.
  std::uint64_t most_coming = 0;
  Inspector inspector(world.server.url(), queue.name);
  const auto end = std::chrono::steady_clock::now() + test::kPatience;
  while (ledger.size() < kMessages && std::chrono::steady_clock::now() < end) {
    const std::uint64_t leased = inspector.counts().totals.delivered;
    const ConsumerStats stats = consumer->stats();
    const std::uint64_t arrived = stats.delivered + stats.prefetched;
    if (leased > arrived) most_coming = std::max(most_coming, leased - arrived);
  }
  CHECK(ledger.settles(kMessages));
  CHECK(consumer->stop());
  CHECK(most_coming > store::kBatch);
  CHECK(most > store::kBatch);
  CHECK(most <= 1000 + 8);
  CHECK(queue.empty(world.admin));
}

}  // namespace
}  // namespace delayqueue
