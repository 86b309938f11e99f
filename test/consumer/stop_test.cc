// Start, run and stop: no message is lost and no retry is spent.
#include "support/test.h"

#include "support/proxy.h"

namespace delayqueue {
namespace {

TEST_CASE("stop: running messages are settled; prefetched ones return at once, in order, and spend no retry") {
  Queue queue;
  const std::vector<std::string> payloads = numbers(4000);
  queue.producer.send_batch(payloads);
  Gate gate;
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch([&](const Message& message) {
    if (message.payload() == "1500") gate.pass();  // makes the consumer prefetch many first
    return ack();
  }));
  consumer->start();
  REQUIRE(ledger.reaches(1501));
  std::thread opener([&] {
    // When only the running message is leased, the others have returned, although its handler still runs.
    eventually([&] { return Inspector(queue.url, queue.name).counts().unack == 1; }, kPatience);
    gate.open();
  });
  CHECK(consumer->stop(kPatience));
  opener.join();
  CHECK(ledger.size() == 1501);
  CHECK(consumer->metrics().stats.acked == 1501);
  const Counts counts = queue.inspector.counts();
  CHECK(counts.ready == 4000 - 1501);
  CHECK(counts.unack == 0);
  CHECK(counts.retry == 0);
  CHECK(counts.totals.retried == 0);
  CHECK(queue.kept().count("attempts") == 0);

  Ledger after;
  const auto next = queue.consumer(after.watch());
  next->start();
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  const auto order = after.payloads();
  CHECK((order == std::vector<std::string>(payloads.begin() + 1501, payloads.end())));
  const auto entries = after.entries();
  CHECK(std::all_of(entries.begin(), entries.end(), [](const auto& entry) { return entry.message.attempt() == 1; }));
}

TEST_CASE("stop: a stopped consumer takes nothing more") {
  Queue queue;
  queue.producer.send_batch(numbers(2000));
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), quick(4));
  consumer->start();
  REQUIRE(ledger.reaches(200));
  CHECK(consumer->stop(kPatience));
  const std::size_t handled = ledger.size();
  CHECK(queue.inspector.counts().ready == 2000 - handled);
  CHECK(consumer->metrics().stats.acked == handled);
  queue.send("afterwards");
  CHECK(queue.inspector.counts().unack == 0);
  CHECK(ledger.size() == handled);
}

TEST_CASE("stop: while Redis does not answer, no further handler begins") {
  Queue queue;
  queue.producer.send_batch(numbers(4000));
  test::FaultProxy proxy(test::server().socket());
  Gate gate;
  Ledger ledger;
  Consumer consumer(proxy.url(), queue.name, ledger.watch([&](const Message& message) {
    if (message.payload() == "1500") gate.pass();  // makes the consumer prefetch many first
    return ack();
  }),
                    quick(1));
  consumer.start();
  REQUIRE(ledger.reaches(1501));
  CHECK(eventually([&] { return consumer.metrics().stats.prefetched > 1; }, kPatience));
  proxy.black_hole(true);
  std::thread stopping([&] { CHECK(consumer.stop(kPatience)); });
  std::this_thread::sleep_for(100ms);
  gate.open();
  std::this_thread::sleep_for(300ms);
  CHECK(ledger.size() == 1501);
  proxy.black_hole(false);
  stopping.join();
  CHECK(ledger.size() == 1501);
  CHECK(queue.inspector.counts().ready == 4000 - 1501);
  CHECK(queue.inspector.counts().totals.retried == 0);
}

TEST_CASE("stop: returns false past its deadline; that message keeps its lease, all others are settled") {
  Queue queue;
  Gate gate;
  Ledger ledger;
  const std::string id = queue.send("hangs");
  queue.producer.send_batch(numbers(20));
  const auto consumer = queue.consumer(ledger.watch([&](const Message& message) {
    if (message.payload() == "hangs") gate.pass();
    return ack();
  }),
                                       quick(3));
  consumer->start();
  REQUIRE(ledger.reaches(1));
  CHECK(!consumer->stop(4s));
  const MessageInfo info = *queue.inspector.find(id);
  CHECK(info.state == State::unack);
  CHECK(info.held);
  CHECK(queue.inspector.counts().unack == 1);
  CHECK(!consumer->stop(1ms));  // the result does not change
  test::rewind(queue.base, 1h);
  Ledger after;
  const auto next = queue.consumer(after.watch());
  next->start();
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(after.attempts("hangs") == std::vector<int>{2});
}

TEST_CASE(
    "stats: a message without retries whose lease ends is counted as dead-lettered by the consumer that finds it") {
  Queue queue;
  Gate gate;
  Ledger ledger;
  queue.send("hangs", with(&SendOptions::retries, 0));
  const auto consumer = queue.consumer(ledger.watch([&](const Message&) {
    gate.pass();
    return ack();
  }));
  consumer->start();
  REQUIRE(ledger.reaches(1));
  REQUIRE(!consumer->stop(0ms));
  CHECK(consumer->metrics().stats.running == 1);
  test::rewind(queue.base, 1h);
  const auto next = queue.consumer(ledger.watch());
  next->start();
  CHECK(eventually([&] { return next->metrics().stats.dead_lettered == 1; }, kPatience));
  CHECK(queue.inspector.counts().dead == 1);
  CHECK(consumer->metrics().stats.dead_lettered == 0);
  gate.open();
  CHECK(eventually([&] { return consumer->metrics().stats.running == 0; }, kPatience));
}

TEST_CASE("stop: may be called again, from several threads at once, and before start") {
  Queue queue;
  queue.producer.send_batch(numbers(50));
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), quick(2));
  consumer->start();
  REQUIRE(ledger.reaches(10));
  std::atomic<int> clean{0};
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      if (consumer->stop(kPatience)) ++clean;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(clean == 4);
  CHECK(consumer->stop());

  const auto never = queue.consumer(ledger.watch());
  CHECK(never->stop());
  CHECK_THROWS_AS(never->start(), std::logic_error);
}

TEST_CASE("stop: returns true when no handler runs") {
  Queue queue;
  const auto consumer = queue.consumer([](const Message&) { return ack(); });
  consumer->start();
  queue.send("x");
  REQUIRE(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(consumer->stop(kPatience));
}

TEST_CASE("start: a second call throws logic_error, and changes nothing") {
  Queue queue;
  const auto consumer = queue.consumer([](const Message&) { return ack(); });
  consumer->start();
  CHECK_THROWS_AS(consumer->start(), std::logic_error);
  CHECK_THROWS_AS(consumer->run(), std::logic_error);
  queue.send("x");
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(consumer->stop());
  CHECK_THROWS_AS(consumer->start(), std::logic_error);
}

TEST_CASE("a consumer that was never started connects to nothing and can be destroyed") {
  PrivateServer own;
  own.stop();
  Consumer consumer(own.url(), "orders", [](const Message&) { return ack(); });
  CHECK(consumer.metrics().stats.connects == 0);
}

TEST_CASE("run: returns when another thread has called stop and all messages are settled") {
  Queue queue;
  queue.producer.send_batch(numbers(300));
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), quick(2));
  std::thread other([&] {
    ledger.reaches(100);
    CHECK(consumer->stop(kPatience));
  });
  consumer->run();
  const std::size_t handled = ledger.size();
  CHECK(ledger.running() == 0);
  CHECK(consumer->metrics().stats.acked == handled);
  CHECK(queue.inspector.counts().ready == 300 - handled);
  other.join();
  CHECK(ledger.size() == handled);
}

TEST_CASE("run: returns after a stop() that did not wait for its start()") {
  test::FaultProxy proxy(test::server().socket());
  proxy.black_hole(true);  // start() waits for the server
  Consumer consumer(proxy.url(), test::fresh_queue(), [](const Message&) { return ack(); });
  std::atomic<bool> returned{false};
  std::thread running([&] {
    consumer.run();
    returned = true;
  });
  std::this_thread::sleep_for(100ms);
  static_cast<void>(consumer.stop(0ms));
  CHECK(eventually([&] { return returned.load(); }, kPatience));
  static_cast<void>(consumer.stop(kPatience));  // or run() would hang here, too
  running.join();
}

TEST_CASE("run: returns when a handler has called stop and has returned") {
  Queue queue;
  queue.producer.send_batch(numbers(300));
  Ledger ledger;
  std::atomic<Consumer*> self{nullptr};
  std::atomic<bool> answer{true};
  const auto consumer = queue.consumer(ledger.watch([&](const Message& message) {
    if (message.payload() == "100") answer = self.load()->stop();
    return ack();
  }));
  self = consumer.get();
  consumer->run();
  CHECK(!answer);
  CHECK(consumer->metrics().stats.acked == ledger.size());
  CHECK(ledger.size() >= 101);
  CHECK(queue.inspector.counts().ready == 300 - ledger.size());
  CHECK(consumer->stop());
}

TEST_CASE("stop: a handler may stop another consumer, and waits for it") {
  Queue queue;
  Queue others;
  Ledger ledger;
  const auto other = others.consumer(ledger.watch([](const Message&) {
    std::this_thread::sleep_for(100ms);
    return ack();
  }));
  others.send("x");
  other->start();
  REQUIRE(ledger.reaches(1));
  std::atomic<bool> clean{false};
  const auto consumer = queue.consumer([&](const Message&) {
    clean = other->stop(kPatience);
    return ack();
  });
  consumer->start();
  queue.send("x");
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(clean);
  CHECK(others.empty());
}

TEST_CASE("the destructor waits for handlers, settles their messages, and returns the others to the queue") {
  Queue queue;
  queue.producer.send_batch(numbers(50));
  Ledger ledger;
  {
    Consumer consumer(queue.url, queue.name, ledger.watch([](const Message&) {
      std::this_thread::sleep_for(100ms);
      return ack();
    }),
                      quick(2));
    consumer.start();
    REQUIRE(ledger.reaches(2));
  }
  CHECK(ledger.running() == 0);
  CHECK(queue.inspector.counts().unack == 0);
  CHECK(queue.inspector.counts().ready == 50 - ledger.size());
  CHECK(queue.inspector.counts().totals.acked == ledger.size());
}

TEST_CASE("stop: nacked, rejected and snoozed messages are settled, too") {
  Queue queue;
  queue.producer.send_batch({"nack", "reject", "snooze"}, SendOptions());
  Gate gate;
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch([&](const Message& message) {
    gate.pass();
    if (message.payload() == "nack") return nack(1h, "why");
    return message.payload() == "reject" ? reject("why") : snooze(1h);
  }),
                                       quick(3));
  consumer->start();
  REQUIRE(eventually([&] { return ledger.running() == 3; }, kPatience));
  std::thread opener([&] {
    std::this_thread::sleep_for(50ms);
    gate.open();
  });
  CHECK(consumer->stop(kPatience));
  opener.join();
  const Counts counts = queue.inspector.counts();
  CHECK(counts.unack == 1);
  CHECK(counts.dead == 1);
  CHECK(counts.pending == 1);
  CHECK(consumer->metrics().stats.nacked == 2);
  CHECK(consumer->metrics().stats.snoozed == 1);
}

}  // namespace
}  // namespace delayqueue
