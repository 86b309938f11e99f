// The partitions of a queue in a consumer: each is served by a separate lane.
#include "support/test.h"

#include "consumer/handlers.h"
#include "consumer/served_queue.h"
#include "consumer/wakeups.h"
#include "queue/endpoint.h"
#include "redis/connection.h"
#include "redis/pipeline.h"
#include "store/keys.h"
#include "store/layout.h"
#include "store/moves.h"
#include "support/proxy.h"

namespace delayqueue {
namespace {

using test::calls_of;
using test::redis;

store::Keys keys_in(const Queue& queue, unsigned partition) { return store::make_keys(queue.name, {}, partition); }

// Sends as a program does that knows of the partitions.
class LaneSender {
 public:
  explicit LaneSender(const Queue& queue) : queue_(queue) {}

  // Sends a message to a partition. It does not forward the marker: a consumer finds the message when it looks.
  std::string send_silently(unsigned partition, const std::string& payload, milliseconds delay = 0ms, int retries = 3) {
    const std::string id = store::new_ids(1).front();
    redis::Pipeline pipeline(connection_);
    const store::Moves moves(keys_in(queue_, partition));
    store::SendTerms terms;
    terms.due.delay = delay;
    terms.retries = retries;
    const auto sent = moves.send(pipeline, {{id, payload}}, terms);
    const auto marker = moves.take_marker(pipeline);
    pipeline.run();
    sent.get();
    due_ = marker.get().value_or("");
    return id;
  }

  std::string send(unsigned partition, const std::string& payload, milliseconds delay = 0ms) {
    std::string id = send_silently(partition, payload, delay);
    if (due_.empty()) return id;
    redis::Pipeline pipeline(connection_);
    store::Moves(keys_in(queue_, 0)).wake_for(pipeline, partition, due_);
    pipeline.run();
    return id;
  }

 private:
  static redis::Address address() {
    redis::Address to;
    to.path = test::server().socket();
    return to;
  }

  const Queue& queue_;
  redis::Connection connection_{address(), {{}, {}, "lane_sender", 0}, {}};
  std::string due_;
};

// How many partitions of the queue have the whole layout.
std::size_t copies(const Queue& queue, unsigned partitions, const std::string& top) {
  std::size_t count = 0;
  for (unsigned partition = 0; partition < partitions; ++partition) {
    if (redis().cmd({"HGET", keys_in(queue, partition).settings, "top"}) == top) ++count;
  }
  return count;
}

ConsumerOptions seldom_polling() {
  ConsumerOptions options = quick(2);
  options.tuning.poll_interval = 1h;
  return options;
}

TEST_CASE("lanes: consumers serve the partitions 0 to top - 1 for ever, also those that nothing is sent to any more") {
  Queue queue;
  queue.admin.set_partitions(8);
  queue.admin.set_partitions(2);
  LaneSender sender(queue);
  std::set<std::string> sent;
  for (unsigned partition = 0; partition < 8; ++partition) sent.insert(sender.send_silently(partition, "x"));
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  REQUIRE(ledger.settles(8));
  std::set<std::string> delivered;
  for (const Ledger::Entry& entry : ledger.entries()) delivered.insert(entry.message.id());
  CHECK(delivered == sent);
  CHECK(eventually([&] { return consumer->metrics().stats.acked == 8; }, kPatience));
  CHECK(consumer->metrics().stats.connects == 1);
  CHECK(consumer->metrics().stats.errors == 0);
  CHECK(eventually([&] { return consumer->metrics().stats.connected; }, kPatience));
}

TEST_CASE("lanes: partitions that a queue gets while a consumer runs are served without a restart") {
  Queue queue;
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  queue.send("before");
  REQUIRE(ledger.settles(1));
  for (const unsigned partitions : {2U, 16U}) {
    queue.admin.set_partitions(partitions);
    LaneSender(queue).send_silently(partitions - 1, "x");
    CHECK(ledger.settles(partitions == 2 ? 2 : 3));
  }
}

TEST_CASE("lanes: a marker of a partition that the consumer does not know makes it read the layout at once") {
  Queue queue;
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), seldom_polling());
  consumer->start();
  queue.send("before");
  REQUIRE(ledger.settles(1));
  queue.admin.set_partitions(4);
  LaneSender(queue).send(3, "x");
  CHECK(ledger.settles(2));
}

TEST_CASE("lanes: readers merge the copies, and write back where one is behind: a flush strands nothing") {
  Queue queue;
  queue.admin.set_partitions(4);
  LaneSender sender(queue);
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  CHECK(eventually([&] { return copies(queue, 4, "4") == 4; }, kPatience));  // copied as they are used
  for (const unsigned lost : {0U, 1U, 3U}) redis().cmd({"DEL", keys_in(queue, lost).settings});
  CHECK(eventually([&] { return copies(queue, 4, "4") == 4; }, kPatience));
  sender.send_silently(3, "x");
  CHECK(ledger.settles(1));
}

TEST_CASE("lanes: a consumer starts without the copy of partition 0 if that of partition 1 tells") {
  Queue queue;
  queue.admin.set_partitions(4);
  LaneSender(queue).send_silently(3, "x");
  redis().cmd({"DEL", keys_in(queue, 0).settings});
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  CHECK(ledger.settles(1));
  CHECK(eventually([&] { return copies(queue, 4, "4") == 4; }, kPatience));
}

TEST_CASE("lanes: a queue without partitions gets no layout and no other keys") {
  Queue queue;
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  for (std::size_t i = 1; i <= 5; ++i) {
    queue.send("x");
    REQUIRE(ledger.settles(i));
    std::this_thread::sleep_for(60ms);  // the layout is read once in ten polls of 20 ms
  }
  CHECK(redis().cmd({"EXISTS", keys_in(queue, 0).settings, keys_in(queue, 1).settings}) == 0);
}

TEST_CASE("lanes: a member of `wakes` wakes one idle consumer for its partition, at once and at the due time") {
  Queue queue;
  queue.admin.set_partitions(4);
  LaneSender sender(queue);
  Ledger ledger;
  std::vector<test::ConsumerPtr> consumers;
  for (int i = 0; i < 3; ++i) {
    consumers.push_back(queue.consumer(ledger.watch(), seldom_polling()));
    consumers.back()->start();
  }
  REQUIRE(eventually([] { return test::info("clients", "blocked_clients") == "3"; }, kPatience));
  sender.send(2, "now");
  REQUIRE(ledger.settles(1));
  sender.send(3, "soon", 200ms);
  CHECK(ledger.settles(2));
  sender.send(1, "again");
  CHECK(ledger.settles(3));
  CHECK(redis().cmd({"EXISTS", keys_in(queue, 0).wakes}) == 0);
}

TEST_CASE("lanes: the markers of partitions are in `wakes`, where older consumers do not swallow them") {
  Queue queue;
  queue.admin.set_partitions(2);
  LaneSender(queue).send(1, "x");
  CHECK(redis().cmd({"ZRANGE", keys_in(queue, 0).wakes, "0", "-1"}).strings() == std::vector<std::string>{"1"});
  CHECK(redis().cmd({"EXISTS", keys_in(queue, 0).wake}) == 0);
}

TEST_CASE("lanes: who runs a move that may mark an upper partition takes the marker from there, and forwards it") {
  Queue queue;
  queue.admin.set_partitions(2);
  LaneSender sender(queue);
  Ledger ledger;
  const auto stops = queue.consumer(ledger.watch(), seldom_polling());
  stops->start();
  REQUIRE(eventually([] { return test::info("clients", "blocked_clients") == "1"; }, kPatience));
  sender.send(1, "watched", 1h);  // the consumer keeps the watch for it
  REQUIRE(eventually([&] { return redis().cmd({"EXISTS", keys_in(queue, 1).watch}) == 1; }, kPatience));
  CHECK(stops->stop(kPatience));
  CHECK(redis().cmd({"EXISTS", keys_in(queue, 1).watch, keys_in(queue, 1).wake}) == 0);
  CHECK(redis().cmd({"ZRANGE", keys_in(queue, 0).wakes, "0", "-1"}).strings() == std::vector<std::string>{"1"});
}

TEST_CASE("lanes: of the markers for a partition one remains until partition 0 gets it, however long that is away") {
  const std::atomic<bool> stopping{false};
  Handlers handlers(nullptr, [] {}, stopping, false, {});
  ServedQueue queue("redis://127.0.0.1:1", {"orders", Handler(test::ack_all)}, {}, "the consumer", handlers);
  queue.add_marker(2, "1800000000");
  queue.add_marker(3, "1800000000");
  queue.add_marker(3, "1800000000");
  CHECK(queue.markers == std::map<unsigned, std::string>{{2, "1800000000"}, {3, "1800000000"}});
  for (int due = 0; due < 1000; ++due) queue.add_marker(3, std::to_string(1'800'000'001 + due));
  CHECK(queue.markers == std::map<unsigned, std::string>{{2, "1800000000"}, {3, "0"}});
}

TEST_CASE("lanes: a member of `wakes` that is no partition is removed, and wakes for partitions go on") {
  Queue queue;
  queue.admin.set_partitions(2);
  LaneSender sender(queue);
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), seldom_polling());
  consumer->start();
  REQUIRE(eventually([] { return test::info("clients", "blocked_clients") == "1"; }, kPatience));
  redis().cmd({"ZADD", keys_in(queue, 0).wakes, "1", "0", "2", "256", "3", "-1", "4", "1x", "5", ""});
  CHECK(eventually([&] { return redis().cmd({"EXISTS", keys_in(queue, 0).wakes}) == 0; }, kPatience));
  sender.send(1, "x");
  CHECK(ledger.settles(1));
}

TEST_CASE("lanes: the message of a marker that is removed with what another program wrote is found") {
  Queue queue;
  queue.admin.set_partitions(2);
  LaneSender sender(queue);
  test::FaultProxy proxy(test::server().socket());
  proxy.delay(20ms);  // for the marker, between the end of the wait and the removal
  Ledger ledger;
  Consumer consumer(proxy.url(), queue.name, ledger.watch(), seldom_polling());
  consumer.start();
  std::size_t sent = 0;
  for (const bool of_partitions : {true, false}) {
    CAPTURE(of_partitions);
    const std::string key = of_partitions ? keys_in(queue, 0).wakes : keys_in(queue, 0).wake;
    for (int i = 0; i < 10; ++i) {
      CAPTURE(i);
      REQUIRE(eventually([] { return test::info("clients", "blocked_clients") == "1"; }, kPatience));
      redis().cmd({"ZADD", key, "0", "no marker"});
      REQUIRE(eventually([&] { return redis().cmd({"EXISTS", key}) == 0; }, kPatience));
      of_partitions ? sender.send(1, "x") : sender.send(0, "x");
      REQUIRE(ledger.settles(++sent));
    }
  }
  CHECK(consumer.stop());
}

TEST_CASE("lanes: one wait receives the markers of all partitions") {
  Queue queue;
  const std::string& wakes = keys_in(queue, 0).wakes;
  Endpoint endpoint(test::server().url(), queue.name, {}, {});
  WakeupListener listener(endpoint, 1min, nullptr);
  std::vector<std::string> add = {"ZADD", wakes};
  for (unsigned partition = 1; partition < store::kMostPartitions; ++partition) {
    add.insert(add.end(), {partition == 1 ? "1800000000.5" : "0", std::to_string(partition)});
  }
  redis().cmd(add);
  listener.begin({keys_in(queue, 0).wake, wakes}, true, {wakes});
  std::set<std::string> members;
  REQUIRE(eventually(
      [&] {
        while (const auto marker = listener.read()) {
          CHECK(marker->key == wakes);
          CHECK(marker->ready == (marker->member != "1"));
          members.insert(marker->member);
        }
        return listener.fd() < 0;
      },
      kPatience));
  CHECK(members.size() == store::kMostPartitions - 1);
}

TEST_CASE("lanes: markers of some partitions delay those of no other, at any number") {
  Queue queue;
  queue.admin.set_partitions(32);
  test::FaultProxy proxy(test::server().socket(), test::FaultProxy::Via::unix_socket);
  proxy.delay(2ms);
  Ledger ledger;
  ConsumerOptions options = seldom_polling();
  const test::ConsumerPtr consumer(new Consumer(proxy.url(), queue.name, ledger.watch(), options));
  consumer->start();
  REQUIRE(eventually([] { return test::info("clients", "blocked_clients") == "1"; }, kPatience));
  // Faster than the consumer asks for the next marker. In the order of their text "1" and "10" are before "9".
  std::atomic<bool> stops{false};
  std::thread busy([&] {
    LaneSender sender(queue);
    for (unsigned i = 0; !stops; ++i) sender.send(i % 2 == 0 ? 1 : 10, "busy");
  });
  LaneSender sender(queue);
  std::size_t sent = 0;
  for (const unsigned partition : {9, 31, 2}) {
    sender.send(partition, "quiet");
    ++sent;
    CHECK(eventually([&] { return ledger.attempts("quiet").size() == sent; }, 20s));
  }
  stops = true;
  busy.join();
}

TEST_CASE("lanes: while wake-ups work an upper partition is polled every 10 poll_intervals, else every one") {
  Queue queue;
  queue.admin.set_partitions(2);
  LaneSender sender(queue);
  Ledger ledger;
  ConsumerOptions options = quick();
  options.tuning.poll_interval = 100ms;
  const auto consumer = queue.consumer(ledger.watch(), options);
  consumer->start();
  const auto lateness = [&](std::size_t deliveries) {
    const auto sent = std::chrono::steady_clock::now();
    sender.send_silently(1, "x");
    REQUIRE(ledger.settles(deliveries));
    return std::chrono::steady_clock::now() - sent;
  };
  REQUIRE(eventually([] { return test::info("clients", "blocked_clients") == "1"; }, kPatience));
  std::this_thread::sleep_for(300ms);
  redis().cmd({"CONFIG", "RESETSTAT"});
  std::this_thread::sleep_for(2s);
  const std::size_t seldom = calls_of("evalsha");  // 20 polls of partition 0, and 2 of partition 1
  lateness(1);
  redis().cmd({"SET", keys_in(queue, 0).wakes, "of another type"});
  redis().cmd({"SET", keys_in(queue, 0).wake, "of another type"});
  CHECK(eventually([] { return test::info("clients", "blocked_clients") == "0"; }, kPatience));
  std::this_thread::sleep_for(300ms);
  redis().cmd({"CONFIG", "RESETSTAT"});
  std::this_thread::sleep_for(2s);
  const std::size_t often = calls_of("evalsha");  // 20 of each
  CHECK(4 * often > 5 * seldom);
  CHECK(lateness(2) < 5s);
}

bool is_paused(const Queue& queue, unsigned partition) {
  return redis().cmd({"EXISTS", keys_in(queue, partition).paused}) == 1;
}

// As if the partition had been away when the queue was paused.
void lose_pause(const Queue& queue, unsigned partition) {
  redis().cmd({"DEL", keys_in(queue, partition).paused});
  redis().cmd({"HDEL", keys_in(queue, partition).settings, "pause"});
}

TEST_CASE("lanes: a consumer copies home's pause before its first take, so growth cannot open a paused queue") {
  Queue queue;
  queue.admin.pause();
  queue.admin.set_partitions(4);
  LaneSender sender(queue);
  for (unsigned partition = 0; partition < 4; ++partition) sender.send_silently(partition, "x");
  for (unsigned partition = 1; partition < 4; ++partition) lose_pause(queue, partition);
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  for (unsigned partition = 1; partition < 4; ++partition) {
    CHECK(eventually([&] { return is_paused(queue, partition); }, kPatience));
  }
  std::this_thread::sleep_for(300ms);  // 15 polls
  CHECK(ledger.size() == 0);
  queue.admin.resume();
  CHECK(ledger.settles(4));
  queue.admin.pause();
  lose_pause(queue, 3);
  CHECK(eventually([&] { return is_paused(queue, 3); }, kPatience));
  sender.send_silently(3, "y");
  std::this_thread::sleep_for(300ms);
  CHECK(ledger.size() == 4);
  CHECK(queue.inspector.paused());
}

TEST_CASE("lanes: a consumer copies home's pause to a lane that is behind, so an absent master cannot open the queue") {
  Queue queue;
  queue.admin.set_partitions(2);
  queue.admin.pause();
  lose_pause(queue, 1);
  redis().cmd({"HSET", keys_in(queue, 1).settings, "pause", "7"});
  LaneSender(queue).send_silently(1, "x");
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  CHECK(eventually([&] { return is_paused(queue, 1); }, kPatience));
  CHECK(redis().cmd({"HGET", keys_in(queue, 1).settings, "pause"}).text ==
        redis().cmd({"HGET", keys_in(queue, 0).settings, "pause"}).text);
  std::this_thread::sleep_for(300ms);
  CHECK(ledger.size() == 0);
  queue.admin.resume();
  CHECK(ledger.settles(1));
}

TEST_CASE("lanes: a pause by a program that knows no partitions holds for partition 0 only, and ends there") {
  for (const bool paused_before : {false, true}) {
    CAPTURE(paused_before);
    Queue queue;
    queue.admin.set_partitions(2);
    if (paused_before) {
      queue.admin.pause();
      queue.admin.resume();
    }
    LaneSender sender(queue);
    redis().cmd({"SET", keys_in(queue, 0).paused, ""});
    Ledger ledger;
    const auto consumer = queue.consumer(ledger.watch());
    consumer->start();
    sender.send_silently(0, "home");
    sender.send_silently(1, "away");
    CHECK(eventually([&] { return ledger.size() == 1; }, kPatience));
    std::this_thread::sleep_for(300ms);  // 15 polls
    CHECK(ledger.size() == 1);
    redis().cmd({"DEL", keys_in(queue, 0).paused});
    CHECK(ledger.settles(2));
    CHECK_FALSE(is_paused(queue, 1));
  }
}

TEST_CASE("lanes: a copied pause ends when it ends at home") {
  Queue queue;
  queue.admin.set_partitions(2);
  PauseOptions options;
  options.duration = 3s;
  queue.admin.pause(options);
  lose_pause(queue, 1);
  LaneSender(queue).send_silently(1, "x");
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  CHECK(eventually([&] { return is_paused(queue, 1); }, kPatience));
  const long long left = redis().cmd({"PTTL", keys_in(queue, 1).paused}).integer;
  CHECK(left > 0);
  CHECK(left <= 3000);
  CHECK(ledger.settles(1));
}

// Sends a message as if a process had died with it.
void send_poison(const Queue& queue, unsigned partition, const std::string& payload) {
  const std::string ended = std::to_string(test::redis_time_us() / 1'000'000 - 10) + ".0000005";
  const std::string id = LaneSender(queue).send_silently(partition, payload);
  redis().cmd({"LREM", keys_in(queue, partition).ready, "0", id});
  redis().cmd({"ZADD", keys_in(queue, partition).unack, ended, id});
}

TEST_CASE("lanes: the permit to run a possible poison message is passed round the partitions") {
  Queue queue;
  queue.admin.set_partitions(2);
  for (int i = 0; i < 10; ++i) {
    for (const unsigned partition : {0U, 1U}) send_poison(queue, partition, std::to_string(partition));
  }
  Ledger ledger;
  ConsumerOptions options = quick(2);
  options.lease = 1min;
  const auto consumer = queue.consumer(ledger.watch(), options);
  consumer->start();
  REQUIRE(ledger.settles(20));
  const std::vector<std::string> payloads = ledger.payloads();
  const auto early = std::count(payloads.begin(), payloads.begin() + 10, "1");
  CHECK(early >= 2);  // fair: 5
  CHECK(early <= 8);
}

TEST_CASE("lanes: one possible poison message runs at a time, in all partitions together") {
  Queue queue;
  queue.admin.set_partitions(8);
  for (unsigned partition = 0; partition < 8; ++partition) send_poison(queue, partition, "poison");
  Gate gate;
  Ledger ledger;
  ConsumerOptions options = quick(8);
  options.lease = 1min;
  const auto consumer = queue.consumer(ledger.watch([&](const Message&) {
    gate.pass();
    return ack();
  }),
                                       options);
  consumer->start();
  REQUIRE(ledger.reaches(1));
  std::this_thread::sleep_for(500ms);  // 25 polls
  CHECK(ledger.running() == 1);
  gate.open();
  CHECK(ledger.settles(8));
  CHECK(ledger.most_running() == 1);
}

TEST_CASE("lanes: the concurrency of a queue holds for all its partitions together, which take turns") {
  Queue queue, other;
  queue.admin.set_partitions(8);
  LaneSender sender(queue);
  for (int i = 0; i < 20; ++i) {
    for (unsigned partition = 0; partition < 8; ++partition) {
      sender.send_silently(partition, std::to_string(partition));
    }
  }
  Gate gate;
  Ledger ledger, of_other;
  SubscriptionOptions three;
  three.concurrency = 3;
  ConsumerOptions options = quick(6);
  options.tuning.prefetch = 0;
  const auto handler = [&](const Message&) {
    gate.pass();
    return ack();
  };
  Consumer consumer(queue.url, {{queue.name, ledger.watch(handler), three}, {other.name, of_other.watch()}}, options);
  consumer.start();
  REQUIRE(ledger.reaches(3));
  for (int i = 0; i < 10; ++i) other.send("x");
  CHECK(of_other.settles(10));
  CHECK(ledger.running() == 3);
  const std::size_t held = [&] {
    std::size_t count = 0;
    for (unsigned partition = 0; partition < 8; ++partition) {
      count += static_cast<std::size_t>(redis().cmd({"ZCARD", keys_in(queue, partition).unack}).integer);
    }
    return count;
  }();
  CHECK(held <= 4);  // nothing is taken that no handler can begin, but for one while others wait
  gate.open();
  REQUIRE(ledger.settles(160));
  CHECK(ledger.most_running() <= 3);
  const std::vector<std::string> payloads = ledger.payloads();
  for (unsigned partition = 0; partition < 8; ++partition) {
    const auto early = std::count(payloads.begin(), payloads.begin() + 80, std::to_string(partition));
    CHECK(early >= 3);  // fair: 10
    CHECK(early <= 20);
  }
}

TEST_CASE("lanes: the messages of a partition are handled in the order of their due times, not of their sends") {
  constexpr unsigned kPartitions = 4;
  constexpr int kEach = 20;
  Queue queue;
  queue.admin.set_partitions(kPartitions);
  LaneSender sender(queue);
  for (int i = 0; i < kEach; ++i) {
    const milliseconds delay = 7 * i % kEach * 1min;
    for (unsigned partition = 0; partition < kPartitions; ++partition) {
      sender.send_silently(partition, std::to_string(partition), delay);
    }
  }
  std::map<std::string, std::vector<std::string>> due, handled;  // by partition
  for (unsigned partition = 0; partition < kPartitions; ++partition) {
    const store::Keys keys = keys_in(queue, partition);
    std::vector<std::string>& order = due[std::to_string(partition)];
    order = redis().cmd({"LRANGE", keys.ready, "0", "-1"}).strings();
    std::reverse(order.begin(), order.end());  // taken from the right
    for (const std::string& id : redis().cmd({"ZRANGE", keys.pending, "0", "-1"}).strings()) order.push_back(id);
    REQUIRE(order.size() == kEach);
    test::rewind(keys.base, 1h);  // a take has many messages
  }
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  REQUIRE(ledger.settles(kPartitions * kEach));
  for (const Ledger::Entry& entry : ledger.entries()) {
    handled[entry.message.payload()].push_back(entry.message.id());
  }
  CHECK((handled == due));
}

TEST_CASE("lanes: NOPERM on a partition above 0 is that partition unavailable and a warning") {
  Queue queue;
  queue.admin.set_partitions(2);
  LaneSender sender(queue);
  redis().cmd({"ACL", "SETUSER", "home-only", "on", ">secret", "~" + queue.base + ":*", "~dp:queues", "&*", "+@all"});
  std::mutex mutex;
  std::vector<std::string> lines;
  ConsumerOptions options = quick();
  options.logger = [&](const LogEntry& entry) {
    const std::lock_guard lock(mutex);
    if (entry.severity == Severity::warning) lines.push_back(entry.line);
  };
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), options, test::logged_in_as("home-only", "secret"));
  consumer->start();
  sender.send_silently(1, "upper");
  sender.send_silently(0, "home");
  CHECK(ledger.settles(1));
  CHECK(eventually([&] {
    const std::lock_guard lock(mutex);
    return std::any_of(lines.begin(), lines.end(),
                       [](const std::string& line) { return has(line, "partition 1: ") && has(line, "NOPERM"); });
  }));
  CHECK_FALSE(consumer->metrics().stats.connected);
  redis().cmd({"CONFIG", "RESETSTAT"});
  std::this_thread::sleep_for(1s);
  CHECK(calls_of("bzpopmin") < 5);  // it waits for seconds, not for 100 ms
  for (std::size_t i = 2; i <= 50; ++i) {
    sender.send_silently(0, "home");
    REQUIRE(ledger.settles(i));
  }
  redis().cmd({"ACL", "SETUSER", "home-only", "allkeys"});
  CHECK(ledger.settles(51));
  CHECK(eventually([&] { return consumer->metrics().stats.connected; }, kPatience));
}

TEST_CASE("lanes: stop() releases and drains every partition, and its watches are left") {
  Queue queue;
  queue.admin.set_partitions(4);
  LaneSender sender(queue);
  for (int i = 0; i < 50; ++i) {
    for (unsigned partition = 0; partition < 4; ++partition) sender.send_silently(partition, "x");
  }
  Gate gate;
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch([&](const Message&) {
    gate.pass();
    return ack();
  }),
                                       quick(4));
  consumer->start();
  REQUIRE(ledger.reaches(4));
  std::thread opens([&] {
    std::this_thread::sleep_for(50ms);
    gate.open();
  });
  CHECK(consumer->stop(kPatience));
  opens.join();
  long long left = 0;
  for (unsigned partition = 0; partition < 4; ++partition) {
    const store::Keys keys = keys_in(queue, partition);
    CHECK(redis().cmd({"EXISTS", keys.unack, keys.watch, keys.retry}) == 0);
    left += redis().cmd({"LLEN", keys.ready}).integer;
  }
  CHECK(left + static_cast<long long>(ledger.size()) == 200);
}

}  // namespace
}  // namespace delayqueue
