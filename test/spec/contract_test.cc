// Guarantees that involve more than one of Producer, Consumer and Inspector.
#include "support/test.h"

namespace delayqueue {
namespace {

using test::named;
using test::redis;

// A message whose handler is still running after its lease has ended. It is in retry or dead, and since the queue is
// paused, it stays there.
struct Late {
  explicit Late(int retries, const Verdict& verdict = ack()) {
    ConsumerOptions options = quick();
    options.lease = 1s;  // long enough to pause the queue first
    options.processing_timeout = 30ms;
    id = queue.send("x", with(&SendOptions::retries, retries));
    consumer = queue.consumer(ledger.watch([this, verdict](const Message&) {
      gate.pass();
      return verdict;
    }),
                              options);
    queue.admin.resume();  // connects
    consumer->start();
    REQUIRE(ledger.reaches(1));
    queue.admin.pause();
    const State expected = retries == 0 ? State::dead : State::retry;
    REQUIRE(eventually([&] { return queue.state(id) == expected; }, kPatience));
  }

  // Lets the handler return, and waits until its verdict is counted as acked or stale.
  ConsumerStats end() {
    gate.open();
    REQUIRE(
        eventually([&] { return consumer->metrics().stats.acked + consumer->metrics().stats.stale == 1; }, kPatience));
    queue.admin.resume();
    return consumer->metrics().stats;
  }

  Queue queue;
  Ledger ledger;
  Gate gate;
  std::string id;
  test::ConsumerPtr consumer;
};

TEST_CASE("late ack: settles a message in retry or dead, since it was handled") {
  for (const int retries : {3, 0}) {
    CAPTURE(retries);
    Late late(retries);
    CHECK(late.end().acked == 1);
    CHECK(eventually([&] { return late.queue.empty(); }, kPatience));
    CHECK(late.ledger.size() == 1);
  }
}

TEST_CASE("late nack: changes nothing") {
  Late late(0, nack("too late"));
  CHECK(late.end().stale == 1);
  CHECK(late.queue.inspector.find(late.id)->reason == "lease ended 1 time");
}

TEST_CASE("late ack: is stale after the message was rescheduled, redriven, or cancelled and sent again") {
  {
    Late late(3);
    REQUIRE(late.queue.producer.reschedule(late.id, with(&RescheduleOptions::delay, 1h)) == Outcome::done);
    CHECK(late.end().stale == 1);
    CHECK(late.queue.state(late.id) == State::pending);
  }
  {
    Late late(0);
    REQUIRE(late.queue.admin.redrive({late.id}).front() == Outcome::done);
    late.gate.open();
    CHECK(eventually([&] { return late.consumer->metrics().stats.stale == 1; }, kPatience));
    CHECK(late.queue.state(late.id) == State::ready);
  }
  {
    Late late(3);
    REQUIRE(late.queue.producer.cancel(late.id) == State::retry);
    REQUIRE(late.queue.producer.send("sent again", named(late.id, 1h)).created());
    CHECK(late.end().stale == 1);
    CHECK(late.queue.inspector.find(late.id)->payload == "sent again");
  }
}

TEST_CASE("lists are hints: a message that is cancelled and sent again many times is delivered once") {
  Queue queue;
  for (int life = 0; life < 20; ++life) {
    REQUIRE(queue.producer.send("life " + std::to_string(life), named(kId)).created());
    if (life < 19) REQUIRE(queue.producer.cancel(kId) == State::ready);
  }
  CHECK(queue.inspector.counts().ready == 20);
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), quick(4));
  consumer->start();
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(ledger.payloads() == std::vector<std::string>{"life 19"});
}

TEST_CASE("lists are hints: a message rescheduled out of ready is not delivered before its new time") {
  Queue queue;
  const std::string id = queue.send("x");
  REQUIRE(queue.producer.reschedule(id, with(&RescheduleOptions::delay, 1h)) == Outcome::done);
  queue.send("after it in the list");
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  CHECK(eventually([&] { return queue.inspector.counts().totals.acked == 1; }, kPatience));
  CHECK(queue.inspector.counts().ready == 0);
  CHECK(queue.state(id) == State::pending);
  test::rewind(queue.base, 2h);
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK(ledger.size() == 2);
}

TEST_CASE("redrive: a dead letter gets new retries, and is dead again after them") {
  Queue queue;
  const std::string id = queue.send("x", with(&SendOptions::retries, 0));
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch([](const Message&) { return nack("no"); }));
  consumer->start();
  REQUIRE(eventually([&] { return queue.state(id) == State::dead; }, kPatience));
  REQUIRE(queue.admin.redrive({id}, {2}).front() == Outcome::done);
  CHECK(eventually([&] { return ledger.size() == 4 && queue.state(id) == State::dead; }, kPatience));
  CHECK(ledger.attempts("x") == std::vector<int>{1, 1, 2, 3});
}

TEST_CASE("send: an id can be sent again after its ack") {
  Queue queue;
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  for (std::size_t life = 1; life <= 3; ++life) {
    CHECK(queue.producer.send("x", named(kId)).created());
    CHECK(eventually([&] { return queue.empty(); }, kPatience));
    CHECK(ledger.size() == life);
  }
}

TEST_CASE("TTL: a snooze extends it") {
  Queue queue;
  const std::string id = queue.send("x", with(&SendOptions::ttl, 10min));
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch([](const Message&) { return snooze(2h); }));
  consumer->start();
  REQUIRE(ledger.settles(1));
  REQUIRE(consumer->stop());
  const long long left = redis().cmd({"PTTL", queue.base + ":msg:" + id}).integer;
  CHECK(left > 125 * 60'000);
  CHECK(left <= 130 * 60'000);
}

TEST_CASE("idle consumers: messages that become due now are handled long before poll_interval") {
  Queue queue;
  queue.producer.send("later", named(kId, 1h));
  ConsumerOptions options = quick(2);
  options.tuning.poll_interval = 10min;
  Ledger ledger;
  const auto consumer =
      queue.consumer(ledger.watch([](const Message& m) { return m.payload() == "bad" ? reject() : ack(); }), options);
  consumer->start();
  const auto handled = [&](std::size_t count) {
    return ledger.settles(count) && eventually([&] { return queue.inspector.counts().unack == 0; }, kPatience);
  };
  queue.send("now");
  CHECK(handled(1));
  const std::string bad = queue.send("bad");
  CHECK(handled(2));
  REQUIRE(eventually([&] { return queue.state(bad) == State::dead; }, kPatience));
  CHECK(queue.admin.redrive({bad}).front() == Outcome::done);
  CHECK(handled(3));
  CHECK(queue.admin.release({kId}).front() == Outcome::done);
  CHECK(handled(4));
  queue.producer.send("later", named(kId, 1h));
  CHECK(queue.producer.reschedule(kId, {}) == Outcome::done);
  CHECK(handled(5));
  queue.admin.pause();
  queue.send("paused");
  queue.admin.resume();
  CHECK(handled(6));
}

TEST_CASE("idle consumers: a lost wake-up delays a message by at most poll_interval") {
  Queue queue;
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  for (std::size_t round = 1; round <= 5; ++round) {
    // As the Go library sends it: without a wake-up.
    const std::string id = "0197f3a4-5b6c-4d8e-9f01-23456789000" + std::to_string(round);
    redis().cmd({"SET", queue.base + ":msg:" + id, "x"});
    redis().cmd({"HSET", queue.base + ":retry:cnt", id, "3"});
    redis().cmd({"ZADD", queue.base + ":pending", "1000000000", id});
    CHECK(ledger.settles(round));
  }
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
}

TEST_CASE("KeyOptions: bodies_under_dp stores bodies, and nothing else, under the keys of the Go library") {
  const std::string name = test::fresh_queue();
  ClientOptions options;
  options.keys.prefix = "mine";
  options.keys.go.bodies_under_dp = true;
  const Client client(test::server().url(), options);
  Producer producer(client, name);
  const std::string id = producer.send("x").id;
  CHECK(redis().cmd({"GET", "dp:" + name + ":msg:" + id}) == "x");
  CHECK(test::snapshot("dp:" + name).size() == 1);
  CHECK(test::snapshot("mine:" + name).count("ready") == 1);
  Ledger ledger;
  Consumer consumer(client, name, ledger.watch(), quick());
  consumer.start();
  CHECK(eventually([&] { return test::snapshot("dp:" + name).empty(); }, kPatience));
  CHECK(ledger.payloads() == std::vector<std::string>{"x"});
}

TEST_CASE("KeyOptions: remove_from_lists removes cancelled and rescheduled ids from the lists") {
  Queue queue;
  ClientOptions options;
  options.keys.go.remove_from_lists = true;
  Producer producer({queue.url, options}, queue.name);
  const std::vector<Sent> sent = producer.send_batch(std::vector<std::string>(3, "x"));
  CHECK(producer.cancel(sent[0].id) == State::ready);
  CHECK(producer.reschedule(sent[1].id, with(&RescheduleOptions::delay, 1h)) == Outcome::done);
  CHECK(redis().cmd({"LRANGE", queue.base + ":ready", "0", "-1"}) == std::vector<std::string>{sent[2].id});
}

TEST_CASE("ClientOptions: the client name and the database are those of the URL and the options") {
  Queue queue;
  queue.send("x");
  CHECK(redis().cmd({"CLIENT", "LIST"}).text.find(" name=delayqueue ") != std::string::npos);
  Producer elsewhere(queue.url + "?db=5", queue.name);
  const std::string id = elsewhere.send("five").id;
  CHECK(queue.inspector.counts().ready == 1);
  test::Redis client;
  REQUIRE(client.cmd({"SELECT", "5"}) == "OK");
  CHECK(client.cmd({"GET", queue.base + ":msg:" + id}) == "five");
}

TEST_CASE("embedded: a queue works without any set-up") {
  const std::string name = test::fresh_queue();
  Producer producer("embedded:", name);
  Inspector inspector("embedded:", name);
  Ledger ledger;
  Consumer consumer("embedded:", name, ledger.watch(), quick());
  consumer.start();
  producer.send("hello");
  CHECK(eventually([&] { return inspector.counts().totals.acked == 1; }, kPatience));
  CHECK(ledger.payloads() == std::vector<std::string>{"hello"});
}

}  // namespace
}  // namespace delayqueue
