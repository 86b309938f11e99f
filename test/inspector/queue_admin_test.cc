// What an Inspector does to messages by their ids, many at a time.
#include <delayqueue/inspector.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "support/ledger.h"

namespace delayqueue {
namespace {

using namespace std::chrono_literals;
using std::chrono::system_clock;
using test::eventually;
using test::Gate;
using test::kPatience;
using test::Ledger;
using test::Queue;
using test::quick;
using test::thrown;

constexpr char kId[] = "0197f3a4-5b6c-7d8e-9f01-23456789abcd";
constexpr char kUpper[] = "0197F3A4-5B6C-7D8E-9F01-23456789ABCD";

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<std::string> send_many(Queue& queue, std::size_t count, milliseconds delay = 0ms) {
  std::vector<std::string> payloads, ids;
  for (std::size_t i = 0; i < count; ++i) payloads.push_back(std::to_string(i));
  SendOptions options;
  options.delay = delay;
  for (const Sent& sent : queue.producer.send_batch(payloads, options)) ids.push_back(sent.id);
  return ids;
}

// Takes one message, and keeps it until `go`.
struct Holder {
  explicit Holder(Queue& queue)
      : consumer(queue.consumer([this](const Message& message) {
          held.open();
          done.pass();
          lost = message.lost();
          return ack();
        })) {
    consumer->start();
    held.pass();
  }

  Gate held, done;
  bool lost = false;
  test::ConsumerPtr consumer;
};

TEST_CASE("by id: what makes no sense is refused by field and value, and nothing is done") {
  Queue queue;
  Inspector& look = queue.inspector;
  const std::string good = queue.send("x");
  const auto before = queue.kept();
  MessageInfo bare, short_of, free;
  bare.id = short_of.id = free.id = kId;
  short_of.size = 5;
  short_of.payload = "12";
  free.size = 0;
  free.state = State::ready;
  const std::pair<std::function<void()>, std::string> rows[] = {
      {[&] {
         look.cancel({good, "x"});
       },
       "id: \"x\""},
      {[&] {
         look.reschedule({good, "x"}, {});
       },
       "id: \"x\""},
      {[&] {
         look.release(std::vector<std::string>{good, "x"});
       },
       "id: \"x\""},
      {[&] {
         look.redrive(std::vector<std::string>{good, "x"});
       },
       "id: \"x\""},
      {[&] { look.redrive(std::vector<std::string>{good}, {-1}); }, "retries: -1"},
      {[&] {
         look.kill({good, "x"});
       },
       "id: \"x\""},
      {[&] {
         look.extend({good, "x"}, 1s);
       },
       "id: \"x\""},
      {[&] { look.extend({good}, 0ms); }, "by: 0 ms"},
      {[&] {
         look.purge(State::ready, {good, "x"});
       },
       "id: \"x\""},
      {[&] { look.purge(State::unack, {good}); }, "state: unack"},
      {[&] {
         look.find(std::vector<std::string>{good, "x"});
       },
       "id: \"x\""},
      {[&] { look.restore({bare}); }, "payload of " + std::string(kId) + ": missing"},
      {[&] { look.restore({short_of}); }, "payload of " + std::string(kId) + ": 2 bytes of 5"},
      {[&] { look.restore({free}); }, "retries of " + std::string(kId) + ": unset"},
  };
  for (const auto& [call, expected] : rows) {
    const std::string error = thrown(call);
    CHECK_MESSAGE(has(error, "invalid_argument: " + expected), error);
  }
  CHECK((queue.kept() == before));
}

TEST_CASE("by id: answers stand in the order of the ids, over any number of steps; ids may be in upper case") {
  Queue queue;
  Inspector& look = queue.inspector;
  const std::vector<std::string> ids = send_many(queue, 450, 1h);
  std::vector<std::string> mixed = ids;
  for (const std::size_t at : {0UL, 201UL, 450UL})
    mixed.insert(mixed.begin() + static_cast<std::ptrdiff_t>(at), kUpper);
  const auto check = [&](auto answers, auto good, auto unknown) {
    REQUIRE(answers.size() == mixed.size());
    for (std::size_t i = 0; i < answers.size(); ++i) CHECK(answers[i] == (mixed[i] == kUpper ? unknown : good));
  };
  RescheduleOptions when;
  when.delay = 2h;
  check(look.reschedule(mixed, when), Moved::moved, Moved::unknown);
  check(look.kill(mixed), Killed::killed, Killed::unknown);
  CHECK(look.counts().dead == 450);
  check(look.redrive(mixed), Redriven::redriven, Redriven::unknown);
  CHECK(look.counts().ready == 450);
  check(look.extend(mixed, 1s), Extended::unknown, Extended::unknown);
  const auto found = look.find(mixed, 2);
  for (std::size_t i = 0; i < found.size(); ++i) {
    REQUIRE(found[i].has_value() == (mixed[i] != kUpper));
    if (!found[i]) continue;
    CHECK(found[i]->id == mixed[i]);
    CHECK(found[i]->payload.size() <= 2);
    CHECK(found[i]->size == std::to_string(std::find(ids.begin(), ids.end(), mixed[i]) - ids.begin()).size());
  }
  check(look.cancel(mixed), State::ready, State::unknown);
  CHECK(look.counts().totals.cancelled == 450);
  CHECK(look.cancel({}).empty());
}

TEST_CASE("release: many are delivered in the order in which they were named") {
  Queue queue;
  const std::vector<std::string> ids = send_many(queue, 150, 1h);
  const auto released = queue.inspector.release(ids);
  CHECK(std::count(released.begin(), released.end(), Released::released) == 150);
  std::vector<std::string> order;
  std::string cursor;
  do {
    ListOptions options;
    options.cursor = cursor;
    options.limit = 100;
    const MessagePage page = queue.inspector.list(State::ready, options);
    for (const MessageInfo& message : page) order.push_back(message.id);
    cursor = page.next;
  } while (!cursor.empty());
  CHECK((order == ids));
}

TEST_CASE("kill: pending, ready and waiting ones are dead with the reason, and kept; redriven they are as new") {
  Queue queue;
  Inspector& look = queue.inspector;
  SendOptions brief;
  brief.delay = 1h;
  brief.ttl = 1h;
  const std::string pending = queue.producer.send("a", brief).id;
  const std::string ready = queue.send("b");
  KillOptions why;
  why.reason = std::string(2000, 'w');
  CHECK(look.kill({pending, ready, kId, pending}, why) ==
        std::vector<Killed>{Killed::killed, Killed::killed, Killed::unknown, Killed::already});
  const auto found = look.find(pending);
  REQUIRE(found);
  CHECK(found->state == State::dead);
  CHECK(found->reason == std::string(1024, 'w'));
  CHECK(found->deliveries == 0);
  CHECK(!found->ttl);
  CHECK(look.counts().dead == 2);
  CHECK(look.counts().totals.dead == 2);
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  look.redrive(pending);
  CHECK(ledger.settles(1));
  CHECK(consumer->stop());
  CHECK(look.find(ready)->state == State::dead);
}

TEST_CASE("kill: what is held only by force; then its holder sees it, and a success nevertheless ends the message") {
  Queue queue;
  Inspector& look = queue.inspector;
  const std::string id = queue.send("x");
  Holder holder(queue);
  CHECK(look.kill({id}).front() == Killed::held);
  CHECK(look.extend({id}, 1h).front() == Extended::held);
  KillOptions force;
  force.force = true;
  CHECK(look.kill({id}, force).front() == Killed::killed);
  CHECK(look.find(id)->state == State::dead);
  CHECK(look.find(id)->deliveries == 1);
  holder.done.open();
  CHECK(eventually([&] { return !look.find(id); }, kPatience));
  CHECK(holder.consumer->stop());
  CHECK(look.counts().dead == 0);
}

TEST_CASE("extend: a message that waits out a backoff waits longer") {
  Queue queue;
  Inspector& look = queue.inspector;
  const std::string id = queue.send("x");
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch([](const Message&) { return nack(1h, "later"); }));
  consumer->start();
  REQUIRE(ledger.settles(1));
  REQUIRE(consumer->stop());
  const auto before = look.find(id);
  REQUIRE(before);
  CHECK(look.extend({id}, 1h).front() == Extended::extended);
  const auto after = look.find(id);
  CHECK(*after->at >= *before->at + 1h);
  CHECK(*after->at <= *before->at + 1h + 2ms);
  CHECK(!after->held);
  CHECK(after->retries == before->retries);
}

TEST_CASE("purge by id: only what still is in that state, page by page over a walk that sees all") {
  Queue queue;
  Inspector& look = queue.inspector;
  for (const State state : {State::dead, State::ready}) {
    CAPTURE(to_string(state));
    const std::vector<std::string> ids = send_many(queue, 500);
    if (state == State::dead) look.kill(ids);
    ListOptions options;
    options.limit = 60;
    std::vector<std::string> seen, odd;
    do {
      const MessagePage page = look.list(state, options);
      odd.clear();
      for (const MessageInfo& message : page) {
        seen.push_back(message.id);
        if (std::stoi(message.payload) % 2 == 1) odd.push_back(message.id);
      }
      const Removed removed = look.purge(state, odd);
      CHECK(removed.messages == odd.size());
      options.cursor = page.next_after(removed.places);
    } while (!options.cursor.empty());
    CHECK((seen == ids));
    CHECK(look.purge(state == State::dead ? State::pending : State::dead, {ids[0], ids[2]}).messages == 0);
    CHECK(look.find(ids[0]).has_value());
    CHECK(!look.find(ids[1]));
    look.purge(state);
  }
  CHECK(look.counts().totals.purged == 1000);
}

TEST_CASE("restore: a queue written down and brought back elsewhere is the same, and again changes nothing") {
  Queue queue, other;
  Inspector& look = queue.inspector;
  SendOptions options;
  options.delay = 1h;
  options.retries = 7;
  options.ttl = 2h;
  const std::string bytes("\0\xff\n\"", 4);
  const std::string pending = queue.producer.send(bytes, options).id;
  Ledger ledger;
  const std::string waits = queue.send("again");
  const auto consumer = queue.consumer(ledger.watch([](const Message&) { return nack(1h, "later"); }));
  consumer->start();
  REQUIRE(ledger.settles(1));
  REQUIRE(consumer->stop());
  const std::string dead = queue.send("dead");
  KillOptions why;
  why.reason = "enough \xff";
  look.kill({dead}, why);
  const std::string ready = queue.send("");
  const std::vector<std::string> ids = {pending, waits, dead, ready};
  std::vector<MessageInfo> papers;
  for (const auto& paper : look.find(ids, 1'000'000)) papers.push_back(*paper);
  for (const Sent& sent : other.inspector.restore(papers)) CHECK(sent.created);
  const auto copies = other.inspector.find(ids, 1'000'000);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    CAPTURE(i);
    REQUIRE(copies[i]);
    CHECK(copies[i]->payload == papers[i].payload);
    CHECK(copies[i]->reason == papers[i].reason);
    CHECK(copies[i]->retries == papers[i].retries);
    CHECK(copies[i]->deliveries == papers[i].deliveries);
    CHECK(copies[i]->state == (papers[i].state == State::unack ? State::pending : papers[i].state));
    CHECK((copies[i]->at == papers[i].at));
    CHECK(copies[i]->ttl.has_value() == papers[i].ttl.has_value());
  }
  CHECK(*copies[0]->ttl > 3h - 1min);
  const auto known = look.queues();
  CHECK(std::count(known.begin(), known.end(), other.name) == 1);
  const auto before = other.kept();
  for (const Sent& sent : other.inspector.restore(papers)) CHECK(!sent.created);
  CHECK((other.kept() == before));
}

TEST_CASE("restore: what a consumer held is ready, with its deliveries counted") {
  Queue queue, other;
  const std::string id = queue.send("x");
  Holder holder(queue);
  const auto paper = queue.inspector.find(id);
  REQUIRE(paper);
  CHECK(other.inspector.restore({*paper}).front().created);
  CHECK(other.inspector.find(id)->state == State::ready);
  CHECK(other.inspector.find(id)->deliveries == 1);
  holder.done.open();
  CHECK(holder.consumer->stop());
}

TEST_CASE("paused: says why, and until when") {
  Queue queue;
  Inspector& look = queue.inspector;
  CHECK(!look.paused());
  look.pause(0ms, "database\nmaintenance");
  REQUIRE(look.paused());
  CHECK(look.paused()->why == "database\nmaintenance");
  CHECK(!look.paused()->until);
  look.pause(1h);
  REQUIRE(look.paused());
  CHECK(look.paused()->why.empty());
  REQUIRE(look.paused()->until);
  const auto left = *look.paused()->until - look.counts().now;
  CHECK(left > 59min);
  CHECK(left <= 1h + 1s);
  look.resume();
  CHECK(!look.paused());
}

TEST_CASE("server: what it says of itself, and how far away it is") {
  Queue queue;
  const ServerReport report = queue.inspector.server();
  CHECK(has(report.where, test::server().socket()));
  CHECK((report.product == "Redis" || report.product == "Valkey"));
  CHECK(report.version.find('.') != std::string::npos);
  CHECK(report.role == "master");
  CHECK(report.mode == "standalone");
  CHECK(report.uptime);
  CHECK(*report.clients >= 1);
  CHECK(*report.memory > 100'000);
  CHECK(report.memory_limit == 0);
  CHECK(report.eviction == "noeviction");
  CHECK((report.append_only == "yes" || report.append_only == "no"));
  CHECK(!report.fsync.empty());
  CHECK(report.round_trip > 0us);
  CHECK(report.round_trip < 3s);
  CHECK(report.clock_ahead < 3s);
  CHECK(report.clock_ahead > -3s);
}

}  // namespace
}  // namespace delayqueue
