// Leases: who holds a message, for how long, and how long handlers may run.
#include "support/test.h"

#include "support/proxy.h"

namespace delayqueue {
namespace {

TEST_CASE("lease: a handler that runs longer than the lease keeps its message, and so do the messages behind it") {
  Queue queue;
  queue.producer.send_batch({"a", "b", "c"}, SendOptions());
  Ledger ledger;
  ConsumerOptions options = quick(2);
  options.lease = 600ms;
  const auto consumer = queue.consumer(ledger.watch([](const Message&) {
    std::this_thread::sleep_for(3s);  // five leases
    return ack();
  }),
                                       options);
  consumer->start();
  REQUIRE(ledger.settles(3));
  CHECK(consumer->stop());
  CHECK(ledger.size() == 3);
  CHECK(consumer->metrics().stats.acked == 3);
  CHECK(consumer->metrics().stats.stale == 0);
  CHECK(queue.empty());
  CHECK(queue.inspector.counts().totals.retried == 0);
}

TEST_CASE("lease: message.lease_lost() is false while the lease is renewed") {
  Queue queue;
  queue.send("x");
  std::atomic<int> lost{0};
  Ledger ledger;
  ConsumerOptions options = quick();
  options.lease = 4s;
  options.tuning.poll_interval = 1h;
  const auto consumer = queue.consumer(ledger.watch([&](const Message& message) {
    for (int i = 0; i < 27; ++i) {  // longer than the lease
      if (message.lease_lost()) ++lost;
      std::this_thread::sleep_for(200ms);
    }
    return ack();
  }),
                                       options);
  consumer->start();
  CHECK(ledger.settles(1));
  CHECK(lost == 0);
  CHECK(consumer->stop());
  CHECK(queue.empty());
}

TEST_CASE("processing_timeout: a hung handler's lease is lost, its worker replaced, its message redelivered") {
  Queue queue;
  Gate gate;
  Ledger ledger;
  ConsumerOptions options = quick();
  options.lease = 200ms;
  options.processing_timeout = 100ms;
  std::atomic<bool> saw_loss{false};
  const auto consumer = queue.consumer(ledger.watch([&](const Message& message) {
    if (message.payload() != "hangs" || message.attempt() > 1) return ack();
    gate.pass();
    saw_loss = message.lease_lost();
    return nack("late");
  }),
                                       options);
  const std::string id = queue.send("hangs");
  consumer->start();
  REQUIRE(ledger.reaches(1));
  CHECK(eventually([&] { return ledger.entries()[0].message.lease_lost(); }, kPatience));
  queue.send("meanwhile");  // concurrency is 1
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(ledger.attempts("meanwhile") == std::vector<int>{1});
  CHECK(ledger.attempts("hangs") == std::vector<int>{1, 2});
  CHECK(ledger.running() == 1);
  gate.open();
  CHECK(eventually([&] { return consumer->metrics().stats.stale == 1; }, kPatience));
  CHECK(saw_loss);
  CHECK(queue.empty());
  for (int i = 0; i < 5; ++i) queue.send("afterwards");
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(ledger.overlaps() == 0);
  CHECK(consumer->stop());
  CHECK(consumer->metrics().stats.acked == 7);
  CHECK(queue.inspector.counts().totals.retried == 1);
}

TEST_CASE("processing_timeout: many hung handlers do not stop the queue") {
  Queue queue;
  Gate gate;
  Ledger ledger;
  ConsumerOptions options = quick(2);
  options.lease = 100ms;
  options.processing_timeout = 50ms;
  queue.producer.send_batch(std::vector<std::string>(8, "hangs"), with(&SendOptions::retries, 0));
  queue.producer.send_batch(std::vector<std::string>(20, "works"));
  const auto consumer = queue.consumer(ledger.watch([&](const Message& message) {
    if (message.payload() == "hangs") gate.pass();
    return ack();
  }),
                                       options);
  consumer->start();
  CHECK(eventually([&] { return ledger.attempts("works").size() >= 20; }, kPatience));
  CHECK(eventually([&] { return queue.inspector.counts().dead == 8; }, kPatience));
  for (const MessageInfo& dead : queue.inspector.list(State::dead)) CHECK(dead.reason == "lease ended 1 time");
  gate.open();
  CHECK(ledger.settles(28));
  CHECK(consumer->stop());
}

TEST_CASE("processing_timeout: a late ack settles as long as the message was not redelivered") {
  Queue queue;
  Gate gate;
  Ledger ledger;
  ConsumerOptions options = quick();
  options.lease = 1h;
  options.processing_timeout = 30ms;
  queue.send("slow");
  const auto consumer = queue.consumer(ledger.watch([&](const Message&) {
    gate.pass();
    return ack();
  }),
                                       options);
  consumer->start();
  REQUIRE(ledger.reaches(1));
  CHECK(eventually([&] { return ledger.entries()[0].message.lease_lost(); }, kPatience));
  gate.open();
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(consumer->stop());
  CHECK(consumer->metrics().stats.acked == 1);
  CHECK(consumer->metrics().stats.stale == 0);
}

TEST_CASE("lease: after a forced release the handler's lease is lost and its verdict is stale") {
  Queue queue;
  Gate gate;
  Ledger ledger;
  ConsumerOptions options = quick(2);
  options.lease = 300ms;
  const auto consumer = queue.consumer(ledger.watch([&](const Message&) {
    if (ledger.size() == 1) gate.pass();
    return ack();
  }),
                                       options);
  const std::string id = queue.send("x");
  consumer->start();
  REQUIRE(ledger.reaches(1));
  CHECK(queue.admin.release({id}).front() == Outcome::held);
  CHECK(queue.admin.release({id}, HeldMessages::force).front() == Outcome::done);
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(eventually([&] { return ledger.entries()[0].message.lease_lost(); }, kPatience));
  gate.open();
  CHECK(eventually([&] { return consumer->metrics().stats.stale == 1; }, kPatience));
  CHECK(ledger.size() == 2);
  CHECK(consumer->metrics().stats.acked == 1);
  CHECK(consumer->stop());
}

TEST_CASE("lease: a handler that hangs loses a message that its own consumer gets again, and is replaced") {
  Queue queue;
  Gate gate;
  Ledger ledger;
  ConsumerOptions options = quick(2);
  options.lease = 1h;  // the next renewal is in 20 minutes
  const auto consumer = queue.consumer(ledger.watch([&](const Message& message) {
    if (message.payload() == "hangs" && ledger.size() <= 2) gate.pass();
    return ack();
  }),
                                       options);
  const std::string id = queue.send("hangs");
  consumer->start();
  REQUIRE(ledger.reaches(1));
  CHECK(queue.admin.release({id}, HeldMessages::force).front() == Outcome::done);
  REQUIRE(ledger.reaches(2));
  CHECK(eventually([&] { return ledger.entries()[0].message.lease_lost(); }, kPatience));
  CHECK_FALSE(ledger.entries()[1].message.lease_lost());
  queue.send("next");  // two handlers hang: it needs the worker that replaces the first one
  CHECK(ledger.reaches(3));
  gate.open();
  CHECK(eventually([&] { return consumer->metrics().stats.stale == 1 && consumer->metrics().stats.acked == 2; },
                   kPatience));
}

TEST_CASE("lease: the message of a dead process is redelivered after its lease, with one retry less and a reason") {
  Queue queue;
  const std::string id = queue.send("x");
  // The state that a process leaves when it dies after taking the message.
  test::redis().cmd({"RPOP", queue.base + ":ready"});
  const double ends = static_cast<double>(test::redis_time_us()) / 1e6 + 3600.0001234;
  test::redis().cmd({"ZADD", queue.base + ":unack", std::to_string(ends), id});
  Ledger ledger;
  const auto consumer =
      queue.consumer(ledger.watch([](const Message& message) { return nack(1h, message.attempt() == 2 ? "" : "?"); }));
  consumer->start();
  queue.send("other");
  CHECK(ledger.settles(1));
  CHECK(ledger.attempts("x").empty());
  test::rewind(queue.base, 2h);
  CHECK(eventually([&] { return ledger.attempts("x") == std::vector<int>{2}; }, kPatience));
  CHECK(eventually([&] { return queue.inspector.find(id)->retries == 2; }, kPatience));
}

TEST_CASE("reconnect_grace: a consumer that just connected does not reclaim ended leases at once") {
  Queue queue;
  const std::string id = queue.send("x");
  test::redis().cmd({"RPOP", queue.base + ":ready"});
  test::redis().cmd({"ZADD", queue.base + ":unack", "1000000000.123456", id});
  ConsumerOptions options = quick();
  options.tuning.reconnect_grace = 1s;
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), options);
  const auto begin = std::chrono::steady_clock::now();
  consumer->start();
  queue.send("new");
  CHECK(ledger.reaches(2));
  CHECK(std::chrono::steady_clock::now() - begin >= 900ms);
  CHECK(ledger.payloads() == std::vector<std::string>{"new", "x"});
}

TEST_CASE("reconnect_grace: a consumer whose links are shorter than it takes ended leases back, too") {
  for (const milliseconds life : {400ms, 1500ms}) {
    CAPTURE(life.count());
    Queue queue;
    for (const std::string& id : {queue.send("a"), queue.send("b"), queue.send("c")}) {
      test::redis().cmd({"LREM", queue.base + ":ready", "0", id});
      test::redis().cmd({"ZADD", queue.base + ":unack", "1000000000.123456", id});
    }
    test::FaultProxy proxy(test::server().socket(), test::FaultProxy::Via::unix_socket);
    ConsumerOptions options = quick();
    options.tuning.reconnect_grace = 2s;
    Ledger ledger;
    const test::ConsumerPtr consumer(new Consumer(proxy.url(), queue.name, ledger.watch(), options));
    std::atomic<bool> over{false};
    std::thread cuts([&] {
      for (; !over; proxy.cut()) std::this_thread::sleep_for(life);
    });
    consumer->start();
    CHECK(eventually([&] { return ledger.size() == 3; }, 40s));
    over = true;
    cuts.join();
  }
}

TEST_CASE("reconnect_grace: it does not delay a message that the new consumer itself nacked") {
  Queue queue;
  queue.send("x");
  ConsumerOptions options = quick();
  options.tuning.reconnect_grace = 60s;
  options.backoff = Backoff::fixed(50ms);
  Ledger ledger;
  const auto consumer = queue.consumer(
      ledger.watch([](const Message& message) { return test::ack_if(message.attempt() == 2); }), options);
  const auto begin = std::chrono::steady_clock::now();
  consumer->start();
  CHECK(ledger.reaches(2));
  CHECK(std::chrono::steady_clock::now() - begin < 30s);
}

TEST_CASE("lease: handlers of one message never overlap, with several consumers, short leases and slow handlers") {
  for (const unsigned seed : {1U, 2U, 3U}) {
    CAPTURE(seed);
    Queue queue;
    queue.producer.send_batch(std::vector<std::string>(120, "x"), with(&SendOptions::retries, 1000));
    Ledger ledger;
    std::vector<ConsumerPtr> consumers;
    for (unsigned i = 0; i < 3; ++i) {
      ConsumerOptions options = quick(3);
      options.lease = 60ms;
      options.processing_timeout = 90ms;
      options.tuning.poll_interval = 5ms;
      const auto handler = [seed, i](const Message& message) -> Verdict {
        thread_local std::minstd_rand random(seed * 1000 + i);
        const auto dice = message.attempt() > 8 ? 9 : random() % 10;
        std::this_thread::sleep_for(milliseconds(dice == 0 ? 200 : random() % 8));
        if (dice == 1) throw std::runtime_error("bad luck");
        if (dice == 2) return snooze(milliseconds(random() % 20));
        if (dice <= 4) return nack(milliseconds(random() % 20));
        return ack();
      };
      consumers.push_back(queue.consumer(ledger.watch(handler), options));
      consumers.back()->start();
    }
    CHECK(eventually([&] { return queue.empty(); }, kPatience));
    CHECK(ledger.different() == 120);
    CHECK(ledger.overlaps() == 0);
    for (const ConsumerPtr& consumer : consumers) CHECK(consumer->stop());
    CHECK(queue.empty());
    CHECK(queue.inspector.counts().totals.acked == 120);
  }
}

}  // namespace
}  // namespace delayqueue
