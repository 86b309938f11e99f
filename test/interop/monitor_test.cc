// The counts and events of one library show what the other does.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <map>
#include <sstream>

#include "interop/both_sides.h"

using namespace delayqueue;
using namespace std::chrono_literals;
using test::eventually;
using test::go;
using test::GoProgram;

namespace {

using Sums = std::map<EventKind, std::size_t>;  // the sum of the counts in events of each kind

std::string to_text(const Sums& sums) {
  std::string text;
  for (const auto& [kind, count] : sums) {
    text += (text.empty() ? "" : ", ") + std::to_string(static_cast<int>(kind)) + ": " + std::to_string(count);
  }
  return text;
}

}  // namespace

TEST_CASE("Go's Monitor counts messages of C++") {
  const auto queue = test::fresh_queue();
  Producer producer(test::server().url(), queue);
  producer.send_batch({"a", "b"}, {.delay = 1h});
  producer.send_batch({"c", "d", "e"});
  CHECK(go("counts", queue) == std::vector<std::string>{"2 3 0"});

  std::atomic<int> holds{0};
  std::atomic<bool> go_on{false};
  auto options = test::quick();
  options.concurrency = 3;
  Consumer worker(
      test::server().url(), queue,
      [&](const Message&) {
        ++holds;
        return eventually([&] { return go_on.load(); }, 20s) ? ack() : nack();
      },
      options);
  worker.start();
  REQUIRE(eventually([&] { return holds == 3; }));
  CHECK(go("counts", queue) == std::vector<std::string>{"2 0 3"});
  go_on = true;
  CHECK(eventually([&] { return go("counts", queue) == std::vector<std::string>{"2 0 0"}; }));
}

TEST_CASE("Inspector counts and lists messages of Go") {
  const auto queue = test::fresh_queue();
  const auto ids = go("send", queue, {"-n", "3"});
  Inspector inspector(test::server().url(), queue);
  CHECK(inspector.counts().pending == 3);
  CHECK(inspector.counts().due == 3);
  GoProgram worker("work", queue, {"-limit", "1", "-hold", "1h", "-lease", "1h"});
  REQUIRE(eventually([&] { return worker.count_starting("take ") == 1; }));

  const auto counts = inspector.counts();
  CHECK(counts.pending == 0);
  CHECK(counts.ready == 2);
  CHECK(counts.unack == 1);
  std::vector<std::string> listed;
  for (const auto& message : inspector.list(State::ready)) listed.push_back(message.id);
  const auto unack = inspector.list(State::unack);
  REQUIRE(unack.size() == 1);
  CHECK(unack.messages[0].held);
  CHECK(worker.count("take " + unack.messages[0].payload) == 1);
  listed.push_back(unack.messages[0].id);
  CHECK(test::sorted(listed) == test::sorted(ids));
}

TEST_CASE("Go's Monitor receives events of C++ with their codes and counts") {
  const auto queue = test::fresh_queue();
  GoProgram listener("events", queue);
  REQUIRE(eventually([&] {
    return test::redis().cmd({"PUBSUB", "NUMSUB", "dq:" + queue + ":reportEvents"}).strings()[1] == "1";
  }));
  auto options = test::quick();
  const Client reporting(test::server().url(), {.keys = {.go = {.report_events = true}}});
  Consumer worker(
      reporting, queue,
      [](const Message& m) -> Verdict {
        if (m.payload() == "never" || (m.payload() == "later" && m.attempt() == 1)) return nack(0ms, "no");
        return ack();
      },
      options);
  Producer producer(reporting, queue, {.retries = 1});
  producer.send_batch({"at once", "later", "never"}, {.delay = 100ms});
  worker.start();

  const auto received = [&] {
    Sums sums;
    for (const auto& line : listener.lines()) {
      std::istringstream words(line);
      int code = 0;
      long long seconds = 0;
      std::size_t count = 0;
      words >> code >> seconds >> count;
      if (std::llabs(seconds - std::time(nullptr)) < 60) sums[static_cast<EventKind>(code)] += count;
    }
    return to_text(sums);
  };
  // Three messages are sent; one is nacked once and one twice. C++ counts every delivery, Go only the first.
  const std::string expected = "1: 3, 2: 3, 3: 5, 4: 2, 5: 3, 6: 2, 7: 1";
  eventually([&] { return received() == expected; });
  CHECK(received() == expected);
  CHECK(listener.finish() == 0);
}

TEST_CASE("Inspector::next_event returns events of Go") {
  const auto queue = test::fresh_queue();
  Inspector inspector(test::server().url(), queue);
  CHECK_FALSE(inspector.next_event(50ms));  // subscribes
  GoProgram worker("work", queue, {"-report", "-fail-every", "1"});
  // Each message is nacked once. The one without retries is given up.
  go("send", queue, {"-report", "-n", "2", "-retries", "1"});
  go("send", queue, {"-report", "-payload", "never", "-retries", "0"});

  const std::string expected = "1: 3, 2: 3, 3: 3, 4: 2, 5: 3, 6: 2, 7: 1";
  Sums sums;
  const auto start = std::chrono::system_clock::now();
  eventually([&] {
    if (const auto event = inspector.next_event(100ms)) {
      sums[event->kind] += event->count;
      CHECK(event->ids.empty());
      CHECK(event->at > start - 2s);
      CHECK(event->at < start + 60s);
    }
    return to_text(sums) == expected;
  });
  CHECK(to_text(sums) == expected);
}
