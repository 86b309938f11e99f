// Sends with a unique key.
#include "support/test.h"

#include "support/limits.h"
#include "support/partitioned.h"
#include "support/proxy.h"

namespace delayqueue {
namespace {

using test::FaultProxy;
using test::named;

SendOptions keyed(const std::string& key, OnConflict conflict = OnConflict::keep) {
  SendOptions options;
  options.unique.key = key;
  options.unique.on_conflict = conflict;
  return options;
}

SendOptions keyed_later(const std::string& key, OnConflict conflict, milliseconds delay) {
  SendOptions options = keyed(key, conflict);
  options.delay = delay;
  return options;
}

std::size_t messages(Queue& queue) {
  const Counts counts = queue.inspector.counts();
  return counts.pending + counts.ready + counts.unack + counts.retry;
}

std::string payload_of(Queue& queue, const std::string& id) {
  const auto found = queue.inspector.find_all(id, 1024);
  REQUIRE(found.size() == 1);
  REQUIRE(found.front());
  return found.front()->payload;
}

// A consumer that holds each message until it is let go.
class Holder {
 public:
  explicit Holder(Queue& queue)
      : consumer_(queue.consumer(
            [this](const Message& message) {
              ++held_;
              gate_.pass();
              return has(message.payload(), "nack") ? nack(1h) : ack();
            },
            quick(8))) {
    consumer_->start();
  }

  void wait_for(std::size_t held) {
    CHECK(eventually([&] { return held_ == held; }, kPatience));
  }
  void let_go() {
    gate_.open();
    CHECK(consumer_->stop(kPatience));
  }

 private:
  std::atomic<std::size_t> held_{0};
  Gate gate_;
  ConsumerPtr consumer_;
};

// ---- Conflicts ------------------------------------------------------------------------------------------------------

TEST_CASE("unique: keep stores no second message until the first is acked, dead, cancelled, purged or expired") {
  Queue queue;
  const auto created = [&] {
    const Sent sent = queue.producer.send("x", keyed("k"));
    CHECK(sent.created());
    return sent.id;
  };
  const auto kept = [&](const std::string& by) {
    const Sent sent = queue.producer.send("y", keyed("k"));
    CHECK(sent.result == SendResult::kept);
    CHECK(sent.id == by);
    CHECK(payload_of(queue, by) == "x");
  };
  std::string id = created();
  kept(id);
  CHECK(queue.producer.send("x", keyed("other")).created());
  CHECK(queue.producer.send("x").created());
  CHECK(messages(queue) == 3);

  Holder holder(queue);
  holder.wait_for(3);
  kept(id);
  holder.let_go();
  CHECK(messages(queue) == 0);

  id = created();
  CHECK(queue.producer.cancel(id) == State::ready);
  id = created();
  CHECK(queue.admin.bury(id).front() == Outcome::done);
  id = created();
  kept(id);
  queue.admin.purge(State::ready);
  SendOptions expires = keyed("k");
  expires.ttl = 1ms;
  id = queue.producer.send("x", expires).id;
  CHECK(eventually([&] { return queue.producer.send("y", keyed("k")).created(); }, kPatience));
}

TEST_CASE("unique: keep, without those in flight: a send meanwhile is delivered after it, and has the key then") {
  Queue queue;
  SendOptions options = keyed("k");
  options.unique.while_in_flight = false;
  const std::string first = queue.producer.send("1", options).id;
  CHECK(queue.producer.send("2", options).id == first);
  Holder holder(queue);
  holder.wait_for(1);
  const Sent second = queue.producer.send("3", options);
  CHECK(second.created());
  CHECK(second.id != first);
  holder.wait_for(2);
  holder.let_go();
  CHECK(messages(queue) == 0);
}

TEST_CASE("unique: replace gives the message another payload and headers, and leaves its id, due time and TTL") {
  Queue queue;
  SendOptions options = keyed_later("k", OnConflict::replace, 1h);
  options.headers = {{"a", "1"}};
  options.ttl = 10h;
  const std::string id = queue.producer.send("1", options).id;
  const auto before = queue.inspector.find(id);
  options.headers = {{"b", "2"}};
  options.delay = 2h;
  options.ttl = 1ms;
  const Sent sent = queue.producer.send("22", options);
  CHECK(sent.result == SendResult::replaced);
  CHECK(sent.id == id);
  const auto after = queue.inspector.find(id);
  REQUIRE(before);
  REQUIRE(after);
  CHECK(after->at == before->at);
  CHECK(payload_of(queue, id) == "22");
  CHECK(after->headers == Headers{{"b", "2"}});
  CHECK(messages(queue) == 1);
  CHECK(queue.producer.send("3", keyed_later("k", OnConflict::replace, 1h)).result == SendResult::replaced);
  CHECK(queue.inspector.find(id)->headers.empty());
}

TEST_CASE("unique: replace while a consumer holds the message creates a second one, so that no update is lost") {
  Queue queue;
  const std::string first = queue.producer.send("1 nack", keyed("k", OnConflict::replace)).id;
  Holder holder(queue);
  holder.wait_for(1);
  const std::string second = queue.producer.send("2", keyed_later("k", OnConflict::replace, 1h)).id;
  CHECK(second != first);
  CHECK(queue.producer.send("3", keyed("k", OnConflict::replace)).id == second);
  holder.let_go();
  CHECK(!queue.inspector.find(first)->held);  // in its backoff, and without the key
  CHECK(queue.producer.send("4", keyed("k", OnConflict::replace)).id == second);
  CHECK(payload_of(queue, second) == "4");
  CHECK(payload_of(queue, first) == "1 nack");
}

TEST_CASE("unique: a message in its backoff is replaced") {
  Queue queue;
  const std::string first = queue.producer.send("1 nack", keyed("k", OnConflict::replace)).id;
  Holder holder(queue);
  holder.wait_for(1);
  holder.let_go();
  const Sent sent = queue.producer.send("2", keyed("k", OnConflict::replace));
  CHECK(sent.result == SendResult::replaced);
  CHECK(sent.id == first);
  CHECK(payload_of(queue, first) == "2");
}

TEST_CASE("unique: postpone moves the due time, at most to max_wait after the first send") {
  Queue queue;
  SendOptions options = keyed_later("k", OnConflict::postpone, 1h);
  options.unique.max_wait = 90min;
  const std::string id = queue.producer.send("1", options).id;
  const auto first = queue.inspector.find(id);
  REQUIRE(first);
  const auto due = [&] { return queue.inspector.find(id)->at.value(); };
  const auto first_due = due();
  options.delay = 80min;
  CHECK(queue.producer.send("2", options).result == SendResult::replaced);
  CHECK(payload_of(queue, id) == "2");
  CHECK(due() >= first_due + 20min);
  CHECK(due() < first_due + 25min);
  options.delay = 10h;
  CHECK(queue.producer.send("3", options).id == id);
  CHECK(due() >= first_due + 29min);
  CHECK(due() <= first_due + 30min + 1ms);
  options.delay = 1h;
  CHECK(queue.producer.send("4", options).id == id);  // also to an earlier time
  CHECK(due() < first_due + 5min);
  CHECK(messages(queue) == 1);
}

TEST_CASE("unique: a window counts from the send, whether or not the message is still there") {
  Queue queue;
  SendOptions options = keyed("k");
  options.unique.window = 1h;
  const std::string id = queue.producer.send("1", options).id;
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), quick(1));
  consumer->start();
  CHECK(eventually([&] { return messages(queue) == 0; }, kPatience));
  const Sent kept = queue.producer.send("2", options);
  CHECK(kept.result == SendResult::kept);
  CHECK(kept.id == id);
  options.unique.key = "short";
  options.unique.window = 1ms;
  CHECK(queue.producer.send("1", options).created());
  CHECK(eventually([&] { return queue.producer.send("2", options).created(); }, kPatience));
  CHECK(consumer->stop(kPatience));
}

// ---- Batches and threads --------------------------------------------------------------------------------------------

TEST_CASE("unique: the messages of a batch, and of send_async, take effect in their order") {
  Queue queue;
  std::vector<OutgoingMessage> batch;
  for (int i = 0; i < 300; ++i) {
    batch.push_back({std::to_string(i), keyed_later("k" + std::to_string(i % 7), OnConflict::replace, 1h)});
    if (i % 10 == 0) batch.push_back({"without", delayed(1h)});
  }
  const std::vector<Sent> sent = queue.producer.send_batch(batch);
  REQUIRE(sent.size() == batch.size());
  CHECK(messages(queue) == 7 + 30);
  std::map<std::string, std::string> ids, last;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::string& key = batch[i].options.unique.key;
    const auto [found, first] = ids.try_emplace(key, sent[i].id);
    CHECK(sent[i].result == (first || key.empty() ? SendResult::created : SendResult::replaced));
    if (key.empty()) continue;
    CHECK(sent[i].id == found->second);
    last[key] = batch[i].payload;
  }
  for (const auto& [key, payload] : last) CHECK(payload_of(queue, ids[key]) == payload);

  std::atomic<int> created{0};
  for (int i = 0; i < 2000; ++i) {
    queue.producer.send_async(std::to_string(i), keyed_later("async", OnConflict::replace, 1h),
                              [&](const AsyncSent& one) { created += one.get().created() ? 1 : 0; });
  }
  CHECK(queue.producer.flush(kPatience));
  CHECK(created == 1);
  const std::string id = queue.producer.send("?", keyed("async")).id;
  CHECK(payload_of(queue, id) == "1999");
}

TEST_CASE("unique: of threads and Producers that send a key at the same time, one creates the message") {
  Queue queue;
  constexpr int kSenders = 12, kKeys = 100;
  std::vector<std::map<std::string, Sent>> sent(kSenders);
  std::vector<std::thread> threads;
  for (int t = 0; t < kSenders; ++t) {
    threads.emplace_back([&, t] {
      Producer own(test::server().url(), queue.name);
      Producer& producer = t % 2 == 0 ? own : queue.producer;
      for (int i = 0; i < kKeys; ++i) {
        const std::string key = std::to_string((i + t) % kKeys);
        sent[t][key] = producer.send(key, keyed(key));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(messages(queue) == kKeys);
  for (int i = 0; i < kKeys; ++i) {
    const std::string key = std::to_string(i);
    int created = 0;
    for (auto& of_thread : sent) {
      created += of_thread[key].created() ? 1 : 0;
      CHECK(of_thread[key].id == sent[0][key].id);
    }
    CHECK(created == 1);
  }
}

TEST_CASE("unique: while consumers settle, each update of a key is delivered after its send") {
  Queue queue;
  constexpr int kKeys = 5, kUpdates = 400;
  std::mutex mutex;
  std::map<std::string, int> seen;
  const auto consumer = queue.consumer(
      [&](const Message& message) {
        const std::size_t at = message.payload().find(' ');
        const std::lock_guard lock(mutex);
        int& newest = seen[message.payload().substr(0, at)];
        newest = std::max(newest, std::stoi(message.payload().substr(at)));
        return ack();
      },
      quick(4));
  consumer->start();
  std::vector<std::thread> threads;
  for (int k = 0; k < kKeys; ++k) {
    threads.emplace_back([&, k] {
      const std::string key = std::to_string(k);
      for (int i = 1; i <= kUpdates; ++i) {
        queue.producer.send(key + " " + std::to_string(i), keyed(key, OnConflict::replace));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(eventually([&] { return messages(queue) == 0; }, kPatience));
  CHECK(consumer->stop(kPatience));
  for (int k = 0; k < kKeys; ++k) CHECK(seen[std::to_string(k)] == kUpdates);
}

TEST_CASE("unique: large payloads conflict as small ones do, and leave no staged payload") {
  Queue queue;
  const std::string large(300'000, 'x');
  const std::string id = queue.producer.send(large + "1", keyed_later("k", OnConflict::replace, 1h)).id;
  CHECK(queue.producer.send(large + "2", keyed("k")).result == SendResult::kept);
  CHECK(queue.producer.send(large + "3", keyed("k", OnConflict::replace)).id == id);
  const auto consumer = queue.consumer(
      [&](const Message& message) { return message.payload() == large + "3" ? ack() : reject("wrong"); });
  RescheduleOptions now;
  CHECK(queue.producer.reschedule(id, now) == Outcome::done);
  consumer->start();
  CHECK(eventually([&] { return messages(queue) == 0; }, kPatience));
  CHECK(consumer->stop(kPatience));
  CHECK(queue.inspector.counts().dead == 0);
  CHECK(test::redis().cmd({"KEYS", queue.base + ":staged:*"}).array.empty());
}

// ---- Ids, repeats and partitions ------------------------------------------------------------------------------------

TEST_CASE("unique: the id comes before the key, so a repeated send finds its own message") {
  Queue queue;
  SendOptions options = keyed("k", OnConflict::replace);
  options.id = kId;
  CHECK(queue.producer.send("1", options).created());
  CHECK(queue.producer.send("2", options).result == SendResult::existed);
  CHECK(payload_of(queue, kId) == "1");
  options.unique.key = "other";
  CHECK(queue.producer.send("3", options).result == SendResult::existed);
  CHECK(queue.producer.send("4", keyed("other")).created());
}

TEST_CASE("unique: the ids of an error are those to send again with, also of messages that were kept or replaced") {
  Queue queue;
  QueueLimits limits;
  limits.length = 2;
  REQUIRE(queue.admin.set_limits(limits));
  Producer producer(Client(test::server().url()), queue.name);
  const std::string first = producer.send("old", keyed("a")).id;
  const std::string second = producer.send("old", keyed("b")).id;
  std::vector<OutgoingMessage> batch{
      {"kept", keyed("a")}, {"replaced", keyed("b", OnConflict::replace)}, {"refused", keyed("c")}};
  for (OutgoingMessage& message : batch) message.options.id = new_id();
  try {
    producer.send_batch(batch);
    FAIL("the queue took more than its limit");
  } catch (const QueueFull& e) {
    REQUIRE(e.ids().size() == 3);
    for (std::size_t i = 0; i < 3; ++i) CHECK(e.ids()[i] == batch[i].options.id);
  }
  CHECK(payload_of(queue, second) == "replaced");
  CHECK(payload_of(queue, first) == "old");
}

TEST_CASE("unique: after a lost answer the send is repeated, and there is one message with its payload") {
  PrivateServer own;
  FaultProxy proxy(own.socket());
  Queue queue(own.url());
  ProducerOptions options;
  options.send_timeout = 60s;
  Producer producer(proxy.url(), queue.name, options);
  producer.send("connects", keyed("first"));
  for (const OnConflict conflict : {OnConflict::keep, OnConflict::replace, OnConflict::postpone}) {
    CAPTURE(static_cast<int>(conflict));
    const std::size_t before = messages(queue);
    const std::string key = "k" + std::to_string(static_cast<int>(conflict));
    proxy.drop_replies(1);
    const Sent sent = producer.send("1", keyed_later(key, conflict, 1h));
    CHECK(sent.created());
    proxy.drop_replies(1);
    const Sent second = producer.send("2", keyed_later(key, conflict, 1h));
    CHECK(second.result == (conflict == OnConflict::keep ? SendResult::kept : SendResult::replaced));
    CHECK(second.id == sent.id);
    CHECK(payload_of(queue, sent.id) == (conflict == OnConflict::keep ? "1" : "2"));
    CHECK(messages(queue) == before + 1);
  }
  SendOptions window = keyed("w");
  window.unique.window = 1h;
  proxy.drop_replies(1);
  CHECK(producer.send("1", window).created());
}

TEST_CASE("unique: while Redis is away, later updates of a key wait behind the first one") {
  PrivateServer own;
  FaultProxy proxy(own.socket());
  Queue queue(own.url());
  ProducerOptions options;
  options.send_timeout = 60s;
  Producer producer(proxy.url(), queue.name, options);
  const std::string id = producer.send("0", keyed_later("k", OnConflict::replace, 1h)).id;
  for (int round = 0; round < 5; ++round) {
    proxy.drop_replies(1);
    for (int i = 1; i <= 200; ++i) {
      producer.send_async(std::to_string(i), keyed_later("k", OnConflict::replace, 1h), [&](const AsyncSent& one) {
        CHECK(one);
        CHECK(one.id() == id);
      });
    }
    CHECK(producer.flush(kPatience));
    CHECK(payload_of(queue, id) == "200");
  }
  CHECK(messages(queue) == 1);
}

TEST_CASE("unique: with partitions, messages with a key are in partition 0, and batches go to all") {
  Queue queue;
  queue.admin.set_partitions(4);
  std::vector<OutgoingMessage> batch;
  for (int i = 0; i < 2000; ++i) {
    batch.push_back({std::to_string(i), i % 10 == 0 ? keyed(std::to_string(i % 50)) : SendOptions()});
  }
  const auto sent = queue.producer.send_batch(batch);
  CHECK(messages(queue) == 1800 + 5);
  CHECK(queue.producer.send("x", keyed("0")).id == sent.front().id);
  const test::PartitionSender other(test::server().url(), queue.name);
  SendOptions options = keyed("k");
  options.id = other.id(3);
  CHECK(has(thrown([&] { queue.producer.send("x", options); }), "partition 3"));
  CHECK(has(thrown([&] { queue.producer.send_async("x", options).get(); }), "partition 3"));
  options.id = other.id(0);
  CHECK(queue.producer.send("x", options).created());
  Queue undivided;
  const test::PartitionSender chance(test::server().url(), undivided.name);
  options.id = chance.id(3);  // an id of the caller may name a partition that the queue never had
  CHECK(undivided.producer.send("x", options).created());
}

// ---- Wrong options --------------------------------------------------------------------------------------------------

TEST_CASE("unique: wrong options are refused with their values") {
  Queue queue;
  const auto refused = [&](const UniqueOptions& unique) {
    SendOptions options;
    options.unique = unique;
    return thrown([&] { queue.producer.send("x", options); });
  };
  CHECK(refused({"", OnConflict::replace}) ==
        "invalid_argument: unique.key: empty; expected 1 to 128 bytes when another member of unique is set");
  CHECK(has(refused({"", OnConflict::keep, false}), "unique.key: empty"));
  CHECK(has(refused({"", OnConflict::keep, true, 1s}), "unique.key: empty"));
  CHECK(refused({std::string(129, 'k')}) == "invalid_argument: unique.key: 129 bytes; expected 1 to 128 bytes");
  CHECK(refused({"k", OnConflict::keep, true, -1ms}) ==
        "invalid_argument: unique.window: -1 ms; expected at least 0 ms");
  CHECK(has(refused({"k", OnConflict::replace, true, 1s}), "unique.window: 1000 ms; expected none with on_conflict"));
  CHECK(has(refused({"k", OnConflict::keep, true, 0s, 1s}), "unique.max_wait: 1000 ms; expected none with"));
  CHECK(has(refused({"k", OnConflict::postpone, true, 0s, 0ms}), "unique.max_wait: 0 ms"));
  CHECK(has(thrown([&] { queue.producer.send_batch(numbers(2), keyed("k")); }),
            "unique.key: \"k\"; every message of a batch needs its own"));
  CHECK(messages(queue) == 0);
  const std::string any("\0\xff key\n", 7);
  const std::string id = queue.producer.send("x", keyed(any)).id;
  CHECK(queue.producer.send("x", keyed(any)).id == id);
  CHECK(queue.producer.send("x", keyed(std::string(128, 'k'))).created());
}

TEST_CASE("unique: a conflict needs no second call if the Producer knows the message that has the key") {
  PrivateServer own;
  Queue queue(own.url());
  Redis redis(own.socket());
  const auto scripts = [&] {
    const std::string line = test::info("commandstats", "cmdstat_evalsha", redis);
    return std::stoull(line.substr(line.find("calls=") + 6));
  };
  for (const OnConflict conflict : {OnConflict::keep, OnConflict::replace}) {
    for (int i = 0; i < 3; ++i) queue.producer.send("x", keyed_later("k", conflict, 1h));
  }
  const auto before = scripts();
  for (int i = 0; i < 100; ++i) queue.producer.send("x", keyed_later("k", OnConflict::replace, 1h));
  CHECK(scripts() == before + 100);
  Producer other(own.url(), queue.name);
  CHECK(other.send("y", keyed("k", OnConflict::replace)).result == SendResult::replaced);
  CHECK(scripts() <= before + 102);
}

TEST_CASE("unique: cancel, reschedule and find by key concern the message that has it") {
  Queue queue;
  const Key key("k");
  CHECK(queue.producer.cancel(key) == State::unknown);
  CHECK(queue.producer.reschedule(key, {}) == Outcome::unknown);
  CHECK_FALSE(queue.inspector.find(key));
  const std::string id = queue.producer.send("1", keyed("k")).id;
  REQUIRE(queue.inspector.find(key));
  CHECK(queue.inspector.find(key)->id == id);
  CHECK(queue.inspector.find(key)->payload == "1");
  CHECK(queue.producer.reschedule(key, {1h, {}}) == Outcome::done);
  CHECK(queue.state(id) == State::pending);
  CHECK(queue.producer.cancel(key) == State::pending);
  CHECK(queue.state(id) == State::unknown);
  CHECK_FALSE(queue.inspector.find(key));
  const std::string dead = queue.producer.send("2", keyed("k")).id;
  CHECK(queue.admin.bury(dead).front() == Outcome::done);
  CHECK_FALSE(queue.inspector.find(key));  // a dead letter has no key
  CHECK(queue.producer.cancel(key) == State::unknown);
  const std::string held = queue.producer.send("3", keyed("k", OnConflict::replace)).id;
  Holder holder(queue);
  holder.wait_for(1);
  CHECK(queue.producer.reschedule(key, {1h, {}}) == Outcome::held);
  const std::string second = queue.producer.send("4", keyed_later("k", OnConflict::replace, 1h)).id;
  CHECK(queue.producer.cancel(key) == State::pending);  // not the one that a consumer holds
  CHECK(queue.state(second) == State::unknown);
  CHECK(queue.state(held) == State::unack);
  holder.let_go();
  CHECK(thrown([&] { static_cast<void>(queue.producer.cancel(Key(""))); }) ==
        "invalid_argument: key: empty; expected 1 to 128 bytes");
  CHECK(has(thrown([&] { static_cast<void>(queue.admin.cancel(key)); }), "id: the key \"k\"; expected a UUID"));
}

TEST_CASE("unique: with durability, cancel and reschedule by key reach the message that has the key now") {
  PrivateServer own;
  Queue queue(own.url());
  ProducerOptions options;
  options.durability = Durability::replicas(1, 50ms);
  options.send_timeout = 60s;
  options.logger = [](const LogEntry&) {};
  Producer producer(own.url(), queue.name, options);
  const std::string first = queue.producer.send("1", keyed("k")).id;
  CHECK(queue.producer.cancel(first) == State::ready);
  const std::string second = queue.producer.send("2", keyed("k")).id;
  CHECK(has(thrown([&] { static_cast<void>(producer.reschedule(Key("k"), {1h, {}})); }), "0 of 1 replicas"));
  CHECK(queue.state(second) == State::pending);
  CHECK(has(thrown([&] { static_cast<void>(producer.cancel(Key("k"))); }), "0 of 1 replicas"));
  CHECK(queue.state(second) == State::unknown);
}

TEST_CASE("unique: many messages with one key in a batch take no time that grows with its square") {
  Queue queue;
  std::vector<OutgoingMessage> batch;
  for (int i = 0; i < 5000; ++i) batch.push_back({std::to_string(i), keyed_later("k", OnConflict::replace, 1h)});
  const auto sent = queue.producer.send_batch(batch);
  CHECK(payload_of(queue, sent.front().id) == "4999");
}

TEST_CASE("unique: what is sent behind a repeated key takes effect behind it") {
  Queue queue;
  std::vector<OutgoingMessage> batch{{"1", keyed("k")}, {"2", {}}, {"3", keyed("k")}, {"4", {}}, {"5", keyed("l")}};
  SendOptions own = keyed("own");
  own.id = kId;
  batch.push_back({"6", own});
  own.unique.key = "other";
  batch.push_back({"7", own});
  const auto sent = queue.producer.send_batch(batch);
  CHECK(sent[2].result == SendResult::kept);
  CHECK(sent[2].id == sent[0].id);
  CHECK(sent[5].created());
  CHECK(sent[6].result == SendResult::existed);
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), quick(1));
  consumer->start();
  CHECK(ledger.settles(5));
  CHECK(consumer->stop(kPatience));
  CHECK(ledger.payloads() == std::vector<std::string>{"1", "2", "4", "5", "6"});
}

TEST_CASE("unique: with durability, a conflict is confirmed by its second call, not by the one that stores nothing") {
  Queue queue;
  const std::string id = queue.producer.send("1", keyed_later("k", OnConflict::replace, 1h)).id;
  ProducerOptions options;
  options.durability = Durability::replicas(1, 50ms);
  options.send_timeout = 60s;
  options.logger = [](const LogEntry&) {};
  Producer producer(test::server().url(), queue.name, options);
  const std::string error =
      thrown([&] { producer.send("2", keyed_later("k", OnConflict::replace, 1h)); });  // there is no replica
  CHECK(has(error, "0 of 1 replicas"));
  CHECK(payload_of(queue, id) == "2");
}

}  // namespace
}  // namespace delayqueue
