// A consumer behind a link with a long round trip.
#include "support/test.h"

#include "store/moves.h"
#include "support/answers.h"
#include "support/proxy.h"

namespace delayqueue {
namespace {

using test::FaultProxy;
using test::World;

void drain(bool has_others) {
  World world;
  FaultProxy proxy(world.server.socket());
  Queue queue(proxy.url()), other(world.server.url());
  constexpr std::size_t kMessages = 20'000;
  queue.producer.send_batch(test::numbers(kMessages));
  for (int i = 0; has_others && i < 100; ++i) other.send("x", test::delayed(i * 200ms));
  proxy.delay(10ms);
  Ledger ledger, others;
  std::atomic<std::uint64_t> most{0};
  test::ConsumerPtr consumer;
  const auto handle = [&](const Message&) {
    const ConsumerStats stats = consumer->metrics().stats;
    const std::uint64_t held = stats.prefetched + stats.running;
    for (std::uint64_t seen = most; held > seen && !most.compare_exchange_weak(seen, held);) {
    }
    return ack();
  };
  ConsumerOptions options = test::quick(8);
  options.tuning.prefetch = 1000;
  std::vector<Subscription> subscriptions{{queue.name, ledger.watch(handle)}};
  if (has_others) subscriptions.push_back({other.name, others.watch()});
  consumer = test::ConsumerPtr(new Consumer(proxy.url(), std::move(subscriptions), options));
  consumer->start();
  // Messages that Redis has leased to the consumer in answers that are on their way.
  std::uint64_t most_coming = 0;
  Inspector inspector(world.server.url(), queue.name);
  const auto end = std::chrono::steady_clock::now() + test::kPatience;
  while (ledger.size() < kMessages && std::chrono::steady_clock::now() < end) {
    const std::uint64_t leased = inspector.counts().totals.delivered;
    const ConsumerStats stats = test::stats_of(*consumer, queue.name);
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

TEST_CASE("link: over a long one several takes are under way at a time, and the consumer holds no more than it may") {
  drain(false);
}

TEST_CASE("link: a long one is used beside a queue that has a message now and then") { drain(true); }

}  // namespace
}  // namespace delayqueue
