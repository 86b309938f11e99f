// Cancel, reschedule, and the table of operations and states in the public interface.
#include "support/test.h"

namespace delayqueue {
namespace {

// Brings a message into a state with the library's own calls. In the state `held`, the handler waits at the gate.
class Placed {
 public:
  enum class In { pending, ready, held, backoff, retry, dead, garbage, none };

  explicit Placed(In place) {
    if (place == In::none) return;
    auto options = with(&SendOptions::id, id);
    if (place == In::pending) options.delay = 1h;
    queue.producer.send("first life", options);
    if (place == In::pending || place == In::ready) return;
    test::MessageHandler handler = [this](const Message&) {
      gate.pass();
      return ack();
    };
    if (place == In::backoff || place == In::retry) handler = [](const Message&) { return nack(1h, "later"); };
    if (place == In::dead || place == In::garbage) handler = [](const Message&) { return reject("no such order"); };
    ConsumerOptions consuming = test::quick();
    if (place == In::garbage) {
      consuming.dead_retention = 0ms;
      consuming.tuning.poll_interval = 1h;  // no maintenance removes the garbage
    }
    consumer = queue.consumer(ledger.watch(handler), consuming);
    consumer->start();
    REQUIRE(ledger.reaches(1));
    if (place == In::held) return;
    REQUIRE(consumer->stop());
    if (place != In::retry) return;
    test::rewind(queue.base, 2h);
    queue.admin.pause();
    consumer = queue.consumer(ledger.watch());
    consumer->start();
    REQUIRE(test::eventually([&] { return queue.inspector.counts().retry == 1; }, test::kPatience));
    REQUIRE(consumer->stop());
  }

  const std::string id = "0197f3a4-5b6c-7d8e-9f01-23456789abcd";
  Queue queue;
  Ledger ledger;
  Gate gate;
  test::ConsumerPtr consumer;
};

using In = Placed::In;
constexpr In kAll[] = {In::pending, In::ready, In::held, In::backoff, In::retry, In::dead, In::garbage, In::none};

TEST_CASE("table: a send creates a message unless its id exists in another state than garbage") {
  const bool created[] = {false, false, false, false, false, false, true, true};
  for (const In in : kAll) {
    CAPTURE(static_cast<int>(in));
    Placed placed(in);
    SendOptions options;
    options.id = placed.id;
    options.delay = 1h;
    const bool expected = created[static_cast<int>(in)];
    CHECK(placed.queue.producer.send("second life", options).created() == expected);
    CHECK(placed.queue.inspector.find(placed.id)->payload == (expected ? "second life" : "first life"));
    if (expected) CHECK(placed.queue.state(placed.id) == State::pending);
  }
}

TEST_CASE("table: cancel returns the state that the message had") {
  const State expected[] = {State::pending, State::ready, State::unack,   State::retry,
                            State::retry,   State::dead,  State::unknown, State::unknown};
  for (const In in : kAll) {
    CAPTURE(static_cast<int>(in));
    Placed placed(in);
    CHECK(placed.queue.producer.cancel(placed.id) == expected[static_cast<int>(in)]);
    const bool held = in == In::held;
    CHECK(placed.queue.producer.cancel(placed.id) == (held ? State::unack : State::unknown));
    if (held) continue;
    CHECK(placed.queue.state(placed.id) == State::unknown);
    if (in == In::garbage || in == In::none) continue;
    CHECK(placed.queue.producer.send("second life", with(&SendOptions::id, placed.id)).created());
  }
}

TEST_CASE("table: reschedule moves waiting messages, and refuses held messages and dead letters") {
  const Outcome expected[] = {Outcome::done, Outcome::done,        Outcome::held,    Outcome::done,
                              Outcome::done, Outcome::wrong_state, Outcome::unknown, Outcome::unknown};
  for (const In in : kAll) {
    CAPTURE(static_cast<int>(in));
    Placed placed(in);
    CHECK(placed.queue.producer.reschedule(placed.id, with(&RescheduleOptions::delay, 2h)) ==
          expected[static_cast<int>(in)]);
    if (expected[static_cast<int>(in)] != Outcome::done) continue;
    const auto found = placed.queue.inspector.find(placed.id);
    REQUIRE(found);
    CHECK(found->state == State::pending);
    CHECK(found->retries == (in == In::retry ? 2 : 3));
    CHECK(*found->at > placed.queue.inspector.counts().now + 1h);
  }
}

TEST_CASE("table: release makes pending and backing-off messages ready, and held ones only with force") {
  const Outcome plain[] = {Outcome::done,    Outcome::unknown, Outcome::held,    Outcome::done,
                           Outcome::unknown, Outcome::unknown, Outcome::unknown, Outcome::unknown};
  for (const In in : kAll) {
    for (const HeldMessages held : {HeldMessages::skip, HeldMessages::force}) {
      const bool force = held == HeldMessages::force;
      CAPTURE(static_cast<int>(in));
      CAPTURE(force);
      Placed placed(in);
      if (in == In::held) placed.queue.admin.pause();
      const Outcome expected = in == In::held && force ? Outcome::done : plain[static_cast<int>(in)];
      CHECK(placed.queue.admin.release({placed.id}, held).front() == expected);
      if (expected == Outcome::done) CHECK(placed.queue.state(placed.id) == State::ready);
    }
  }
}

TEST_CASE("table: redrive makes dead letters ready, and no other message") {
  for (const In in : kAll) {
    CAPTURE(static_cast<int>(in));
    Placed placed(in);
    const Outcome expected = in == In::dead ? Outcome::done : Outcome::unknown;
    CHECK(placed.queue.admin.redrive({placed.id}).front() == expected);
    if (in == In::dead) CHECK(placed.queue.state(placed.id) == State::ready);
  }
}

TEST_CASE("cancel: a message that is pending, ready or in retry is not delivered any more") {
  for (const In in : {In::pending, In::ready, In::backoff, In::retry, In::dead}) {
    CAPTURE(static_cast<int>(in));
    Placed placed(in);
    placed.queue.admin.resume();
    CHECK(placed.queue.producer.cancel(placed.id) != State::unknown);
    const std::string other = placed.queue.send("other");
    Ledger after;
    const auto consumer = placed.queue.consumer(after.watch());
    consumer->start();
    CHECK(after.reaches(1));
    CHECK(test::eventually([&] { return placed.queue.empty(); }, test::kPatience));
    CHECK(after.payloads() == std::vector<std::string>{"other"});
    CHECK(consumer->stop());
  }
}

TEST_CASE("cancel: a held message may still be acked; if its handler fails it is not delivered again") {
  for (const bool succeeds : {true, false}) {
    CAPTURE(succeeds);
    Queue queue;
    Ledger ledger;
    Gate gate;
    const auto consumer = queue.consumer(ledger.watch([&](const Message& message) {
      if (message.payload() == "cancelled") gate.pass();
      return test::ack_if(succeeds || message.payload() != "cancelled");
    }));
    consumer->start();
    const std::string id = queue.send("cancelled");
    REQUIRE(ledger.reaches(1));
    CHECK(queue.producer.cancel(id) == State::unack);
    gate.open();
    CHECK(test::eventually([&] { return queue.empty(); }, test::kPatience));
    CHECK(consumer->stop());
    CHECK(ledger.size() == 1);
    CHECK(consumer->metrics().stats.stale == 0);
    CHECK(queue.inspector.counts().totals.cancelled == 1);
  }
}

TEST_CASE("reschedule: moves a message earlier, later and to now, by a delay or to a time") {
  Queue queue;
  const std::string id = queue.send("x", delayed(1h));
  const auto due = [&] { return *queue.inspector.find(id)->at - queue.inspector.counts().now; };
  auto when = with(&RescheduleOptions::delay, 2h);
  CHECK(queue.producer.reschedule(id, when) == Outcome::done);
  CHECK(due() > 119min);
  CHECK(due() <= 2h + 1ms);
  when.delay = 5min;
  CHECK(queue.producer.reschedule(id, when) == Outcome::done);
  CHECK(due() <= 5min + 1ms);
  CHECK(due() > 4min);
  when.delay = 0ms;
  const auto at = std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now() + 26h);
  when.at = at + 1us;
  CHECK(queue.producer.reschedule(id, when) == Outcome::done);
  CHECK(queue.inspector.find(id)->at == at + 1ms);
  CHECK(queue.producer.reschedule(id, {}) == Outcome::done);
  CHECK(queue.state(id) == State::ready);
  when.at = std::chrono::system_clock::now() - 1h;
  CHECK(queue.producer.reschedule(id, when) == Outcome::done);
  CHECK(queue.state(id) == State::ready);

  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  CHECK(test::eventually([&] { return queue.empty(); }, test::kPatience));
  CHECK(ledger.size() == 1);
}

}  // namespace
}  // namespace delayqueue
