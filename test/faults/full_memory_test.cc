// A Redis at its maxmemory, filled by another program: sends are refused as a whole, everything else works.
#include "support/test.h"

#include "queue/server_risks.h"
#include "store/record.h"
#include "support/answers.h"

namespace delayqueue {
namespace {

using test::Lines;
using test::World;

constexpr const char* kAdvice = "raise maxmemory, or free memory";

// Sets maxmemory to the used memory plus `room`, without the buffer of the append-only file, which Redis does not count
void limit(World& world, long long room) {
  const long long used = std::stoll(test::info("memory", "used_memory", world.admin)) -
                         std::stoll(test::info("memory", "mem_not_counted_for_evict", world.admin));
  REQUIRE(world.admin.cmd({"CONFIG", "SET", "maxmemory", std::to_string(used + room)}) == "OK");
}

// Fills the memory as another program, and lowers the limit a little more, so that changing buffers do not matter.
void use_up_memory(World& world) {
  limit(world, 1'000'000);
  int taken = 0;
  while (!world.admin.cmd({"SET", "other:" + std::to_string(taken), std::string(50'000, 'x')}).error()) ++taken;
  REQUIRE(taken > 0);
  limit(world, -300'000);
}

void empty(World& world) {
  REQUIRE(world.admin.cmd({"CONFIG", "SET", "maxmemory", "0"}) == "OK");
  world.admin.cmd({"EVAL", "for _, k in ipairs(redis.call('KEYS', 'other:*')) do redis.call('DEL', k) end", "0"});
}

std::vector<OutgoingMessage> messages(std::size_t count, const std::string& payload) {
  std::vector<OutgoingMessage> result(count, OutgoingMessage{payload, {}});
  std::vector<std::string> ids = store::new_ids(count);
  for (std::size_t i = 0; i < count; ++i) result[i].options.id = ids[i];
  return result;
}

// Whether the id is in any key, member, field or value.
bool is_anywhere(World& world, const std::string& base, const std::string& id) {
  for (const auto& [key, value] : test::snapshot(base, world.admin)) {
    if (has(key, id) || has(value, id)) return true;
  }
  return false;
}

TEST_CASE("out of memory: a refused send leaves no keys, and the same id can be sent when there is room") {
  World world;
  test::Queue queue(world.url());
  queue.send("before");
  for (const auto delay : {0ms, 60'000ms}) {
    use_up_memory(world);
    const auto before = queue.kept(world.admin);
    SendOptions options;
    options.id = store::new_ids(1).front();
    options.delay = delay;
    options.ttl = 1h;
    for (int i = 0; i < 3; ++i) {
      const std::string error = thrown([&] { queue.producer.send("x", options); });
      CHECK(has(error, "ReplyError: "));
      CHECK(has(error, "OOM"));
      CHECK(has(error, kAdvice));
    }
    CHECK(queue.kept(world.admin) == before);
    CHECK(!is_anywhere(world, queue.base, options.id));
    CHECK(queue.producer.cancel(options.id) == State::unknown);
    empty(world);
    CHECK(queue.producer.send("x", options).created());
    CHECK(queue.producer.cancel(options.id) == (delay.count() == 0 ? State::ready : State::pending));
  }
}

TEST_CASE("out of memory: a refused batch leaves no keys, and the same ids can be sent when there is room") {
  World world;
  test::Queue queue(world.url());
  queue.send("before");
  use_up_memory(world);
  const auto before = queue.kept(world.admin);
  const std::vector<OutgoingMessage> batch = messages(450, "x");
  const std::string error = thrown([&] { queue.producer.send_batch(batch); });
  CHECK(has(error, "ReplyError: "));
  CHECK(has(error, kAdvice));
  CHECK(queue.kept(world.admin) == before);
  empty(world);
  const std::vector<Sent> sent = queue.producer.send_batch(batch);
  CHECK(sent.size() == 450);
  CHECK(std::all_of(sent.begin(), sent.end(), [](const Sent& one) { return one.created(); }));
}

TEST_CASE("out of memory: consumers of a queue with limits go on, keep them, and free every place") {
  World world;
  test::Queue queue(world.url());
  QueueLimits limits;
  limits.rate = Rate{200, std::chrono::seconds(1), 20};
  limits.running = 3;
  REQUIRE(queue.admin.set_limits(limits));
  queue.producer.send_batch(std::vector<std::string>(60, "x"));
  use_up_memory(world);
  std::atomic<int> now{0}, most{0};
  const auto consumer = queue.consumer(
      [&](const Message& message) {
        const int running = ++now;
        for (int seen = most; running > seen && !most.compare_exchange_weak(seen, running);) {
        }
        std::this_thread::sleep_for(2ms);
        --now;
        return message.attempt() == 1 ? nack(0ms, "again") : ack();
      },
      quick(8));
  consumer->start();
  CHECK(eventually([&] { return queue.inspector.counts().totals.acked == 60; }, kPatience));
  CHECK(most <= 3);
  CHECK(consumer->metrics().stats.errors == 0);
  CHECK(consumer->stop());
  CHECK(world.admin.cmd({"EXISTS", queue.base + ":running", queue.base + ":unack"}) == 0);
}

TEST_CASE("out of memory: a handler can pause the queue") {
  World world;
  test::Queue queue(world.url());
  queue.send("x");
  use_up_memory(world);
  const auto consumer = queue.consumer([](const Message&) { return pause_queue(1h, "429"); }, quick(1));
  consumer->start();
  CHECK(eventually([&] { return queue.inspector.paused().has_value(); }, kPatience));
  CHECK(queue.inspector.counts().ready == 1);
  CHECK(consumer->stop());
}

TEST_CASE("out of memory: a batch that fills it is stored by whole script calls; sent again, it has no duplicates") {
  World world;
  test::Queue queue(world.url());
  queue.send("before");
  limit(world, 3'000'000);
  const std::vector<OutgoingMessage> batch =
      messages(80, std::string(100'000, 'x'));  // two messages in each script call
  CHECK(has(thrown([&] { queue.producer.send_batch(batch); }), "ReplyError: "));
  std::size_t whole = 0;
  for (std::size_t i = 0; i < batch.size(); i += 2) {
    const bool first = queue.state(batch[i].options.id) == State::ready;
    for (const std::string& id : {batch[i].options.id, batch[i + 1].options.id}) {
      CHECK(queue.state(id) == (first ? State::ready : State::unknown));
      CHECK(world.admin.cmd({"EXISTS", queue.base + ":msg:" + id}) == (first ? 1 : 0));
      CHECK(world.admin.cmd({"HEXISTS", queue.base + ":retry:cnt", id}) == (first ? 1 : 0));
    }
    whole += first ? 2 : 0;
  }
  CHECK(whole > 0);
  CHECK(whole < batch.size());
  CHECK(queue.inspector.counts().ready == whole + 1);
  empty(world);
  const std::vector<Sent> again = queue.producer.send_batch(batch);
  CHECK(std::count_if(again.begin(), again.end(), [](const Sent& one) { return !one.created(); }) ==
        static_cast<std::ptrdiff_t>(whole));
  CHECK(queue.inspector.counts().ready == batch.size() + 1);
  CHECK(queue.inspector.counts().totals.sent == batch.size() + 1);
}

TEST_CASE("out of memory: a batch with large payloads stores whole script calls; the refused ones leave no bodies") {
  World world;
  test::Queue queue(world.url());
  queue.send(std::string(10'000, 'x'));
  limit(world, 3'000'000);
  const std::vector<std::string> batch(80, std::string(100'000, 'x'));  // two messages in each script call
  const std::string error = thrown([&] { queue.producer.send_batch(batch); });
  CHECK(has(error, "ReplyError: "));
  CHECK(has(error, kAdvice));
  empty(world);
  const std::size_t ready = queue.inspector.counts().ready;
  CHECK(ready > 1);
  CHECK(ready < batch.size());
  CHECK(ready % 2 == 1);
  CHECK(world.admin.cmd({"KEYS", queue.base + ":msg:*"}).array.size() == ready);
  CHECK(queue.inspector.counts().totals.sent == ready);
  CHECK(queue.producer.send_batch(batch).size() == batch.size());
  CHECK(queue.inspector.counts().ready == ready + batch.size());
}

Verdict act_on(const Message& message) {
  if (message.payload() == "nack once") return message.attempt() == 1 ? nack(0ms, "once") : ack();
  if (message.payload() == "nack always") return nack(0ms, "always");
  if (message.payload() == "reject") return reject("no");
  if (message.payload() == "snooze") return message.attempt() == 1 ? snooze(1h) : ack();
  if (message.payload() == "throw once" && message.attempt() == 1) throw std::runtime_error("once");
  return ack();
}

TEST_CASE("out of memory: a consumer takes, acks, nacks, retries, snoozes and dead-letters, without an error") {
  World world;
  test::Queue queue(world.url());
  auto options = with(&SendOptions::retries, 2);
  for (const char* payload : {"ack", "nack once", "nack always", "reject", "snooze", "throw once"}) {
    queue.producer.send_batch(std::vector<std::string>(20, payload), options);
  }
  options.ttl = 1h;
  const std::string expired = queue.send("expired", options);
  world.admin.cmd({"DEL", queue.base + ":msg:" + expired});
  options.delay = 1s;
  queue.producer.send_batch(std::vector<std::string>(20, "later"), options);
  use_up_memory(world);
  Lines lines;
  Ledger ledger;
  ConsumerOptions consuming = test::quick(3);
  consuming.logger = lines.logger();
  const auto consumer = queue.consumer(ledger.watch(act_on), consuming, test::reporting_events());
  consumer->start();
  CHECK(eventually(
      [&] {
        const Counts counts = queue.inspector.counts();
        return counts.totals.acked == 80 && counts.dead == 40 && counts.pending == 20;
      },
      kPatience));
  CHECK(has(thrown([&] { queue.send("still full"); }), "OOM"));
  CHECK(consumer->stop(kPatience));
  const Counts counts = queue.inspector.counts();
  CHECK(counts.totals.expired == 1);
  CHECK(counts.totals.nacked == 20 + 3 * 20 + 20 + 20);  // an exception and a reject count as nack
  CHECK(counts.totals.retried == 20 + 2 * 20 + 20);
  CHECK(counts.unack + counts.ready + counts.retry == 0);
  CHECK(consumer->metrics().stats.errors == 0);
  CHECK(has(lines.find("of maxmemory"), "with noeviction"));
  // This server does not evict, but one of an earlier test of this process may have.
  const bool evicts = !is_eviction_excluded();
  CHECK_MESSAGE(lines.count() == (evicts ? 2U : 1U), lines.find(""));
  CHECK(lines.count(evicts ? Severity::warning : Severity::info, "whose bodies are gone") == 1);
  CHECK(has(lines.find("whose bodies are gone", Severity::info), expired));
  CHECK(ledger.overlaps() == 0);
}

TEST_CASE("out of memory: leases are renewed, and messages of a crashed consumer are delivered again") {
  World world;
  test::Queue queue(world.url());
  queue.producer.send_batch(numbers(3));
  Gate gate;
  Ledger ledger;
  ConsumerOptions options = test::quick(3);
  options.lease = 1s;
  const auto consumer = queue.consumer(ledger.watch([&](const Message&) {
    gate.pass();
    return ack();
  }),
                                       options);
  consumer->start();
  REQUIRE(eventually([&] { return ledger.running() == 3; }, kPatience));
  use_up_memory(world);
  std::this_thread::sleep_for(2500ms);  // longer than the lease
  CHECK(queue.inspector.counts().totals.retried == 0);
  const auto none_lost = [&] {
    const auto entries = ledger.entries();
    return std::none_of(entries.begin(), entries.end(), [](const auto& entry) { return entry.message.lease_lost(); });
  };
  CHECK(eventually(none_lost, kPatience));  // without renewals the leases stay lost
  gate.open();
  CHECK(eventually([&] { return consumer->metrics().stats.acked == 3; }, kPatience));
  CHECK(consumer->stop());

  empty(world);
  const std::string id = queue.send("left behind");
  Gate never;
  Ledger first;
  const auto hung = queue.consumer(first.watch([&](const Message&) {
    never.pass();
    return ack();
  }));
  hung->start();
  REQUIRE(first.reaches(1));
  CHECK(!hung->stop(10ms));
  test::rewind(queue.base, 1h, world.admin);
  use_up_memory(world);
  Ledger second;
  const auto next = queue.consumer(second.watch());
  next->start();
  CHECK(second.settles(1));
  CHECK(eventually([&] { return queue.inspector.counts().totals.acked == 4; }, kPatience));
  CHECK(next->stop());
  never.open();
}

TEST_CASE("out of memory: cancel, release and purge work; redrive and pause are refused and change nothing") {
  World world;
  test::Queue queue(world.url());
  const auto consumer = queue.consumer([](const Message&) { return reject("no"); });
  const std::string dead = queue.send("dead");
  queue.producer.send_batch(numbers(5));
  consumer->start();
  REQUIRE(eventually([&] { return queue.inspector.counts().dead == 6; }, kPatience));
  REQUIRE(consumer->stop());
  const auto later = delayed(1h);
  std::vector<std::string> ids;
  for (int i = 0; i < 6; ++i) ids.push_back(queue.send("later", later));
  const std::string ready = queue.send("ready");
  queue.producer.send_batch(numbers(4));
  Inspector& look = queue.inspector;
  QueueAdmin& admin = queue.admin;
  admin.resume();  // connects
  use_up_memory(world);
  CHECK(queue.producer.cancel(ids[0]) == State::pending);
  CHECK(queue.producer.cancel(ready) == State::ready);
  auto when = with(&RescheduleOptions::delay, 2h);
  CHECK(queue.producer.reschedule(ids[1], when) == Outcome::done);
  when.delay = 0ms;
  CHECK(queue.producer.reschedule(ids[2], when) == Outcome::done);
  CHECK(queue.state(ids[2]) == State::ready);
  CHECK(admin.release({ids[3]}).front() == Outcome::done);
  CHECK(queue.state(ids[3]) == State::ready);
  PauseOptions pause;
  pause.reason = "full";
  for (const auto& call : {std::function<void()>([&] { return admin.redrive({dead}); }),
                           std::function<void()>([&] { admin.pause(pause); })}) {
    const std::string error = thrown(call);
    CHECK(has(error, "ReplyError: "));
    CHECK(has(error, kAdvice));
  }
  CHECK(queue.state(dead) == State::dead);
  CHECK(!look.counts().paused);
  admin.resume();
  CHECK(look.list(State::dead).messages.size() == 6);
  CHECK(look.find(dead)->reason == "no");
  CHECK(admin.purge(State::ready) == 6);
  CHECK(admin.purge(State::pending) == 3);
  CHECK(admin.purge(State::dead, {0ms, 5}) == 5);
  CHECK(look.counts().totals.purged == 14);
  CHECK(has(thrown([&] { queue.send("still full"); }), "OOM"));
  empty(world);
  CHECK(look.list(State::dead).messages.size() == 1);
  CHECK(admin.redrive({look.list(State::dead).messages.front().id}).front() == Outcome::done);
}

TEST_CASE("full and empty again: retried sends and a consumer lose and duplicate no message") {
  World world;
  test::Queue queue(world.url());
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), test::quick(2));
  consumer->start();
  std::size_t refused = 0;
  for (int round = 0; round < 3; ++round) {
    use_up_memory(world);
    const std::vector<OutgoingMessage> batch = messages(300, "x");
    for (int i = 0; i < 3; ++i) refused += thrown([&] { queue.producer.send_batch(batch); }) != "nothing";
    empty(world);
    CHECK(queue.producer.send_batch(batch).size() == 300);
    // Otherwise messages that are being handled would make room in the next round.
    CHECK(eventually([&] { return queue.empty(world.admin); }, kPatience));
  }
  CHECK(refused == 9);
  CHECK(ledger.size() == 900);
  CHECK(ledger.different() == 900);
  CHECK(consumer->stop());
}

}  // namespace
}  // namespace delayqueue
