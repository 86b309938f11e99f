// Pipelined round trips: the consumer sends a second one before the first is answered.
#include "support/test.h"

#include "consumer/link.h"
#include "support/proxy.h"
#include "support/relay.h"
#include "support/scripted_server.h"

namespace delayqueue {
namespace {

using test::Relay;

bool is_done(Queue& queue) {
  return eventually([&] { return queue.empty(); }, kPatience);
}

TEST_CASE("round trips: under load the next is sent before the last answer, and each message is acked once") {
  Relay relay;
  Queue queue(relay.url());
  const std::vector<std::string> payloads = numbers(3000);
  queue.producer.send_batch(payloads);
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), quick(4));
  relay.arm(Relay::Then::answer);
  consumer->start();
  CHECK(eventually([&] { return relay.early_requests() >= 5; }, kPatience));
  relay.disarm();
  CHECK(is_done(queue));
  CHECK(ledger.size() == payloads.size());
  CHECK(ledger.different() == payloads.size());
  CHECK(eventually([&] { return consumer->metrics().stats.acked == payloads.size(); }, kPatience));
  CHECK(consumer->metrics().stats.errors == 0);
}

TEST_CASE("round trips: a verdict is sent while the answers to the moves are missing") {
  test::FaultProxy proxy(test::server().socket(), test::FaultProxy::Via::unix_socket);
  Queue queue;
  std::deque<test::Gate> gates(20);
  gates.front().open();  // its message loads the scripts
  Ledger ledger;
  Consumer consumer(proxy.url(), queue.name, ledger.watch([&](const Message& message) {
    gates[std::stoul(message.payload())].pass();
    return ack();
  }),
                    quick());
  consumer.start();
  queue.send("0");
  REQUIRE(eventually([&] { return consumer.metrics().stats.acked == 1; }, kPatience));
  // The answers that are held may be those of a round trip that settles. Then the next one waits for them, and the test
  // is repeated. So it is if the moves ran before they were counted.
  bool sent = false;
  for (std::size_t i = 1; i < gates.size() && !sent; ++i) {
    queue.send(std::to_string(i));
    REQUIRE(ledger.reaches(i + 1));
    proxy.hold_replies(true);
    const std::string before = test::info("commandstats", "cmdstat_evalsha");
    const bool moves = eventually([&] { return test::info("commandstats", "cmdstat_evalsha") != before; }, 500ms);
    gates[i].open();
    sent = eventually([&] { return queue.inspector.counts().unack == 0; }, 500ms) && moves;
    CHECK(consumer.metrics().stats.acked == i);  // the answer is missing, too
    proxy.hold_replies(false);
    REQUIRE(eventually([&] { return consumer.metrics().stats.acked == i + 1; }, kPatience));
  }
  CHECK(sent);
  CHECK(consumer.metrics().stats.errors == 0);
}

TEST_CASE("round trips: a connection that is lost with two round trips in flight loses no message") {
  Relay relay;
  Queue queue(relay.url());
  const auto patient = with(&SendOptions::retries, 1000);
  const std::vector<std::string> payloads = numbers(3000);
  queue.producer.send_batch(payloads, patient);
  Ledger ledger;
  ConsumerOptions options = quick(4);
  options.lease = 1s;  // redelivers soon what a lost take answer leased
  const auto consumer = queue.consumer(ledger.watch(), options);
  relay.arm(Relay::Then::cut);
  consumer->start();
  CHECK(eventually([&] { return relay.early_requests() >= 5; }, kPatience));
  relay.disarm();
  CHECK(is_done(queue));
  CHECK(ledger.different() == payloads.size());
  CHECK(ledger.overlaps() == 0);
  CHECK(consumer->metrics().stats.connects >= 6);
  const Totals totals = queue.inspector.counts().totals;
  CHECK(totals.acked == payloads.size());
  CHECK(totals.dead_lettered == 0);
}

TEST_CASE("round trips: scripts that are flushed under load are sent again, and none runs twice") {
  Queue queue;
  const std::vector<std::string> payloads = numbers(20'000);
  queue.producer.send_batch(payloads);
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), quick(4));
  consumer->start();
  std::size_t flushed = 0;
  while (ledger.size() < payloads.size() && ++flushed < 100'000) test::redis().cmd({"SCRIPT", "FLUSH"});
  CHECK(is_done(queue));
  CHECK(flushed > 10);
  CHECK(ledger.size() == payloads.size());
  CHECK(ledger.different() == payloads.size());
  CHECK(eventually([&] { return consumer->metrics().stats.acked == payloads.size(); }, kPatience));
  CHECK(consumer->metrics().stats.errors == 0);
}

TEST_CASE("round trips: messages of a take that is answered after stop() return to the queue in order") {
  test::FaultProxy proxy(test::server().socket(), test::FaultProxy::Via::unix_socket);
  Queue queue(proxy.url());
  const std::vector<std::string> payloads = numbers(3000);
  queue.producer.send_batch(payloads);
  for (std::size_t begun = 0; begun < 1500;) {
    Ledger ledger;
    const auto consumer = queue.consumer(ledger.watch(), quick(1));
    consumer->start();
    REQUIRE(ledger.reaches(300));
    proxy.delay(5ms);
    REQUIRE(ledger.reaches(310));
    CHECK(consumer->stop(kPatience));
    proxy.delay(0ms);
    const auto seen = ledger.payloads();
    const auto from = payloads.begin() + static_cast<std::ptrdiff_t>(begun);
    begun += seen.size();
    CHECK((seen == std::vector<std::string>(from, from + static_cast<std::ptrdiff_t>(seen.size()))));
    const Counts counts = queue.inspector.counts();
    CHECK(counts.ready == payloads.size() - begun);
    CHECK(counts.unack == 0);
  }
  Ledger after;
  const auto next = queue.consumer(after.watch());
  next->start();
  CHECK(is_done(queue));
  const auto rest = after.payloads();
  CHECK((rest == std::vector<std::string>(payloads.end() - static_cast<std::ptrdiff_t>(rest.size()), payloads.end())));
}

redis::Connection connect() {
  redis::Address to;
  to.path = test::server().socket();
  return {to, {{}, {}, "round_trips", 0}, {}};
}

redis::Answer<std::string> ask(redis::Pipeline& pipeline, const std::string& command) {
  pipeline.command(command);
  return {pipeline, [](redis::Reply reply) { return std::string(reply.text()); }};
}

TEST_CASE("round trips: a refused request fails its lane only, when the other answers are read") {
  redis::Connection connection = connect();
  LaneRequests refused, answered, unused;
  std::vector<std::string> texts;
  {
    RoundTrip round_trip(connection, kSettle);
    const auto expect = [&](LaneRequests& lane, const std::string& command) {
      round_trip.add_for(&lane);
      round_trip.expect(ask(round_trip.pipeline(), command),
                        [&](const auto& answer) { texts.push_back(answer.get()); });
    };
    expect(refused, "NO_SUCH_COMMAND");
    expect(answered, "PING");
    round_trip.add_for(&unused);
    expect(refused, "PING");
    round_trip.add_for(nullptr);
    round_trip.send();
    CHECK(refused.under_way == 2);
    CHECK(answered.under_way == 1);
    CHECK(unused.under_way == 0);
    round_trip.receive();
    round_trip.finish();
  }
  CHECK(texts == std::vector<std::string>{"PONG", "PONG"});
  CHECK(refused.refused.has_value());
  CHECK_FALSE(answered.refused);
  CHECK(answered.finished);
  CHECK_FALSE(unused.finished);
  CHECK(refused.under_way == 0);
  CHECK(answered.under_way == 0);
}

TEST_CASE("round trips: a refused request of no lane is thrown, and a lost one ends the count of its lane") {
  redis::Connection connection = connect();
  LaneRequests lane;
  {
    RoundTrip round_trip(connection, kSettle);
    round_trip.expect(ask(round_trip.pipeline(), "NO_SUCH_COMMAND"), [](const auto& answer) { answer.get(); });
    round_trip.send();
    round_trip.receive();
    CHECK_THROWS_AS(round_trip.finish(), ReplyError);
  }
  bool dropped = false;
  {
    RoundTrip round_trip(connection, kSettle);
    round_trip.add_for(&lane);
    round_trip.expect(
        ask(round_trip.pipeline(), "PING"), [](const auto&) {}, [&] { dropped = true; });
    round_trip.send();
    CHECK(lane.under_way == 1);
  }
  CHECK(dropped);
  CHECK(lane.under_way == 0);
  CHECK_FALSE(lane.finished);
}

// The other nodes of a Cluster, for a connection that must not connect to them.
class OtherNodes : public redis::Cluster {
 public:
  std::unique_ptr<redis::Connection> dial(const redis::Address& node) override {
    throw std::logic_error("connects to " + node.text());
  }
  void moved(const redis::Redirection& to) override { moved_slots.push_back(to.slot); }
  void lost(int) override {}

  std::vector<int> moved_slots;
};

TEST_CASE(
    "round trips: a redirection, or a slot that moves or is not served, fails its lane only, and connects nowhere") {
  const test::ScriptedServer server([](const std::vector<std::string>& words) -> std::string {
    if (words[0] == "MOVED") return "-MOVED 5 127.0.0.1:1\r\n";
    if (words[0] == "ASK") return "-ASK 6 127.0.0.1:1\r\n";
    if (words[0] == "MOVING") return "-TRYAGAIN Multiple keys request during rehashing of slot\r\n";
    if (words[0] == "UNSERVED") return "-CLUSTERDOWN Hash slot not served\r\n";
    return words[0] == "PING" ? "+PONG\r\n" : test::hello();
  });
  OtherNodes others;
  redis::Address to;
  to.host = "127.0.0.1";
  to.port = server.port();
  redis::Connection connection(to, {{}, {}, "round_trips", 0}, {}, &others);
  connection.refuse_redirections();
  LaneRequests moved, asked, moving, unserved, answered;
  std::string text;
  {
    RoundTrip round_trip(connection, kSettle);
    const auto expect = [&](LaneRequests& lane, const std::string& command) {
      round_trip.add_for(&lane);
      round_trip.expect(ask(round_trip.pipeline(), command), [&](const auto& answer) { text = answer.get(); });
    };
    expect(moved, "MOVED");
    expect(asked, "ASK");
    expect(moving, "MOVING");
    expect(unserved, "UNSERVED");
    expect(answered, "PING");
    round_trip.add_for(nullptr);
    round_trip.send();
    round_trip.receive();
    round_trip.finish();
  }
  CHECK(text == "PONG");
  for (const LaneRequests* lane : {&moved, &asked, &moving, &unserved}) {
    REQUIRE(lane->refused.has_value());
    CHECK((lane->refused->kind == redis::Failure::Kind::slot_unavailable));
  }
  CHECK_FALSE(answered.refused);
  CHECK(moved.moved);
  CHECK_FALSE(asked.moved);
  CHECK_FALSE(moving.moved);
  CHECK(others.moved_slots == std::vector<int>{5});
}

TEST_CASE("round trips: that the whole Cluster is down fails all lanes of the node") {
  const test::ScriptedServer server([](const std::vector<std::string>& words) -> std::string {
    return words[0] == "DOWN" ? "-CLUSTERDOWN The cluster is down\r\n" : test::hello();
  });
  redis::Address to;
  to.host = "127.0.0.1";
  to.port = server.port();
  redis::Connection connection(to, {{}, {}, "round_trips", 0}, {});
  LaneRequests lane;
  RoundTrip round_trip(connection, kSettle);
  round_trip.add_for(&lane);
  round_trip.expect(ask(round_trip.pipeline(), "DOWN"), [](const auto& answer) { answer.get(); });
  round_trip.send();
  round_trip.receive();
  CHECK_THROWS_AS(round_trip.finish(), ConnectionError);
  CHECK_FALSE(lane.refused);
}

}  // namespace
}  // namespace delayqueue
