// Fairness between new messages, redelivered messages, and messages that fail.
#include "support/test.h"

namespace delayqueue {
namespace {

// Puts `count` messages into retry, whose first delivery failed.
void nack_into_retry(Queue& queue, std::size_t count, const std::string& payload) {
  queue.producer.send_batch(std::vector<std::string>(count, payload));
  Ledger ledger;
  const auto failing = queue.consumer(ledger.watch([](const Message&) { return nack(1h, "first"); }), quick(4));
  failing->start();
  REQUIRE(ledger.settles(count));
  REQUIRE(failing->stop());
  queue.admin.pause();
  test::rewind(queue.base, 2h);
  const auto moving = queue.consumer(ledger.watch());
  moving->start();
  REQUIRE(eventually([&] { return queue.inspector.counts().retry == count; }, kPatience));
  REQUIRE(moving->stop());
  queue.admin.resume();
}

TEST_CASE("share: under a flood of new messages retry gets at least one delivery in eight") {
  struct Row {
    std::size_t concurrency, prefetch;
    std::size_t flood;
    std::size_t most;  // new messages before redelivery k: most + 8 k
  };
  const Row rows[] = {{1, 0, 600, 8}, {4, 0, 600, 16}, {1, 1000, 12'000, 8}, {4, 1000, 12'000, 16}};
  for (const Row& row : rows) {
    CAPTURE(row.concurrency);
    CAPTURE(row.prefetch);
    Queue queue;
    nack_into_retry(queue, 24, "again");
    queue.producer.send_batch(std::vector<std::string>(row.flood, "new"));
    Ledger ledger;
    ConsumerOptions options = quick(row.concurrency);
    options.tuning.prefetch = row.prefetch;
    const auto consumer = queue.consumer(ledger.watch(), options);
    consumer->start();
    REQUIRE(ledger.settles(row.flood + 24));
    // A worker may be slow to begin a message that it took. On a busy machine the other workers handle hundreds
    // meanwhile.
    const std::size_t slow = row.concurrency - 1;
    std::size_t again = 0, seen = 0, most_before = 0;
    for (const std::string& payload : ledger.payloads()) {
      ++seen;
      if (payload == "again") ++again;
      const std::size_t taken = again + slow;
      if (taken < 24 && seen > 8 * (taken + 1)) most_before = std::max(most_before, seen - 8 * (taken + 1));
    }
    CHECK(again == 24);
    CHECK(most_before <= row.most);
  }
}

TEST_CASE("share: while retry is full, new messages get most of the deliveries") {
  Queue queue;
  nack_into_retry(queue, 200, "again");
  queue.producer.send_batch(std::vector<std::string>(60, "new"));
  Ledger ledger;
  ConsumerOptions options = quick();
  options.tuning.prefetch = 0;
  const auto consumer = queue.consumer(ledger.watch(), options);
  consumer->start();
  REQUIRE(ledger.settles(260));
  const auto order = ledger.payloads();
  std::size_t again = 0;
  for (std::size_t i = 0; i < 70; ++i) again += order[i] == "again" ? 1 : 0;
  CHECK(again <= 15);
}

TEST_CASE("share: retry gets its share while many prefetched messages wait for slow handlers") {
  Queue queue;
  queue.producer.send_batch(std::vector<std::string>(20'000, "new"));
  std::atomic<bool> slow{false};
  Ledger ledger;
  const auto consumer = queue.consumer(
      [&](const Message& message) {
        if (!slow) return ack();
        if (message.attempt() == 1) std::this_thread::sleep_for(100ms);
        return ledger.watch(test::ack_all)(message).kind() == Verdict::Kind::ack && message.attempt() == 1 ? nack(0ms)
                                                                                                           : ack();
      },
      quick(2));
  consumer->start();
  REQUIRE(eventually([&] { return consumer->metrics().stats.prefetched >= 300; }, kPatience));
  slow = true;
  REQUIRE(ledger.reaches(60));
  const std::vector<Ledger::Entry> entries = ledger.entries();
  const auto again = std::count_if(entries.begin(), entries.begin() + 60,
                                   [](const Ledger::Entry& one) { return one.message.attempt() > 1; });
  CHECK(again >= 4);
  CHECK(again <= 15);
  CHECK(consumer->metrics().stats.prefetched > 50);
}

TEST_CASE("redelivered messages are taken only for free workers, and never wait behind a slow handler") {
  Queue queue;
  nack_into_retry(queue, 12, "again");
  Gate gate;
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch([&](const Message&) {
    gate.pass();
    return ack();
  }),
                                       quick(3));
  consumer->start();
  REQUIRE(eventually([&] { return ledger.running() == 3; }, kPatience));
  // New messages may be prefetched, but messages of retry may not.
  queue.producer.send_batch(std::vector<std::string>(30, "new"));
  for (int poll = 0; poll < 50; ++poll) {
    const Counts counts = queue.inspector.counts();
    CHECK(counts.retry == 9);
    CHECK(counts.unack == 3);
  }
  gate.open();
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(consumer->stop());
}

TEST_CASE("a message whose handler hangs does not stop the other messages") {
  Queue queue;
  Gate gate;
  Ledger ledger;
  queue.send("hangs");
  queue.producer.send_batch(std::vector<std::string>(500, "works"));
  const auto consumer = queue.consumer(ledger.watch([&](const Message& message) {
    if (message.payload() == "hangs") gate.pass();
    return ack();
  }),
                                       quick(2));
  consumer->start();
  CHECK(eventually([&] { return ledger.attempts("works").size() == 500; }, kPatience));
  CHECK(eventually([&] { return queue.inspector.counts().unack == 1; }, kPatience));
}

TEST_CASE("a message that always fails does not stop the other messages, and spends none of their retries") {
  Queue queue;
  const std::string poison = queue.send("poison", with(&SendOptions::retries, 50));
  queue.producer.send_batch(std::vector<std::string>(300, "works"));
  Ledger ledger;
  const auto consumer =
      queue.consumer(ledger.watch([](const Message& message) { return test::ack_if(message.payload() == "works"); }));
  consumer->start();
  CHECK(eventually([&] { return queue.inspector.counts().dead == 1; }, kPatience));
  CHECK(eventually([&] { return ledger.attempts("works").size() >= 300; }, kPatience));
  CHECK(consumer->stop());
  CHECK(ledger.attempts("poison").size() == 51);
  CHECK(ledger.attempts("works") == std::vector<int>(300, 1));
  CHECK(queue.inspector.counts().totals.retried == 50);
}

TEST_CASE("a backlog far larger than a batch is delivered, both pending and retry") {
  Queue queue;
  queue.producer.send_batch(std::vector<std::string>(3000, "pending"), delayed(1h));
  nack_into_retry(queue, 1, "again");  // rewinds, so that all are due
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), quick(4));
  consumer->start();
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(ledger.size() == 3001);
  CHECK(ledger.different() == 3001);
}

}  // namespace
}  // namespace delayqueue
