#include "support/answers.h"

#include <doctest/doctest.h>

#include "store/record.h"
#include "support/text.h"

namespace test {

using namespace std::chrono_literals;
using delayqueue::ConsumerOptions;
using delayqueue::LogEntry;
using delayqueue::Message;
using delayqueue::SendOptions;
using delayqueue::Severity;

delayqueue::Logger Lines::logger() {
  return [this](const LogEntry& entry) {
    const std::lock_guard lock(mutex_);
    entries_.push_back(entry);
  };
}

std::string Lines::find(const std::string& part, Severity least) const {
  const std::lock_guard lock(mutex_);
  for (const LogEntry& entry : entries_) {
    if (entry.severity >= least && has(entry.line, part)) return entry.line;
  }
  return {};
}

std::size_t Lines::count(Severity least) const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(entries_.begin(), entries_.end(), [&](const LogEntry& entry) { return entry.severity >= least; }));
}

std::size_t Lines::count(Severity severity, const std::string& part) const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::count_if(entries_.begin(), entries_.end(), [&](const LogEntry& entry) {
    return entry.severity == severity && has(entry.line, part);
  }));
}

std::string Lines::text() const {
  const std::lock_guard lock(mutex_);
  std::string all;
  for (const LogEntry& entry : entries_) all += entry.line + "\n";
  return all;
}

LogEntry Lines::entry(const std::string& part) const {
  const std::lock_guard lock(mutex_);
  for (const LogEntry& entry : entries_) {
    if (has(entry.line, part)) return entry;
  }
  return {};
}

namespace {

delayqueue::PrivateServerOptions with(std::vector<std::string> arguments) {
  delayqueue::PrivateServerOptions options;
  options.arguments = {"--user", "worker", "on", ">pw", "~*", "&*", "+@all"};
  options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
  return options;
}

// Short timeouts where the fault is silence, which only a timeout detects. Long ones otherwise, so that a slow machine
// is not mistaken for a silent server.
delayqueue::ClientOptions timeouts_for(const ServerFault& fault) { return with_timeouts(fault.ran ? 1s : 10s); }

// Checks that the call throws the expected error.
template <class Call>
void check_refused(const ServerFault& fault, const std::string& who, Call call) {
  const std::string text = thrown(call);
  CAPTURE(who);
  CHECK(has(text, fault.error + ": "));
  CHECK(has(text, fault.says));
  CHECK(has(text, fault.advice));
}

}  // namespace

World::World(std::vector<std::string> arguments) : server(with(std::move(arguments))), admin(server.socket()) {
  admin.cmd({"PING"});  // connects before the fault
}

std::string World::url() const { return "unix://worker:pw@" + server.socket(); }

void World::end_connections() { admin.cmd({"CLIENT", "KILL", "SKIPME", "yes"}); }

void add_keys_to_load(World& world) {
  world.admin.cmd({"EVAL", "for i = 1, 4000 do redis.call('SET', i, string.rep('x', 100)) end", "0"});
  world.admin.cmd({"BGREWRITEAOF"});
  const auto written = [&] {
    return info("persistence", "aof_rewrites", world.admin) == "1" &&
           info("persistence", "aof_rewrite_in_progress", world.admin) == "0";
  };
  REQUIRE(eventually(written, kPatience));
}

void set_config(Redis& client, const std::string& option, const std::string& value) {
  REQUIRE(client.cmd({"CONFIG", "SET", option, value}) == "OK");
}

void see_through(const ServerFault& fault, World& world, const std::string& url) {
  CAPTURE(fault.name);
  const std::string name = fresh_queue();
  const delayqueue::Client client(url, timeouts_for(fault));
  delayqueue::Producer producer(client, name);
  delayqueue::Inspector inspector(client, name);
  delayqueue::QueueAdmin admin(client, name);
  producer.send_batch(numbers(6));
  REQUIRE(inspector.counts().ready == 6);
  if (!fault.refuses_reads) admin.resume();  // connects before the fault

  Lines lines;
  Ledger ledger;
  Gate gate;
  ConsumerOptions options = quick(2);
  options.tuning.prefetch = 0;
  options.logger = lines.logger();
  delayqueue::Consumer consumer(client, name, ledger.watch([&](const Message&) {
    gate.pass();
    return delayqueue::ack();
  }),
                                options);
  consumer.start();
  REQUIRE(eventually([&] { return ledger.running() == 2 && consumer.metrics().stats.connected; }, kPatience));

  fault.provoke(world);
  SendOptions again;
  again.id = delayqueue::store::new_ids(1).front();
  check_refused(fault, "send", [&] { producer.send("sent again", again); });
  if (fault.refuses_reads) {
    check_refused(fault, "Inspector", [&] { return inspector.counts(); });
  } else {
    check_refused(fault, "QueueAdmin", [&] { admin.pause(); });
  }
  gate.open();
  REQUIRE(ledger.settles(2));
  const auto reported = [&] { return !lines.find(fault.says).empty() && consumer.metrics().stats.errors >= 3; };
  CHECK(eventually(reported, kPatience));
  const std::string line = lines.find(fault.says);
  CHECK(has(line, fault.advice));
  const delayqueue::ConsumerStats during = consumer.metrics().stats;
  CHECK(has(during.last_error, fault.says));
  CHECK(!during.connected);
  CHECK(ledger.size() == 2);
  CHECK(during.errors < 50);  // a loop without pauses makes hundreds

  fault.undo(world);
  const auto gone = std::chrono::steady_clock::now();
  CHECK(eventually([&] { return consumer.metrics().stats.acked >= (fault.ran ? 4 : 6); }, kPatience));
  CHECK(ledger.settles(6));
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - gone);
  MESSAGE(fault.name << ": went on " << took.count() << " ms after it was over");
  CHECK(took < fault.pause + 5s);
  // Calls fail at once until a probe has found that the outage is over.
  const auto sends_again = [&] {
    try {
      return producer.send("sent again", again).created();
    } catch (const delayqueue::ConnectionError& e) {
      CHECK_MESSAGE(e.not_sent(), e.what());
      return false;
    }
  };
  if (!fault.ran) CHECK(eventually(sends_again, kPatience));
  CHECK(ledger.settles(7));
  CHECK(eventually([&] { return inspector.counts().totals.acked == 7; }, kPatience));
  CHECK(ledger.size() == 7);
  CHECK(ledger.overlaps() == 0);
  const delayqueue::Totals totals = inspector.counts().totals;
  CHECK(totals.sent == 7);
  CHECK(totals.retried == 0);
  CHECK(totals.dead_lettered == 0);
  CHECK(eventually([&] { return consumer.metrics().stats.connected; }, kPatience));
  CHECK(!lines.find("Redis answers again", Severity::info).empty());
  CHECK(lines.count() < 10);
  CHECK(consumer.stop(kPatience));
}

}  // namespace test
