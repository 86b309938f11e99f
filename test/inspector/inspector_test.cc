#include "support/test.h"

#include <cctype>

namespace delayqueue {
namespace {

using std::chrono::system_clock;
using test::redis;

// Makes `count` dead letters with the payloads "0", "1" ... in the order of their deaths.
std::vector<std::string> make_dead_letters(Queue& queue, std::size_t count) {
  std::vector<std::string> payloads, ids;
  for (std::size_t i = 0; i < count; ++i) payloads.push_back(std::to_string(i));
  for (const Sent& sent : queue.producer.send_batch(payloads)) ids.push_back(sent.id);
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch([](const Message&) { return reject("no such order"); }));
  consumer->start();
  REQUIRE(ledger.settles(count));
  REQUIRE(consumer->stop());
  return ids;
}

TEST_CASE("Inspector and QueueAdmin: an invalid argument throws with its name and value") {
  Queue queue;
  Inspector& inspector = queue.inspector;
  QueueAdmin& admin = queue.admin;
  const auto listing = [&](std::size_t limit, const std::string& cursor) {
    ListOptions options;
    options.limit = limit;
    options.cursor = cursor;
    return inspector.list(State::dead, options);
  };
  const auto old = with(&PurgeOptions::older_than, 1h);
  const auto negative = with(&PurgeOptions::older_than, -1ms);
  const std::pair<std::function<void()>, std::string> rows[] = {
      {[&] { return listing(0, ""); }, "limit: 0"},
      {[&] { return listing(1001, ""); }, "limit: 1001"},
      {[&] { return listing(20, "x"); }, "cursor: \"x\""},
      {[&] { return listing(20, "-5"); }, "cursor: \"-5\""},
      {[&] { return listing(20, "12 "); }, "cursor: \"12 \""},
      {[&] { return listing(20, "99999999999999999999"); }, "cursor: \"99999999999999999999\""},
      {[&] { return inspector.list(State::unknown); }, "state: unknown"},
      {[&] { return inspector.find("x"); }, "id: \"x\""},
      {[&] { return inspector.find(""); }, "id: \"\""},
      {[&] { return admin.redrive({"x"}); }, "id: \"x\""},
      {[&] { return admin.redrive({kId}, {-1}); }, "retries: -1"},
      {[&] { return admin.release({"x"}); }, "id: \"x\""},
      {[&] { admin.purge(State::unack); }, "state: unack"},
      {[&] { admin.purge(State::unknown); }, "state: unknown"},
      {[&] { admin.purge(State::ready, old); }, "older_than: "},
      {[&] { admin.purge(State::retry, old); }, "older_than: "},
      {[&] { admin.purge(State::dead, negative); }, "older_than: -1 ms"},
      {[&] {
         admin.pause({-1ms, ""});
       },
       "duration: -1 ms"},
  };
  for (const auto& [call, expected] : rows) {
    const std::string error = thrown(call);
    CAPTURE(error);
    CHECK(has(error, "invalid_argument: " + expected));
  }
  CHECK(queue.kept().empty());
}

TEST_CASE("counts: an unused queue has only zeros, and is not registered by the call") {
  Queue queue;
  const Counts counts = queue.inspector.counts();
  CHECK(counts.pending + counts.ready + counts.unack + counts.retry + counts.dead + counts.garbage == 0);
  CHECK(counts.due + counts.overdue == 0);
  CHECK(!counts.oldest_due);
  CHECK(!counts.oldest_lease);
  CHECK(!counts.paused);
  CHECK(counts.totals.sent == 0);
  CHECK(counts.now > system_clock::time_point());
  CHECK(queue.kept().empty());
}

TEST_CASE("counts: the size of every state, what is due and overdue, and the oldest of each") {
  Queue queue;
  make_dead_letters(queue, 2);
  queue.send("late", delayed(1h));
  test::rewind(queue.base, 2h);
  queue.send("pending", delayed(1h));
  for (int i = 0; i < 3; ++i) queue.send("ready");
  Counts counts = queue.inspector.counts();
  CHECK(counts.pending == 2);
  CHECK(counts.due == 1);
  CHECK(counts.ready == 3);
  CHECK(counts.unack == 0);
  CHECK(counts.dead == 2);
  REQUIRE(counts.oldest_due);
  CHECK(*counts.oldest_due < counts.now - 50min);
  CHECK(*counts.oldest_due > counts.now - 70min);

  CHECK(queue.producer.cancel(queue.inspector.list(State::pending).messages.at(0).id) == State::pending);
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch([](const Message&) { return nack(1h, "later"); }));
  consumer->start();
  REQUIRE(ledger.settles(3));
  REQUIRE(consumer->stop());
  counts = queue.inspector.counts();
  CHECK(counts.unack == 3);
  CHECK(counts.overdue == 0);
  REQUIRE(counts.oldest_lease);
  CHECK(*counts.oldest_lease > counts.now);
  test::rewind(queue.base, 3h);
  counts = queue.inspector.counts();
  CHECK(counts.overdue == 3);
  CHECK(*counts.oldest_lease < counts.now);
  const Totals totals = counts.totals;
  CHECK(totals.sent == 7);
  CHECK(totals.delivered == 5);
  CHECK(totals.nacked == 5);
  CHECK(totals.dead_lettered == 2);
  CHECK(totals.cancelled == 1);
  CHECK(totals.acked + totals.retried + totals.expired + totals.redriven + totals.purged == 0);
}

TEST_CASE("find: returns all fields of a message, in each state") {
  Queue queue;
  CHECK(!queue.inspector.find(kId));

  const auto before = system_clock::now();
  const std::string pending = queue.send("later", delayed(1h));
  const MessageInfo waits = *queue.inspector.find(pending);
  CHECK(waits.id == pending);
  CHECK(waits.state == State::pending);
  CHECK(*waits.sent >= before - 1ms);
  CHECK(*waits.sent <= system_clock::now());
  CHECK(waits.retries == 3);
  CHECK(waits.deliveries == 0);
  CHECK(waits.size == 5);
  CHECK(waits.payload == "later");
  CHECK(!waits.held);

  Gate gate;
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch([&](const Message&) {
    gate.pass();
    return nack(1h, "why");
  }));
  consumer->start();
  const std::string id = queue.send("x");
  REQUIRE(ledger.reaches(1));
  const MessageInfo held = *queue.inspector.find(id);
  CHECK(held.state == State::unack);
  CHECK(held.held);
  CHECK(held.deliveries == 1);
  CHECK(*held.at > queue.inspector.counts().now);
  gate.open();
  CHECK(consumer->stop());
  const MessageInfo backoff = *queue.inspector.find(id);
  CHECK(backoff.state == State::unack);
  CHECK(!backoff.held);
  CHECK(backoff.reason == "why");

  CHECK(!backoff.waits_since);
  redis().cmd({"ZADD", queue.base + ":unack", "1000", id});  // its backoff has ended
  redis().cmd({"SET", queue.base + ":paused", ""});
  const auto other = queue.consumer([](const Message&) { return ack(); });
  other->start();
  REQUIRE(eventually([&] { return queue.inspector.counts().retry == 1; }));
  CHECK(other->stop());
  for (const MessageInfo& waiting : {*queue.inspector.find(id), queue.inspector.list(State::retry).messages.front()}) {
    CHECK(waiting.state == State::retry);
    CHECK(waiting.waits_since == system_clock::time_point(1000s));
  }
  redis().cmd({"DEL", queue.base + ":paused"});
  CHECK(queue.admin.cancel({id}).front() == State::retry);

  const std::string dead = make_dead_letters(queue, 1).front();
  const MessageInfo dead_info = *queue.inspector.find(dead);
  CHECK(dead_info.state == State::dead);
  CHECK(*dead_info.at <= queue.inspector.counts().now);
  CHECK(dead_info.reason == "no such order");
  CHECK(!dead_info.retries);

  const std::string upper = [&] {
    std::string text = dead;
    std::transform(text.begin(), text.end(), text.begin(), [](char c) { return static_cast<char>(std::toupper(c)); });
    return text;
  }();
  CHECK(queue.inspector.find(upper)->id == dead);

  SendOptions mine;
  mine.id = "12345678-abcd-4ef0-8123-456789abcdef";  // no UUIDv7: it contains no time
  queue.send("x", mine);
  CHECK(!queue.inspector.find(mine.id)->sent);
}

TEST_CASE("find and list: a message has its headers; damaged ones are told from none") {
  Queue queue;
  const auto options = with(&SendOptions::headers, {{"k", std::string("\0\xff", 2)}, {"empty", ""}});
  const std::string with = queue.send("x", options), without = queue.send("y"), damaged = queue.send("z", options);
  redis().cmd({"HSET", queue.base + ":headers", damaged, "no headers"});
  const auto check = [&](const MessageInfo& message) {
    CHECK((message.headers == (message.id == with ? options.headers : Headers())));
    CHECK(message.headers_damaged == (message.id == damaged));
  };
  for (const std::string& id : {with, without, damaged}) check(*queue.inspector.find(id));
  const MessagePage page = queue.inspector.list(State::ready);
  CHECK(page.size() == 3);
  for (const MessageInfo& message : page) check(message);
  redis().cmd({"DEL", queue.base + ":headers"});
  redis().cmd({"SET", queue.base + ":headers", "of another program"});
  CHECK(queue.inspector.find(with)->headers.empty());
}

TEST_CASE("list: a page of a thousand messages has the headers of each") {
  Queue queue;
  std::vector<OutgoingMessage> messages;
  for (int i = 0; i < 1000; ++i) {
    messages.push_back({std::to_string(i), {}});
    if (i % 3 == 0) messages.back().options.headers.set("n", std::to_string(i));
  }
  queue.producer.send_batch(messages);
  const MessagePage page = queue.inspector.list(State::ready, with(&ListOptions::limit, 1000));
  REQUIRE(page.size() == 1000);
  for (const MessageInfo& message : page) {
    const std::string* const n = message.headers.find("n");
    CHECK((n == nullptr ? std::stoi(message.payload) % 3 != 0 : *n == message.payload));
  }
}

TEST_CASE("restore: a message keeps its headers in another queue, alive or dead") {
  Queue from, to;
  const auto options = with(&SendOptions::headers, {{"content-type", "text/plain"}, {"k", std::string("\0\xff", 2)}});
  const std::string alive = from.send("x", options), dead = from.send(std::string(100'000, 'x'), options);
  CHECK(from.admin.bury({dead}).size() == 1);
  const auto found = from.inspector.find_all({alive, dead}, 1'000'000);
  CHECK(to.admin.restore({*found[0], *found[1]}).front().created());
  for (const std::string& id : {alive, dead}) CHECK((to.inspector.find(id)->headers == options.headers));
  CHECK(to.admin.redrive({dead}).front() == Outcome::done);
  CHECK((to.inspector.find(dead)->headers == options.headers));
}

TEST_CASE("find: a message without a body has no size") {
  Queue queue;
  const std::string id = queue.send("x");
  redis().cmd({"DEL", queue.base + ":msg:" + id});
  const auto found = queue.inspector.find(id);
  REQUIRE(found);
  CHECK(!found->size);
  CHECK(found->payload.empty());
}

TEST_CASE("redrive: a dead letter starts again like a new message, unless its body is gone") {
  Queue queue;
  const std::vector<std::string> ids = make_dead_letters(queue, 3);
  CHECK(queue.admin.redrive({ids[0]}).front() == Outcome::done);
  CHECK(queue.admin.redrive({ids[0]}).front() == Outcome::unknown);
  CHECK(queue.admin.redrive({ids[1]}, {0}).front() == Outcome::done);
  redis().cmd({"DEL", queue.base + ":msg:" + ids[2]});
  CHECK(queue.admin.redrive({ids[2]}).front() == Outcome::no_payload);
  CHECK(queue.admin.redrive({ids[2]}).front() == Outcome::unknown);
  CHECK(queue.admin.redrive({kId}).front() == Outcome::unknown);
  CHECK(queue.inspector.find(ids[0])->retries == 3);
  CHECK(queue.inspector.find(ids[1])->retries == 0);
  CHECK(queue.inspector.find(ids[0])->reason.empty());
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  const auto entries = ledger.entries();
  CHECK(entries.size() == 2);
  CHECK(std::all_of(entries.begin(), entries.end(), [](const auto& entry) { return entry.message.attempt() == 1; }));
}

TEST_CASE("release: a pending message is delivered before all ready ones") {
  Queue queue;
  for (int i = 0; i < 3; ++i) queue.send("ready");
  const std::string pending = queue.send("released", delayed(1h));
  CHECK(queue.admin.release({pending}).front() == Outcome::done);
  CHECK(queue.admin.release({pending}).front() == Outcome::unknown);
  CHECK(queue.admin.release({kId}).front() == Outcome::unknown);
  CHECK(queue.inspector.list(State::ready).messages.front().id == pending);
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  REQUIRE(ledger.settles(4));
  CHECK(ledger.payloads().front() == "released");
}

TEST_CASE("pause and resume: a pause ends at resume or after its time, and counts() reports it") {
  Queue queue;
  queue.admin.pause();
  CHECK(queue.inspector.counts().paused);
  CHECK(redis().cmd({"PTTL", queue.base + ":paused"}) == -1);
  queue.admin.pause({1h, "stock-taking"});
  CHECK(redis().cmd({"GET", queue.base + ":paused"}) == "stock-taking");
  CHECK(redis().cmd({"PTTL", queue.base + ":paused"}).integer > 50 * 60'000);
  queue.admin.resume();
  CHECK(!queue.inspector.counts().paused);
  queue.admin.resume();
  queue.admin.pause({5ms, ""});
  CHECK(eventually([&] { return !queue.inspector.counts().paused; }, kPatience));
}

TEST_CASE("queues: returns the name of every queue ever used under the prefix, sorted") {
  const std::string prefix = test::fresh_queue();
  const auto use = [&](const std::string& name, HashTag tag) {
    ClientOptions options;
    options.keys.prefix = prefix;
    options.keys.hash_tag = tag;
    Producer({test::server().url(), options}, name).send("x");
  };
  use("b", HashTag::off);
  use("a:1", HashTag::off);
  use("c", HashTag::on);
  use("b", HashTag::off);
  ClientOptions options;
  options.keys.prefix = prefix;
  Inspector inspector({test::server().url(), options}, "b");
  CHECK(inspector.queues() == std::vector<std::string>{"a:1", "b", "c"});
}

TEST_CASE("queues: leaves out names that no queue can have") {
  const std::string prefix = test::fresh_queue();
  test::redis().cmd({"SADD", prefix + ":queues", prefix + ":", '{' + prefix + ":}", prefix + ":a", prefix + ":b{c}",
                     '{' + prefix + ":a#1.83}"});
  ClientOptions options;
  options.keys.prefix = prefix;
  CHECK(Inspector({test::server().url(), options}, "a").queues() == std::vector<std::string>{"a", "b{c}"});
  options.keys.hash_tag = HashTag::on;  // with hash tags, names may not contain braces
  CHECK(Inspector({test::server().url(), options}, "a").queues() == std::vector<std::string>{"a"});
}

TEST_CASE("queues: finds any number of queues in bounded steps, and returns each once, sorted") {
  const std::string prefix = test::fresh_queue();
  std::vector<std::string> expected;
  std::vector<std::string> words{"SADD", prefix + ":queues"};
  for (int i = 10'000; i < 30'000; ++i) {
    expected.push_back("q" + std::to_string(i));
    words.push_back(prefix + ":" + expected.back());
  }
  words.push_back("{" + prefix + ":" + expected.front() + "}");  // the same name with a hash tag
  REQUIRE(test::redis().cmd(words) == expected.size() + 1);
  ClientOptions options;
  options.keys.prefix = prefix;
  Inspector inspector({test::server().url(), options}, "a");
  test::redis().cmd({"CONFIG", "RESETSTAT"});
  CHECK(inspector.queues() == expected);
  CHECK(test::info("commandstats", "cmdstat_smembers") == "");
  const std::string calls = test::info("commandstats", "cmdstat_sscan");
  REQUIRE(calls.rfind("calls=", 0) == 0);
  CHECK(std::stoi(calls.substr(6)) >= 20);  // 20,000 names: at most some hundreds per call
  test::redis().cmd({"DEL", prefix + ":queues"});
}

TEST_CASE("queues: counts() on an unused name registers no queue, but pause, restore and existing messages do") {
  test::redis().cmd({"DEL", "dp:queues"});
  const std::string name = test::fresh_queue();
  Inspector inspector(test::server().url(), name);
  QueueAdmin admin(test::server().url(), name);
  CHECK(inspector.counts().ready == 0);
  CHECK(inspector.queues().empty());
  admin.pause();
  CHECK(inspector.queues() == std::vector<std::string>{name});
  test::redis().cmd({"DEL", "dp:queues"});
  MessageInfo message;
  message.id = "0190f7c2-5b1f-7000-8000-000000000001";
  message.state = State::ready;
  message.retries = 3;
  message.size = 1;
  message.payload = "x";
  CHECK(admin.restore({message}).front().created());
  CHECK(inspector.queues() == std::vector<std::string>{name});
  const std::string of_go = test::fresh_queue();  // Go workers do not register their queues
  test::redis().cmd({"ZADD", "dp:" + of_go + ":pending", "1", "0190f7c2-5b1f-7000-8000-000000000001"});
  CHECK(Inspector(test::server().url(), of_go).counts().pending == 1);
  CHECK(inspector.queues() == std::vector<std::string>{name, of_go});
}

TEST_CASE("purge: removes all of a state, by age and up to a limit, and leaves nothing stored") {
  Queue queue;
  make_dead_letters(queue, 450);
  const auto old = with(&PurgeOptions::older_than, 1h);
  CHECK(queue.admin.purge(State::dead, old) == 0);
  auto few = with(&PurgeOptions::limit, 7);
  CHECK(queue.admin.purge(State::dead, few) == 7);
  CHECK(queue.inspector.list(State::dead).messages.front().payload == "7");  // the oldest were purged
  test::rewind(queue.base, 2h);
  const std::vector<std::string> young = make_dead_letters(queue, 5);
  CHECK(queue.admin.purge(State::dead, old) == 443);
  CHECK(queue.inspector.counts().dead == 5);
  CHECK(queue.inspector.find(young[0])->state == State::dead);
  CHECK(queue.admin.purge(State::dead) == 5);
  CHECK(queue.inspector.counts().totals.purged == 455);
  CHECK(queue.admin.purge(State::dead) == 0);

  queue.producer.send_batch(std::vector<std::string>(401, "ready"));
  queue.producer.send_batch(std::vector<std::string>(201, "pending"), delayed(1h));
  few.limit = 201;
  CHECK(queue.admin.purge(State::ready, few) == 201);
  CHECK(queue.admin.purge(State::ready) == 200);
  CHECK(queue.admin.purge(State::retry) == 0);
  CHECK(queue.admin.purge(State::pending, old) == 0);
  CHECK(queue.admin.purge(State::pending) == 201);
  CHECK(queue.empty());
}

TEST_CASE("purge: an id in a list that is only a hint does not count, and its message stays") {
  Queue queue;
  const std::string moved = queue.send("moved");
  const std::string cancelled = queue.send("cancelled");
  queue.send("ready");
  CHECK(queue.producer.reschedule(moved, with(&RescheduleOptions::delay, 1h)) == Outcome::done);
  CHECK(queue.producer.cancel(cancelled) == State::ready);
  CHECK(queue.inspector.counts().ready == 3);
  CHECK(queue.admin.purge(State::ready) == 1);
  CHECK(queue.inspector.counts().ready == 0);
  CHECK(queue.state(moved) == State::pending);
  CHECK(queue.inspector.find(moved)->payload == "moved");
}

TEST_CASE("Inspector: works after a move, and several threads may share one") {
  Queue queue;
  queue.send("x");
  Inspector first(queue.url, queue.name);
  CHECK(first.counts().ready == 1);
  Inspector second(std::move(first));
  std::vector<std::thread> threads;
  threads.reserve(8);
  std::atomic<int> wrong{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        if (second.counts().ready != 1 || second.list(State::ready).size() != 1) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace delayqueue
