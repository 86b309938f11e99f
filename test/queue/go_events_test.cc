// The Go library's event channel: the events that this library publishes and reads.
#include "support/test.h"

#include "queue/go_events.h"

namespace delayqueue {
namespace {

using std::chrono::system_clock;
using test::redis;

std::string channel_of(const Queue& queue) { return "dq:" + queue.name + ":reportEvents"; }

// Reads events until their counts of one kind add up to `count`.
std::array<std::size_t, 8> listen(Inspector& inspector, EventKind until, std::size_t count) {
  std::array<std::size_t, 8> seen{};
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (seen[static_cast<std::size_t>(until)] < count && std::chrono::steady_clock::now() < end) {
    if (const auto event = inspector.next_event(100ms)) seen[static_cast<std::size_t>(event->kind)] += event->count;
  }
  return seen;
}

TEST_CASE("channel: an event is \"<code> <unix seconds> <count>\"") {
  const system_clock::time_point at(1'700'000'000s + 999ms);
  CHECK(encode_event(EventKind::sent, at, 1) == "1 1700000000 1");
  CHECK(encode_event(EventKind::ready, at, 200) == "2 1700000000 200");
  CHECK(encode_event(EventKind::delivered, at, 3) == "3 1700000000 3");
  CHECK(encode_event(EventKind::acked, at, 4) == "4 1700000000 4");
  CHECK(encode_event(EventKind::nacked, at, 5) == "5 1700000000 5");
  CHECK(encode_event(EventKind::retried, at, 6) == "6 1700000000 6");
  CHECK(encode_event(EventKind::dead_lettered, at, 7) == "7 1700000000 7");
}

TEST_CASE("channel: a published event is read back, without ids") {
  for (int code = 1; code <= 7; ++code) {
    const auto event = decode_event(std::to_string(code) + " 1700000000 42");
    REQUIRE(event);
    CHECK(static_cast<int>(event->kind) == code);
    CHECK(event->at == system_clock::time_point(1'700'000'000s));
    CHECK(event->count == 42);
    CHECK(event->ids.empty());
  }
}

TEST_CASE("channel: text that is no event is ignored") {
  const char* rows[] = {"",
                        "1",
                        "1 2",
                        "1 2 ",
                        "1 2 3 ",
                        "1 2 3 4",
                        " 1 2 3",
                        "0 2 3",
                        "8 2 3",
                        "x 2 3",
                        "1 x 3",
                        "1 2 x",
                        "-1 2 3",
                        "1 -2 3",
                        "1 2 -3",
                        "1.5 2 3",
                        "1 2.5 3",
                        "1  2 3",
                        "1\t2\t3",
                        "+1 2 3",
                        "99999999999999999999 2 3",
                        "1 99999999999999999999 3",
                        "1 9223372036854775807 3",
                        "{\"code\":1}"};
  for (const char* row : rows) {
    CAPTURE(row);
    CHECK(!decode_event(row));
  }
  CHECK(!decode_event(std::string("1 2 3\0", 6)));
}

TEST_CASE("next_event: returns the events of a Producer and a Consumer, with the right counts for each kind") {
  Queue queue;
  CHECK(!queue.inspector.next_event(0ms));  // subscribes
  Producer producer({queue.url, test::reporting_events()}, queue.name);
  SendOptions sending;
  sending.delay = 10ms;
  sending.retries = 1;
  producer.send_batch(std::vector<std::string>(250, "works"), sending);
  producer.send_batch(std::vector<std::string>(30, "fails"), sending);
  ConsumerOptions consuming = quick(2);
  Ledger ledger;
  const auto consumer =
      queue.consumer(ledger.watch([](const Message& m) { return test::ack_if(m.payload() == "works"); }), consuming,
                     test::reporting_events());
  consumer->start();
  std::array<std::size_t, 8> seen = listen(queue.inspector, EventKind::dead_lettered, 30);
  CHECK(seen[7] == 30);
  REQUIRE(consumer->stop());
  for (std::size_t kind = 1; kind <= 7; ++kind) {
    while (const auto event = queue.inspector.next_event(20ms))
      seen[static_cast<std::size_t>(event->kind)] += event->count;
  }
  CHECK(seen[1] == 280);
  CHECK(seen[2] == 280);
  CHECK(seen[3] == 310);
  CHECK(seen[4] == 250);
  CHECK(seen[5] == 60);
  CHECK(seen[6] == 30);
}

TEST_CASE("next_event: a send whose id exists is not reported, and without report_events nothing is") {
  Queue queue;
  CHECK(!queue.inspector.next_event(0ms));
  Producer loud({queue.url, test::reporting_events()}, queue.name);
  const auto mine = with(&SendOptions::id, "0197f3a4-5b6c-7d8e-9f01-23456789abcd");
  loud.send("x", mine);
  loud.send("x", mine);
  queue.send("quiet");
  redis().cmd({"PUBLISH", channel_of(queue), "7 1700000000 1"});  // the last event
  std::vector<EventKind> kinds;
  while (kinds.empty() || kinds.back() != EventKind::dead_lettered) {
    const auto event = queue.inspector.next_event(kPatience);
    REQUIRE(event);
    kinds.push_back(event->kind);
  }
  CHECK((kinds == std::vector<EventKind>{EventKind::sent, EventKind::dead_lettered}));
}

TEST_CASE("next_event: returns events of others, ignores other text, and waits no longer than its timeout") {
  Queue queue;
  const auto begin = std::chrono::steady_clock::now();
  CHECK(!queue.inspector.next_event(50ms));
  CHECK(std::chrono::steady_clock::now() - begin >= 50ms);
  redis().cmd({"PUBLISH", channel_of(queue), "nonsense"});
  redis().cmd({"PUBLISH", channel_of(queue), "4 1700000001 17"});
  const auto event = queue.inspector.next_event(kPatience);
  REQUIRE(event);
  CHECK(event->kind == EventKind::acked);
  CHECK(event->count == 17);
  CHECK(event->at == system_clock::time_point(1'700'000'001s));
  CHECK(!queue.inspector.next_event(0ms));
}

TEST_CASE("next_event: other calls of the same Inspector run while it waits") {
  Queue queue;
  CHECK(!queue.inspector.next_event(0ms));
  std::thread listener([&] { CHECK(queue.inspector.next_event(kPatience)); });
  for (int i = 0; i < 20; ++i) CHECK(queue.inspector.counts().pending == 0);
  // The subscriber counts as soon as it is connected, even before it reads.
  CHECK(redis().cmd({"PUBLISH", channel_of(queue), "1 1700000000 1"}) == 1);
  listener.join();
}

TEST_CASE("next_event: subscribes again after its connection was lost") {
  Queue queue;
  ClientOptions options;
  options.client_name = "e-" + queue.name;
  Inspector inspector({queue.url, options}, queue.name);
  CHECK(!inspector.next_event(0ms));
  REQUIRE(test::cut_connections("e-" + queue.name) == 1);
  CHECK(eventually(
      [&] {
        try {
          static_cast<void>(inspector.next_event(0ms));
        } catch (const ConnectionError&) {  // thrown once
        }
        return redis().cmd({"PUBLISH", channel_of(queue), "4 1700000000 1"}) == 1;
      },
      kPatience));
  CHECK(inspector.next_event(kPatience));
}

}  // namespace
}  // namespace delayqueue
