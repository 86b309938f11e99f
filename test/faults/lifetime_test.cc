// Objects destroyed by their own handler or callback, and objects that were moved from.
#include "support/test.h"

namespace delayqueue {
namespace {

using test::redis;
using test::server;

TEST_CASE("lifetime: a Consumer may be destroyed by its own handler, whose verdict still counts") {
  const std::string queue = test::fresh_queue();
  std::atomic<bool> destroyed{false};
  std::unique_ptr<Consumer> consumer;
  consumer = std::make_unique<Consumer>(server().url(), queue, [&](const Message&) {
    consumer.reset();
    destroyed = true;
    return ack();
  });
  Producer(server().url(), queue).send("a");
  consumer->start();
  CHECK(test::eventually([&] { return destroyed.load(); }));
  CHECK(test::eventually([&] { return redis().cmd({"HGET", "dp:" + queue + ":stats", "acked"}) == "1"; }));
  CHECK(redis().cmd({"ZCARD", "dp:" + queue + ":unack"}) == 0);
}

TEST_CASE("lifetime: a Consumer may be destroyed by its own callback") {
  const std::string queue = test::fresh_queue();
  std::atomic<bool> destroyed{false};
  std::unique_ptr<Consumer> consumer;
  ConsumerOptions options;
  options.on_event = [&](const Event& event) {
    if (event.kind != EventKind::acked || destroyed) return;
    consumer.reset();
    destroyed = true;
  };
  consumer = std::make_unique<Consumer>(
      server().url(), queue, [](const Message&) { return ack(); }, options);
  Producer(server().url(), queue).send("a");
  consumer->start();
  CHECK(test::eventually([&] { return destroyed.load(); }));
  const std::string client = "name=delayqueue";
  CHECK(test::eventually([&] { return redis().cmd({"CLIENT", "LIST"}).text.find(client) == std::string::npos; }));
}

template <class Call>
void check_moved(const std::string& name, Call call) {
  CHECK_THROWS_WITH_AS(call(), doctest::Contains((name + ": used after it was moved from").c_str()), std::logic_error);
}

TEST_CASE("lifetime: a call to an object that was moved from throws logic_error, and the other one works") {
  Producer producer(server().url(), test::fresh_queue());
  Producer other = std::move(producer);
  check_moved("Producer", [&] { producer.send("a"); });
  check_moved("Producer", [&] { producer.send_batch({"a"}); });
  check_moved("Producer", [&] { return producer.send_async("a"); });
  check_moved("Producer", [&] { producer.send_async("a", {}, [](const AsyncSent&) {}); });
  check_moved("Producer", [&] { return producer.flush(1ms); });
  check_moved("Producer", [&] { return producer.cancel(kId); });
  check_moved("Producer", [&] { return producer.reschedule(kId, {}); });
  CHECK(other.send("a").created());
  producer = std::move(other);
  CHECK(producer.send("a").created());

  Inspector inspector(server().url(), test::fresh_queue());
  Inspector second = std::move(inspector);
  check_moved("Inspector", [&] { return inspector.counts(); });
  check_moved("Inspector", [&] { return inspector.list(State::ready); });
  check_moved("Inspector", [&] { return inspector.find(kId); });
  check_moved("Inspector", [&] { return inspector.next_event(1ms); });
  check_moved("Inspector", [&] { return inspector.queues(); });
  CHECK_NOTHROW(static_cast<void>(second.counts()));

  QueueAdmin admin(server().url(), test::fresh_queue());
  QueueAdmin third = std::move(admin);
  check_moved("QueueAdmin", [&] { admin.purge(State::dead); });
  check_moved("QueueAdmin", [&] { return admin.redrive({kId}); });
  check_moved("QueueAdmin", [&] { return admin.check(); });
  check_moved("QueueAdmin", [&] { admin.pause(); });
  CHECK(third.purge(State::dead) == 0);

  PrivateServer own;
  PrivateServer taken = std::move(own);
  check_moved("PrivateServer", [&] { own.url(); });
  check_moved("PrivateServer", [&] { own.pid(); });
  check_moved("PrivateServer", [&] { own.stop(); });
  check_moved("PrivateServer", [&] { own.restart(); });
  CHECK(taken.pid() > 0);
}

}  // namespace
}  // namespace delayqueue
