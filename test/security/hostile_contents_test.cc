// Another user of the same Redis writes into the keys of a queue. Messages are still delivered on time, and no foreign
// id reaches a handler.
#include "support/test.h"

#include "store/keys.h"
#include "store/record.h"
#include "support/answers.h"

namespace delayqueue {
namespace {

using std::chrono::system_clock;
using test::Lines;
using test::redis;

const std::vector<std::string> kStatistics = {"sent", "delivered", "acked",     "nacked",   "retried",
                                              "dead", "expired",   "cancelled", "redriven", "purged"};

struct Victim {
  std::string name = test::fresh_queue();
  std::string url = test::server().url();
  store::Keys keys = store::make_keys(name, {});
  Producer producer{url, name};
  Inspector inspector{url, name};
  QueueAdmin admin{url, name};

  void set_statistics(const std::string& value) {
    for (const auto& field : kStatistics) redis().cmd({"HSET", keys.stats, field, value});
  }

  std::string put(const std::string& list, const std::string& id) {
    redis().cmd({"SET", keys.bodies + id, "payload"});
    redis().cmd({"HSET", keys.count, id, "3"});
    redis().cmd({"RPUSH", list, id});
    return id;
  }
};

CheckOptions repairing() {
  CheckOptions options;
  options.repair = true;
  options.recheck_after = 0ms;
  options.sample = 100;
  return options;
}

TEST_CASE(
    "hostile contents: no value among the statistics fails a send, delivery, retry or verdict; a check repairs it") {
  for (const char* value : {"9223372036854775807", "-1", "bar", "1e300", ""}) {
    CAPTURE(std::string(value));
    Victim victim;
    victim.set_statistics(value);
    redis().cmd({"HSET", victim.keys.stats, "not ours", "1"});
    CHECK(victim.producer.send("ack").created());
    CHECK(victim.producer.send("nack").created());
    ConsumerOptions options = test::quick(2);
    options.backoff = Backoff::fixed(10ms);
    Ledger ledger;
    Consumer consumer(victim.url, victim.name, ledger.watch([](const Message& message) {
      return test::ack_if(message.payload() == "ack" || message.attempt() > 1);
    }),
                      options);
    consumer.start();
    CHECK(ledger.settles(2));
    CHECK(eventually([&] { return consumer.metrics().stats.acked == 2; }, kPatience));
    CHECK(consumer.stop());
    const Counts counts = victim.inspector.counts();
    CHECK(counts.ready + counts.retry + counts.unack + counts.dead == 0);
    CHECK(counts.totals.nacked < 10);

    const CheckReport report = victim.admin.check(repairing());
    CHECK_FALSE(report.clean());
    CHECK(report.counts.at(Problem::invalid_total) >= 2);
    CHECK(victim.admin.check(repairing()).clean());
    CHECK(victim.producer.send("more").created());
    CHECK(victim.inspector.counts().totals.sent >= 1);
  }
}

TEST_CASE("hostile contents: a million foreign fields among the statistics do not slow down counts()") {
  Victim victim;
  victim.producer.send("one");
  const std::string script = "for i = 1, 10000 do redis.call('HSET', KEYS[1], ARGV[1] .. i, i) end";
  for (int i = 0; i < 100; ++i) redis().cmd({"EVAL", script, "1", victim.keys.stats, std::to_string(i) + "field"});
  redis().cmd({"CONFIG", "RESETSTAT"});
  CHECK(victim.inspector.counts().totals.sent == 1);
  const std::string stats = redis().cmd({"INFO", "commandstats"}).text;
  CHECK(has(stats, "cmdstat_hmget"));
  CHECK_FALSE(has(stats, "cmdstat_hgetall"));
  redis().cmd({"UNLINK", victim.keys.stats});
}

TEST_CASE("hostile contents: a score that is no time is shown as the nearest time, and blocks no other message") {
  for (const char* score : {"inf", "1e300", "9223372036854775807"}) {
    CAPTURE(std::string(score));
    Victim victim;
    const auto later = delayed(1h);
    const std::string id = victim.producer.send("later", later).id;
    const std::string other = victim.producer.send("now").id;
    redis().cmd({"ZADD", victim.keys.pending, score, id});
    redis().cmd({"ZADD", victim.keys.dead, score, store::new_ids(1).front()});
    const auto found = victim.inspector.find(id);
    REQUIRE(found);
    CHECK(found->at > system_clock::now() + 24h);
    CHECK(victim.inspector.list(State::pending).size() == 1);
    CHECK(victim.inspector.list(State::dead).size() == 1);
    CHECK(victim.inspector.counts().oldest_due == found->at);
    Ledger ledger;
    Consumer consumer(victim.url, victim.name, ledger.watch([](const Message&) { return ack(); }), test::quick(1));
    consumer.start();
    CHECK(ledger.settles(1));
    CHECK(consumer.stop());

    const CheckReport report = victim.admin.check(repairing());
    CHECK(report.counts.at(Problem::invalid_time) == 2);
    CHECK(victim.admin.check(repairing()).counts.count(Problem::invalid_time) == 0);
    CHECK(victim.inspector.find(id)->at == found->at);
    RescheduleOptions now;
    CHECK(victim.producer.reschedule(id, now) == Outcome::done);
  }
}

TEST_CASE("hostile contents: a score below 1970 is shown as 1970") {
  Victim victim;
  const auto later = delayed(1h);
  const std::string id = victim.producer.send("later", later).id;
  redis().cmd({"ZADD", victim.keys.pending, "-inf", id});
  CHECK(victim.inspector.find(id)->at == system_clock::time_point());
  CHECK(victim.inspector.counts().oldest_due == system_clock::time_point());
}

TEST_CASE(
    "hostile contents: an id that is no UUID reaches no handler or event; it is removed, counted and logged once") {
  Victim victim;
  const std::vector<std::string> foreign = {"../../etc/passwd",
                                            "-rf",
                                            "zzz$(id)",
                                            "",
                                            "a b",
                                            std::string(500, 'x'),
                                            "0190a2b3-c4d5-7e6f-8a9b-0c1d2e3f4a5g",
                                            "0190A2B3-C4D5-7E6F-8A9B-0C1D2E3F4A5B",
                                            "x 0190a2b3-c4d5-7e6f-8a9b-0c1d2e3f4a5"};
  for (const auto& id : foreign) {
    victim.put(victim.keys.ready, id);
    victim.put(victim.keys.retry, id + "\x1b]");
    redis().cmd({"HSET", victim.keys.count, id + "!", "3"});
    redis().cmd({"ZADD", victim.keys.unack, "1", id + "!"});
    redis().cmd({"HSET", victim.keys.count, id + "?", "3"});
    redis().cmd({"ZADD", victim.keys.pending, "1", id + "?"});
  }
  const std::string id = victim.producer.send("a message").id;
  Lines lines;
  std::mutex mutex;
  std::set<std::string> seen;
  ConsumerOptions options = test::quick(4);
  options.logger = lines.logger();
  options.on_event = [&](const Event& event) {
    const std::lock_guard lock(mutex);
    seen.insert(event.ids.begin(), event.ids.end());
  };
  Ledger ledger;
  Consumer consumer(victim.url, victim.name, ledger.watch([&](const Message& message) {
    const std::lock_guard lock(mutex);
    seen.insert(message.id());
    return ack();
  }),
                    options);
  consumer.start();
  CHECK(ledger.settles(1));
  const auto gone = [&] {
    const Counts counts = victim.inspector.counts();
    return counts.ready + counts.retry + counts.unack + counts.pending + counts.garbage == 0 &&
           redis().cmd({"EXISTS", victim.keys.count}) == 0;
  };
  CHECK(eventually(gone, kPatience));
  CHECK(consumer.metrics().stats.foreign > 0);
  CHECK(victim.inspector.counts().totals.foreign > foreign.size());
  CHECK(consumer.stop());
  CHECK((seen == std::set<std::string>{id}));
  CHECK(ledger.size() == 1);
  CHECK_FALSE(lines.find("no UUID").empty());
  CHECK(lines.find("\x1b").empty());
  CHECK(lines.count() == 1);
}

TEST_CASE("hostile contents: a check reports an id that is no UUID in every key") {
  Victim victim;
  redis().cmd({"ZADD", victim.keys.pending, "9999999999", "../../etc/passwd"});
  redis().cmd({"HSET", victim.keys.count, "-rf", "3"});
  redis().cmd({"ZADD", victim.keys.dead, "1700000000", "zzz$(id)"});
  CHECK(victim.admin.check(repairing()).counts.at(Problem::foreign) == 3);
  CHECK(victim.admin.check(repairing()).clean());
}

TEST_CASE("hostile contents: no value or type of the key watch delays every delivery until the next poll") {
  const auto far = std::to_string(
      std::chrono::duration_cast<std::chrono::microseconds>((system_clock::now() + 2s).time_since_epoch()).count());
  for (const std::string& watch : {std::string("1 zz"), far + " zz", std::string("9999999999999999999999 zz")}) {
    CAPTURE(watch);
    Victim victim;
    redis().cmd({"SET", victim.keys.watch, watch});
    ConsumerOptions options = test::quick(1);
    options.tuning.poll_interval = 20s;
    Ledger ledger;
    Consumer consumer(victim.url, victim.name, ledger.watch([](const Message&) { return ack(); }), options);
    consumer.start();
    for (int i = 1; i <= 3; ++i) {
      const auto soon = delayed(300ms);
      victim.producer.send("soon", soon);
      const auto count = static_cast<std::size_t>(i);
      CHECK(eventually([&] { return ledger.size() >= count; }, 10s));  // the next poll would be after 20 s
    }
    CHECK(consumer.stop());
  }
}

TEST_CASE("hostile contents: a key wake full of foreign members makes a consumer neither busy nor late") {
  Victim victim;
  const std::string script = "for i = 1, 10000 do redis.call('ZADD', KEYS[1], i, ARGV[1] .. i) end";
  for (int i = 0; i < 10; ++i) redis().cmd({"EVAL", script, "1", victim.keys.wake, std::to_string(i) + "member"});
  ConsumerOptions options = test::quick(1);
  options.tuning.poll_interval = 20s;
  Ledger ledger;
  Consumer consumer(victim.url, victim.name, ledger.watch([](const Message&) { return ack(); }), options);
  consumer.start();
  CHECK(eventually([&] { return redis().cmd({"EXISTS", victim.keys.wake}) == 0; }, kPatience));
  victim.producer.send("now");
  CHECK(eventually([&] { return ledger.size() == 1; }, 10s));
  CHECK(consumer.stop());
}

TEST_CASE("hostile contents: a key paused of any type or value pauses the queue, is shown, and is removed by resume") {
  for (const bool list : {false, true}) {
    Victim victim;
    victim.producer.send("waits");
    redis().cmd(list ? std::vector<std::string>{"LPUSH", victim.keys.paused, "x"}
                     : std::vector<std::string>{"SET", victim.keys.paused, "\x1b[31m", "PX", "9223370000000000000"});
    CHECK(victim.inspector.counts().paused);
    CHECK(victim.inspector.paused().has_value());
    Ledger ledger;
    Consumer consumer(victim.url, victim.name, ledger.watch([](const Message&) { return ack(); }), test::quick(1));
    consumer.start();
    std::this_thread::sleep_for(200ms);
    CHECK(ledger.size() == 0);
    victim.admin.resume();
    CHECK(ledger.settles(1));
    CHECK(consumer.stop());
    CHECK_FALSE(victim.inspector.paused().has_value());
  }
}

TEST_CASE("hostile contents: bodies of another type are listed as missing, and everything else is shown") {
  Victim victim;
  const std::string id = victim.producer.send("one").id;
  victim.producer.send("two");
  redis().cmd({"DEL", victim.keys.bodies + id});
  redis().cmd({"LPUSH", victim.keys.bodies + id, "x"});
  const MessagePage page = victim.inspector.list(State::ready);
  REQUIRE(page.size() == 2);
  CHECK_FALSE(page.messages[0].size.has_value());
  CHECK(page.messages[1].payload == "two");
}

}  // namespace
}  // namespace delayqueue
