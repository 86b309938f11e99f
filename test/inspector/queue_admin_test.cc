// Changes to messages by their ids, several ids a call.
#include "support/test.h"

namespace delayqueue {
namespace {

using std::chrono::system_clock;

constexpr char kUpper[] = "0197F3A4-5B6C-7D8E-9F01-23456789ABCD";

std::vector<std::string> send_many(Queue& queue, std::size_t count, milliseconds delay = 0ms) {
  std::vector<std::string> payloads, ids;
  for (std::size_t i = 0; i < count; ++i) payloads.push_back(std::to_string(i));
  const auto options = delayed(delay);
  for (const Sent& sent : queue.producer.send_batch(payloads, options)) ids.push_back(sent.id);
  return ids;
}

// A consumer that takes one message and keeps it until done.open().
struct Holder {
  explicit Holder(Queue& queue)
      : consumer(queue.consumer([this](const Message& message) {
          held.open();
          done.pass();
          lost = message.lease_lost();
          return ack();
        })) {
    consumer->start();
    held.pass();
  }

  Gate held, done;
  bool lost = false;
  test::ConsumerPtr consumer;
};

TEST_CASE("by id: an invalid argument throws with its name and value, and nothing is changed") {
  Queue queue;
  QueueAdmin& admin = queue.admin;
  const std::string good = queue.send("x");
  const std::vector<std::string> bad = {good, "x"};
  const auto before = queue.kept();
  MessageInfo bare, short_of, free;
  bare.id = short_of.id = free.id = kId;
  short_of.size = 5;
  short_of.payload = "12";
  free.size = 0;
  free.state = State::ready;
  const std::pair<std::function<void()>, std::string> rows[] = {
      {[&] { return admin.cancel(bad); }, "id: \"x\""},
      {[&] { return admin.reschedule(bad, {}); }, "id: \"x\""},
      {[&] { return admin.release(bad); }, "id: \"x\""},
      {[&] { return admin.redrive(bad); }, "id: \"x\""},
      {[&] { return admin.redrive({good}, {-1}); }, "retries: -1"},
      {[&] { return admin.bury(bad); }, "id: \"x\""},
      {[&] { return admin.extend(bad, 1s); }, "id: \"x\""},
      {[&] { return admin.extend({good}, 0ms); }, "by: 0 ms"},
      {[&] { admin.purge_ids(State::ready, bad); }, "id: \"x\""},
      {[&] { admin.purge_ids(State::unack, {good}); }, "state: unack"},
      {[&] { return queue.inspector.find_all(bad); }, "id: \"x\""},
      {[&] { return admin.restore({bare}); }, "payload of " + std::string(kId) + ": missing"},
      {[&] { return admin.restore({short_of}); }, "payload of " + std::string(kId) + ": 2 bytes of 5"},
      {[&] { return admin.restore({free}); }, "retries of " + std::string(kId) + ": unset"},
      {[&] {
         admin.pause({0ms, "now"});
       },
       "duration: 0 ms"},
      {[&] {
         admin.pause({-1ms, ""});
       },
       "duration: -1 ms"},
  };
  for (const auto& [call, expected] : rows) {
    const std::string error = thrown(call);
    CHECK(has(error, "invalid_argument: " + expected));
  }
  CHECK((queue.kept() == before));
}

TEST_CASE("by id: an id, a MessageRef, braces, and braces in braces name the messages that they hold") {
  Queue queue;
  QueueAdmin& admin = queue.admin;
  const std::string id = kUpper;
  const std::vector<State> one{State::unknown}, two{State::unknown, State::unknown};
  CHECK(admin.cancel(kUpper) == one);
  CHECK(admin.cancel(id) == one);
  CHECK(admin.cancel(std::string_view(id)) == one);
  CHECK(admin.cancel(MessageRef(id)) == one);
  CHECK(admin.cancel({id}) == one);
  CHECK(admin.cancel({id, kUpper}) == two);
  CHECK(admin.cancel({{kUpper, kUpper}}) == two);
  CHECK(admin.cancel({}).empty());
  const char* const unset = nullptr;
  CHECK(has(thrown([&] { return admin.cancel(unset); }), "invalid_argument: id: null"));
}

TEST_CASE("by id: results have the order of the ids, for any number of ids, and ids may be in upper case") {
  Queue queue;
  Inspector& inspector = queue.inspector;
  QueueAdmin& admin = queue.admin;
  const std::vector<std::string> ids = send_many(queue, 450, 1h);
  std::vector<std::string> mixed = ids;
  for (const std::size_t at : {0UL, 201UL, 450UL})
    mixed.insert(mixed.begin() + static_cast<std::ptrdiff_t>(at), kUpper);
  const auto check = [&](auto answers, auto good, auto unknown) {
    REQUIRE(answers.size() == mixed.size());
    for (std::size_t i = 0; i < answers.size(); ++i) CHECK(answers[i] == (mixed[i] == kUpper ? unknown : good));
  };
  check(admin.reschedule(mixed, with(&RescheduleOptions::delay, 2h)), Outcome::done, Outcome::unknown);
  check(admin.bury(mixed), Outcome::done, Outcome::unknown);
  CHECK(inspector.counts().dead == 450);
  check(admin.redrive(mixed), Outcome::done, Outcome::unknown);
  CHECK(inspector.counts().ready == 450);
  check(admin.extend(mixed, 1s), Outcome::unknown, Outcome::unknown);
  const auto found = inspector.find_all(mixed, 2);
  for (std::size_t i = 0; i < found.size(); ++i) {
    REQUIRE(found[i].has_value() == (mixed[i] != kUpper));
    if (!found[i]) continue;
    CHECK(found[i]->id == mixed[i]);
    CHECK(found[i]->payload.size() <= 2);
    CHECK(found[i]->size == std::to_string(std::find(ids.begin(), ids.end(), mixed[i]) - ids.begin()).size());
  }
  check(admin.cancel(mixed), State::ready, State::unknown);
  CHECK(inspector.counts().totals.cancelled == 450);
  CHECK(admin.cancel({}).empty());
}

TEST_CASE("release: messages are delivered in the order of their ids in the call") {
  Queue queue;
  const std::vector<std::string> ids = send_many(queue, 150, 1h);
  const auto released = queue.admin.release(ids);
  CHECK(std::count(released.begin(), released.end(), Outcome::done) == 150);
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

TEST_CASE("bury: pending and ready messages become dead letters with the reason, and can be redriven") {
  Queue queue;
  Inspector& inspector = queue.inspector;
  QueueAdmin& admin = queue.admin;
  SendOptions brief;
  brief.delay = 1h;
  brief.ttl = 1h;
  const std::string pending = queue.producer.send("a", brief).id;
  const std::string ready = queue.send("b");
  CHECK(admin.bury({pending, ready, kId, pending}, with(&BuryOptions::reason, std::string(2000, 'w'))) ==
        std::vector<Outcome>{Outcome::done, Outcome::done, Outcome::unknown, Outcome::already});
  const auto found = inspector.find(pending);
  REQUIRE(found);
  CHECK(found->state == State::dead);
  CHECK(found->reason == std::string(1024, 'w'));
  CHECK(found->deliveries == 0);
  CHECK(!found->ttl);
  CHECK(inspector.counts().dead == 2);
  CHECK(inspector.counts().totals.dead_lettered == 2);
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  CHECK(admin.redrive({pending}).front() == Outcome::done);
  CHECK(ledger.settles(1));
  CHECK(consumer->stop());
  CHECK(inspector.find(ready)->state == State::dead);
}

TEST_CASE("bury: a held message needs HeldMessages::force; an ack of its holder still ends it") {
  Queue queue;
  Inspector& inspector = queue.inspector;
  QueueAdmin& admin = queue.admin;
  const std::string id = queue.send("x");
  Holder holder(queue);
  CHECK(admin.bury({id}).front() == Outcome::held);
  CHECK(admin.extend({id}, 1h).front() == Outcome::held);
  BuryOptions force;
  force.held = HeldMessages::force;
  CHECK(admin.bury({id}, force).front() == Outcome::done);
  CHECK(inspector.find(id)->state == State::dead);
  CHECK(inspector.find(id)->deliveries == 1);
  holder.done.open();
  CHECK(eventually([&] { return !inspector.find(id); }, kPatience));
  CHECK(holder.consumer->stop());
  CHECK(inspector.counts().dead == 0);
}

TEST_CASE("extend: a message in backoff waits longer") {
  Queue queue;
  Inspector& inspector = queue.inspector;
  QueueAdmin& admin = queue.admin;
  const std::string id = queue.send("x");
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch([](const Message&) { return nack(1h, "later"); }));
  consumer->start();
  REQUIRE(ledger.settles(1));
  REQUIRE(consumer->stop());
  const auto before = inspector.find(id);
  REQUIRE(before);
  CHECK(admin.extend({id}, 1h).front() == Outcome::done);
  const auto after = inspector.find(id);
  CHECK(*after->at >= *before->at + 1h);
  CHECK(*after->at <= *before->at + 1h + 2ms);
  CHECK(!after->held);
  CHECK(after->retries == before->retries);
}

TEST_CASE("purge by id: removes only messages that are in that state, and a walk over pages still sees all") {
  Queue queue;
  Inspector& inspector = queue.inspector;
  QueueAdmin& admin = queue.admin;
  for (const State state : {State::dead, State::ready}) {
    CAPTURE(to_string(state));
    const std::vector<std::string> ids = send_many(queue, 500);
    if (state == State::dead) CHECK(admin.bury(ids) == std::vector<Outcome>(500, Outcome::done));
    auto options = with(&ListOptions::limit, 60);
    std::vector<std::string> seen, odd;
    do {
      const MessagePage page = inspector.list(state, options);
      odd.clear();
      for (const MessageInfo& message : page) {
        seen.push_back(message.id);
        if (std::stoi(message.payload) % 2 == 1) odd.push_back(message.id);
      }
      const Purged removed = admin.purge_ids(state, odd);
      CHECK(removed.messages == odd.size());
      options.cursor = page.next_after(removed.places);
    } while (!options.cursor.empty());
    CHECK((seen == ids));
    CHECK(admin.purge_ids(state == State::dead ? State::pending : State::dead, {ids[0], ids[2]}).messages == 0);
    CHECK(inspector.find(ids[0]).has_value());
    CHECK(!inspector.find(ids[1]));
    admin.purge(state);
  }
  CHECK(inspector.counts().totals.purged == 1000);
}

TEST_CASE("restore: a queue that is exported and restored elsewhere is the same, and restoring again changes nothing") {
  Queue queue, other;
  Inspector& inspector = queue.inspector;
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
  CHECK(queue.admin.bury({dead}, with(&BuryOptions::reason, "enough \xff")).front() == Outcome::done);
  const std::string ready = queue.send("");
  const std::vector<std::string> ids = {pending, waits, dead, ready};
  std::vector<MessageInfo> entries;
  for (const auto& entry : inspector.find_all(ids, 1'000'000)) entries.push_back(*entry);
  for (const Sent& sent : other.admin.restore(entries)) CHECK(sent.created());
  const auto copies = other.inspector.find_all(ids, 1'000'000);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    CAPTURE(i);
    REQUIRE(copies[i]);
    CHECK(copies[i]->payload == entries[i].payload);
    CHECK(copies[i]->reason == entries[i].reason);
    CHECK(copies[i]->retries == entries[i].retries);
    CHECK(copies[i]->deliveries == entries[i].deliveries);
    CHECK(copies[i]->state == (entries[i].state == State::unack ? State::pending : entries[i].state));
    CHECK((copies[i]->at == entries[i].at));
    CHECK(copies[i]->ttl.has_value() == entries[i].ttl.has_value());
  }
  CHECK(*copies[0]->ttl > 3h - 1min);
  const auto known = inspector.queues();
  CHECK(std::count(known.begin(), known.end(), other.name) == 1);
  const auto before = other.kept();
  for (const Sent& sent : other.admin.restore(entries)) CHECK(!sent.created());
  CHECK((other.kept() == before));
}

TEST_CASE("restore, redrive: a message keeps its unique key, and takes it back unless another message has it") {
  Queue queue, other;
  const std::string key("customer \0\xff", 11);
  const auto keyed = [&](const std::string& id) {
    test::redis().cmd({"HSET", queue.base + ":keys", id, key});
    test::redis().cmd({"HSET", queue.base + ":unique", key, id + " 1700000000000000 0"});
  };
  const std::string first = queue.send("first");
  keyed(first);
  CHECK(queue.inspector.find(first)->key == key);
  CHECK(queue.inspector.list(State::ready).messages.front().key == key);
  CHECK(queue.admin.bury({first}).front() == Outcome::done);
  const std::string second = queue.send("second");
  keyed(second);
  CHECK(queue.admin.redrive({first}).front() == Outcome::key_taken);
  CHECK(queue.inspector.find(first)->state == State::dead);
  std::vector<MessageInfo> both = {*queue.inspector.find(first), *queue.inspector.find(second)};
  both[0].state = State::ready;  // both of them alive
  both[0].retries = 3;
  auto sent = other.admin.restore(both);
  CHECK(sent[0].result == SendResult::created);
  CHECK(sent[1].result == SendResult::kept);
  CHECK(other.inspector.find(first)->key == key);
  CHECK_FALSE(other.inspector.find(second));
  CHECK(other.admin.restore({both[1]})[0].result == SendResult::kept);
  CHECK(other.producer.cancel(first) == State::ready);
  CHECK(other.admin.restore({both[1]})[0].result == SendResult::created);
  CHECK(queue.producer.cancel(second) == State::ready);
  CHECK(queue.admin.redrive({first}).front() == Outcome::done);
  CHECK(test::redis().cmd({"HGET", queue.base + ":unique", key}).text.substr(0, 36) == first);
  MessageInfo long_key = both[0];
  long_key.key = std::string(129, 'x');
  CHECK(has(thrown([&] { static_cast<void>(other.admin.restore({long_key})); }),
            "key of " + first + ": 129 bytes; expected at most 128"));
  test::redis().cmd({"HSET", queue.base + ":keys", first, std::string(1'000'000, 'x')});
  CHECK(queue.inspector.find(first)->key.empty());
}
TEST_CASE("restore: a message that a consumer held is ready, and its deliveries still count") {
  Queue queue, other;
  const std::string id = queue.send("x");
  Holder holder(queue);
  const auto entry = queue.inspector.find(id);
  REQUIRE(entry);
  CHECK(other.admin.restore({*entry}).front().created());
  CHECK(other.inspector.find(id)->state == State::ready);
  CHECK(other.inspector.find(id)->deliveries == 1);
  holder.done.open();
  CHECK(holder.consumer->stop());
}

TEST_CASE("paused: returns the reason and the end of the pause") {
  Queue queue;
  Inspector& inspector = queue.inspector;
  QueueAdmin& admin = queue.admin;
  CHECK(!inspector.paused());
  admin.pause({{}, "database\nmaintenance"});
  REQUIRE(inspector.paused());
  CHECK(inspector.paused()->reason == "database\nmaintenance");
  CHECK(!inspector.paused()->until);
  admin.pause({1h, ""});
  REQUIRE(inspector.paused());
  CHECK(inspector.paused()->reason.empty());
  REQUIRE(inspector.paused()->until);
  const auto left = *inspector.paused()->until - inspector.counts().now;
  CHECK(left > 59min);
  CHECK(left <= 1h + 1s);
  admin.resume();
  CHECK(!inspector.paused());
}

TEST_CASE("server: returns the server's settings, and its round-trip time") {
  Queue queue;
  const ServerInfo report = queue.inspector.server();
  CHECK(has(report.address, test::server().socket()));
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

TEST_CASE("record: an action is listed with Redis' time, in partition 0, until the queue is forgotten") {
  Queue queue;
  QueueAdmin admin(test::server().url(), queue.name);
  Inspector inspector(test::server().url(), queue.name);
  CHECK(inspector.actions().empty());
  const auto before = inspector.counts().now;
  admin.record({system_clock::time_point(), "anna@host7", 3, "done", "redrive"});
  admin.record({{}, "ben@host8", {}, "partly", "pause --why 'it is down'"});
  const std::vector<Action> actions = inspector.actions();
  REQUIRE(actions.size() == 2);
  CHECK(actions[0].who == "ben@host8");
  CHECK_FALSE(actions[0].messages);
  CHECK(actions[0].what == "pause --why 'it is down'");
  CHECK(actions[1].who == "anna@host7");
  CHECK(*actions[1].messages == 3);
  CHECK(actions[1].outcome == "done");
  CHECK(*actions[1].at >= before);
  CHECK(*actions[1].at <= *actions[0].at);
  CHECK(*actions[0].at <= inspector.counts().now);
  CHECK(admin.check().clean());
  CHECK(admin.forget().none());
  CHECK(inspector.actions().empty());
}

}  // namespace
}  // namespace delayqueue
