// Idle consumers: which of them wake up, when, and how many requests that costs.
#include "support/test.h"

#include <signal.h>

#include "support/process.h"

namespace delayqueue {
namespace {

using test::calls_of;
using Clock = std::chrono::steady_clock;

// Commands that clients send for messages. Commands inside scripts do not count. Left out: BZPOPMIN, which is sent
// again every 5 s, and SRANDMEMBER and HRANDFIELD, which are maintenance.
std::size_t requests(Redis& on) { return calls_of("evalsha", on) + calls_of("eval", on) + calls_of("mget", on); }

std::size_t all_requests(Redis& on) {
  return requests(on) + calls_of("bzpopmin", on) + calls_of("srandmember", on) + calls_of("hrandfield", on);
}

ConsumerOptions patient(milliseconds poll = 30s) {
  ConsumerOptions options;
  options.concurrency = 1;
  options.tuning.poll_interval = poll;
  options.tuning.reconnect_grace = 1ms;
  return options;
}

// Consumers that have found no message and block in BZPOPMIN.
struct Idle {
  Idle(Queue& queue, Redis& client, std::size_t count, const ConsumerOptions& options = patient()) {
    for (std::size_t i = 0; i < count; ++i) {
      consumers.push_back(queue.consumer(ledger.watch(), options));
      consumers.back()->start();
    }
    CHECK(eventually([&] { return blocked(client) == count; }, kPatience));
  }

  static std::size_t blocked(Redis& client) {
    return static_cast<std::size_t>(std::stoul("0" + test::info("clients", "blocked_clients", client)));
  }

  Ledger ledger;
  std::vector<ConsumerPtr> consumers;
};

test::MessageHandler behind(test::Gate& gate) {
  return [&gate](const Message&) {
    gate.pass();
    return ack();
  };
}

// Waits for so many deliveries. Returns the time from `due` until then, on this machine's clock.
milliseconds lateness(Ledger& ledger, std::size_t deliveries, Clock::time_point due) {
  CHECK(ledger.reaches(deliveries));
  return std::chrono::duration_cast<milliseconds>(Clock::now() - due);
}

// Tolerance for a busy machine. A poll_interval that could hide a missed wake-up is longer.
constexpr milliseconds kLate{10s};

TEST_CASE("a message that is due now or later wakes one of many idle consumers") {
  PrivateServer own;
  Redis client(own.socket());
  Queue queue(own.url());
  Idle idle(queue, client, 50, patient(10min));
  for (const milliseconds delay : {0ms, 700ms}) {
    CAPTURE(delay.count());
    const auto in_span = [&](const std::function<void()>& what) {
      const std::size_t before = requests(client);
      const auto end = Clock::now() + 1500ms;
      what();
      std::this_thread::sleep_until(end);
      return requests(client) - before;
    };
    const std::size_t baseline = in_span([] {});
    const std::size_t delivered = idle.ledger.size();
    const std::size_t caused = in_span([&] {
      const auto begin = Clock::now();
      queue.producer.send("x", delayed(delay));
      CHECK(lateness(idle.ledger, delivered + 1, begin + delay) < kLate);
    });
    MESSAGE("requests: " << caused << ", beside " << baseline << " without a message");
    CHECK(caused <= 18 + baseline);
    CHECK(caused >= 2);
  }
}

// The number of requests that a message causes among fifty idle consumers, or 0 if polls cannot be distinguished from
// them.
std::size_t requests_when_due() {
  PrivateServer own;
  Redis client(own.socket());
  Queue queue(own.url());
  constexpr milliseconds kPoll{4000};  // maintenance follows after 10 s
  const auto first = Clock::now();
  Idle idle(queue, client, 50, patient(kPoll));
  const auto last = Clock::now();
  if (last - first > kPoll / 4) {
    MESSAGE("not run: on this machine, now, polls cannot be distinguished from the requests that the message causes");
    return 0;
  }
  // All consumers poll between the send and the due time, and none within a second of the due time.
  queue.producer.send("x", delayed(std::chrono::duration_cast<milliseconds>(first + 3 * kPoll / 2 + kPoll / 8 - last)));
  std::this_thread::sleep_until(first + 3 * kPoll / 2);
  const std::size_t before = requests(client);
  CHECK(idle.ledger.reaches(1));
  std::this_thread::sleep_until(first + 3 * kPoll / 2 + kPoll / 4);
  const std::size_t caused = requests(client) - before;
  MESSAGE("requests: " << caused);
  return caused;
}

TEST_CASE("only one of many idle consumers sends requests when a message becomes due") {
  std::size_t caused = requests_when_due();
  // If the machine was slow, late polls may fall into the measured second.
  for (int more = 2; more > 0 && caused > 18; --more) caused = requests_when_due();
  CHECK(caused <= 18);
}

TEST_CASE("a message is on time with a long poll_interval: sent to idle consumers, sent earlier, or rescheduled") {
  PrivateServer own;
  Redis client(own.socket());
  Queue queue(own.url());
  Idle idle(queue, client, 3);
  const auto begin = Clock::now();
  const std::string moved = queue.send("moved", delayed(1h));
  queue.send("later", delayed(3s));
  queue.send("sooner", delayed(2s));
  CHECK(queue.producer.reschedule(moved, {1s, {}}) == Outcome::done);
  CHECK(lateness(idle.ledger, 3, begin + 3s) < kLate);
  CHECK(idle.ledger.payloads() == std::vector<std::string>{"moved", "sooner", "later"});
}

TEST_CASE("a message is on time after the message that the watch was set for was cancelled") {
  PrivateServer own;
  Redis client(own.socket());
  Queue queue(own.url());
  Idle idle(queue, client, 3);
  const auto begin = Clock::now();
  const std::string first = queue.send("first", delayed(4s));
  queue.send("second", delayed(5s));
  CHECK(eventually([&] { return client.cmd({"EXISTS", queue.base + ":watch"}) == 1; }, kPatience));
  CHECK(queue.producer.cancel(first) == State::pending);
  CHECK(lateness(idle.ledger, 1, begin + 5s) < kLate);
  CHECK(idle.ledger.payloads() == std::vector<std::string>{"second"});
}

TEST_CASE("a message is on time that is sent as soon as the last pending one was delivered") {
  PrivateServer own;
  Redis client(own.socket());
  Queue queue(own.url());
  Idle idle(queue, client, 3);
  for (std::size_t n = 1; n <= 6; ++n) {
    const auto begin = Clock::now();
    queue.send("x", delayed(300ms));
    CHECK(lateness(idle.ledger, n, begin + 300ms) < kLate);
  }
}

TEST_CASE("a message is on time after the consumer that held the watch stopped") {
  PrivateServer own;
  Redis client(own.socket());
  Queue queue(own.url());
  Idle watching(queue, client, 1);
  const auto begin = Clock::now();
  queue.send("x", delayed(5s));
  CHECK(eventually([&] { return client.cmd({"EXISTS", queue.base + ":watch"}) == 1; }, kPatience));
  Ledger ledger;
  const auto other = queue.consumer(ledger.watch(), patient());
  other->start();
  CHECK(eventually([&] { return Idle::blocked(client) == 2; }, kPatience));
  watching.consumers.clear();
  CHECK(lateness(ledger, 1, begin + 5s) < kLate);
}

TEST_CASE("a message is on time that is sent while the consumer that is woken for it stops") {
  constexpr std::size_t kRounds = 30;
  PrivateServer own;
  Redis client(own.socket());
  Queue queue(own.url());
  for (std::size_t n = 1; n <= kRounds; ++n) {
    // Redis wakes the one that waits first.
    const Idle stops(queue, client, 1);
    Ledger ledger;
    const auto stays = queue.consumer(ledger.watch(), patient());
    stays->start();
    CHECK(eventually([&] { return Idle::blocked(client) == 2; }, kPatience));
    std::thread sender([&] { queue.send("x"); });
    std::this_thread::sleep_for(n * 20us);
    CHECK(stops.consumers.front()->stop(kPatience));
    sender.join();
    CHECK(eventually([&] { return stops.ledger.size() + ledger.size() == 1; }, kLate));
  }
}

TEST_CASE("a message is on time whose marker Redis sends to a consumer that stops at this moment") {
  // With 50 ms the consumer has also asked for messages, before there was one, and has no answer yet.
  for (const milliseconds poll : {30'000ms, 50ms}) {
    CAPTURE(poll.count());
    PrivateServer own;
    Redis client(own.socket());
    Queue queue(own.url());
    // Redis wakes the one that waits first.
    const Idle stops(queue, client, 1, patient(poll));
    Ledger ledger;
    const auto stays = queue.consumer(ledger.watch(), patient());
    stays->start();
    CHECK(eventually([&] { return Idle::blocked(client) == 2; }, kPatience));
    // Redis finds the message and the end of the connection in one step, and loses the marker.
    ::kill(own.pid(), SIGSTOP);
    std::this_thread::sleep_for(150ms);
    std::thread sender([&] { queue.send("x"); });
    std::this_thread::sleep_for(20ms);
    std::thread stopper([&] { CHECK(stops.consumers.front()->stop(kPatience)); });
    std::this_thread::sleep_for(50ms);
    ::kill(own.pid(), SIGCONT);
    sender.join();
    stopper.join();
    CHECK(eventually([&] { return stops.ledger.size() + ledger.size() == 1; }, kLate));
  }
}

TEST_CASE("the watch of a killed process ends soon after its time, and others find the message by polling") {
  PrivateServer own;
  Redis client(own.socket());
  Queue queue(own.url());
  // This consumer polls only after a minute. It holds the watch from now on, and is killed long before the message is
  // due.
  test::Process process(test::worker(queue, 1, "30000", "60000"));
  CHECK(eventually([&] { return Idle::blocked(client) == 1; }, kPatience));
  queue.send("x", delayed(10s));
  CHECK(eventually([&] { return client.cmd({"EXISTS", queue.base + ":watch"}) == 1; }, kPatience));
  process.kill(SIGKILL);
  process.wait();
  Idle idle(queue, client, 2, patient(1s));
  CHECK(idle.ledger.reaches(1));
  CHECK(eventually([&] { return client.cmd({"EXISTS", queue.base + ":watch"}) == 0; }, kPatience));
}

TEST_CASE("a message without a wake-up is delivered within poll_interval") {
  PrivateServer own;
  Redis client(own.socket());
  Queue queue(own.url());
  Idle idle(queue, client, 2, patient(1s));
  const std::string id = "0197f3a4-5b6c-7d8e-9f01-23456789abcd";
  client.cmd({"SET", queue.base + ":msg:" + id, "x"});
  client.cmd({"HSET", queue.base + ":retry:cnt", id, "3"});
  client.cmd({"ZADD", queue.base + ":pending", "1", id});
  CHECK(idle.ledger.reaches(1));
}

TEST_CASE("a message that a Go worker schedules wakes no consumer, but is on time once a poll has seen it") {
  PrivateServer own;
  Redis client(own.socket());
  Queue queue(own.url());
  Idle idle(queue, client, 2, patient(1s));
  bool watched = false;
  // On a slow machine no poll may fall into the second before the due time. Then the test tries again.
  for (std::size_t round = 1; round <= 3 && !watched; ++round) {
    const std::string id = "0197f3a4-5b6c-7d8e-9f01-23456789abc" + std::to_string(round);
    const long long due_us = test::redis_time_us(client) + 2'500'000;
    client.cmd({"SET", queue.base + ":msg:" + id, "x"});
    client.cmd({"HSET", queue.base + ":retry:cnt", id, "3"});
    client.cmd({"ZADD", queue.base + ":pending", std::to_string(due_us / 1'000'000) + ".5", id});
    const auto seen = [&] {
      watched = client.cmd({"EXISTS", queue.base + ":watch"}) == 1;
      return watched || idle.ledger.size() == round;
    };
    CHECK(eventually(seen, kPatience));
    CHECK(idle.ledger.reaches(round));
  }
  CHECK(watched);
}

TEST_CASE("a consumer whose workers are all busy passes its watch on") {
  PrivateServer own;
  Redis client(own.socket());
  Queue queue(own.url());
  test::Gate gate;
  Ledger busy;
  const auto full = queue.consumer(busy.watch(behind(gate)), patient());
  full->start();
  const auto begin = Clock::now();
  queue.send("second", delayed(5s));
  CHECK(eventually([&] { return client.cmd({"EXISTS", queue.base + ":watch"}) == 1; }, kPatience));
  queue.send("first");
  CHECK(busy.reaches(1));
  Idle idle(queue, client, 1);
  CHECK(lateness(idle.ledger, 1, begin + 5s) < kLate);
  CHECK(idle.ledger.payloads() == std::vector<std::string>{"second"});
  gate.open();
}

TEST_CASE("a message that becomes due while all workers are busy is handled as soon as one is free") {
  PrivateServer own;
  Queue queue(own.url());
  test::Gate gate;
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(behind(gate)), patient());
  consumer->start();
  queue.send("slow");
  REQUIRE(ledger.reaches(1));
  for (int i = 0; i < 3; ++i) queue.send("soon", delayed(200ms));
  std::this_thread::sleep_for(1s);  // they become due, and the consumer polls
  const auto start = Clock::now();
  gate.open();
  CHECK(ledger.settles(4));
  CHECK(Clock::now() - start < kLate);
}

TEST_CASE("an idle consumer takes messages that become due by one script, not through ready") {
  PrivateServer own;
  Redis client(own.socket());
  Queue queue(own.url());
  ConsumerOptions options = patient(10min);
  options.concurrency = 2;
  std::mutex mutex;
  std::map<EventKind, std::vector<std::string>> events;  // the ids of each kind
  options.on_event = [&](const Event& event) {
    const std::lock_guard lock(mutex);
    events[event.kind].insert(events[event.kind].end(), event.ids.begin(), event.ids.end());
  };
  Idle idle(queue, client, 1, options);
  client.cmd({"CONFIG", "RESETSTAT"});
  std::vector<std::string> ids;
  for (std::size_t n = 1; n <= 5; ++n) {
    ids.push_back(queue.send("x", delayed(100ms)));
    CHECK(idle.ledger.settles(n));
    const auto is_acked = [&] {
      const std::lock_guard lock(mutex);
      return events[EventKind::acked].size() == n;
    };
    CHECK(eventually(is_acked, kPatience));
  }
  CHECK(idle.consumers.front()->stop(kPatience));
  for (const EventKind kind : {EventKind::ready, EventKind::delivered, EventKind::acked}) {
    CAPTURE(static_cast<int>(kind));
    CHECK(events[kind] == ids);
  }
  CHECK(events.size() == 3);
  CHECK(calls_of("zremrangebyrank", client) == 5);
  CHECK(calls_of("lpush", client) == 0);  // nothing went to ready ...
  CHECK(calls_of("ltrim", client) == 0);  // ... or came from there
}

TEST_CASE("a message in ready that no marker announced is delivered when the consumer looks for due messages") {
  PrivateServer own;
  Redis client(own.socket());
  Queue queue(own.url());
  Idle idle(queue, client, 1, patient(10min));
  queue.admin.pause();
  queue.send("waiting");
  const auto looked = [&] { return client.cmd({"EXISTS", queue.base + ":wake"}) == 0 && Idle::blocked(client) == 1; };
  CHECK(eventually(looked, kPatience));  // so the consumer assumes that ready is empty
  client.cmd({"DEL", queue.base + ":paused"});
  queue.send("later", delayed(1h));
  CHECK(idle.ledger.reaches(1));
  CHECK(idle.ledger.payloads() == std::vector<std::string>{"waiting"});
}

TEST_CASE("an idle consumer sends at most five requests a second") {
  PrivateServer own;
  Redis client(own.socket());
  Queue queue(own.url());
  Idle idle(queue, client, 1, patient(1s));
  std::this_thread::sleep_for(1s);
  const std::size_t before = all_requests(client);
  const auto begin = Clock::now();
  std::this_thread::sleep_for(4s);
  const std::size_t caused = all_requests(client) - before;
  const auto seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  MESSAGE("requests a second: " << static_cast<double>(caused) / seconds);
  CHECK(static_cast<double>(caused) <= 5 * (seconds + 1));
}

}  // namespace
}  // namespace delayqueue
