#include "support/answers.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "store/record.h"

namespace test {

using namespace std::chrono_literals;
using delayqueue::ConsumerOptions;
using delayqueue::Message;
using delayqueue::SendOptions;
using delayqueue::Severity;
using Clock = std::chrono::steady_clock;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

delayqueue::Logger Lines::logger() {
  return [this](Severity severity, const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.emplace_back(severity, line);
  };
}

std::string Lines::find(const std::string& part, Severity least) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [severity, line] : lines_) {
    if (severity >= least && has(line, part)) return line;
  }
  return {};
}

std::size_t Lines::count(Severity least) const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(lines_.begin(), lines_.end(), [&](const auto& line) { return line.first >= least; }));
}

namespace {

delayqueue::PrivateServerOptions with(std::vector<std::string> arguments) {
  delayqueue::PrivateServerOptions options;
  options.arguments = {"--user", "worker", "on", ">pw", "~*", "&*", "+@all"};
  options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
  return options;
}

// Only silence takes time to be noticed: that of a server is told from that of the machine.
template <class Options>
Options hasty(const Trouble& trouble) {
  Options options;
  options.connection.connect_timeout = trouble.ran ? 1s : 10s;
  options.connection.command_timeout = options.connection.connect_timeout;
  return options;
}

// A call that is refused, and says so.
template <class Call>
void refused(const Trouble& trouble, const std::string& who, Call call) {
  const std::string text = thrown(call);
  CAPTURE(who);
  CHECK_MESSAGE(has(text, trouble.error + ": "), text);
  CHECK_MESSAGE(has(text, trouble.says), text);
  CHECK_MESSAGE(has(text, trouble.advice), text);
}

}  // namespace

World::World(std::vector<std::string> arguments) : server(with(std::move(arguments))), admin(server.socket()) {
  admin.cmd({"PING"});  // connected while that is possible
}

std::string World::url() const { return "unix://worker:pw@" + server.socket(); }

void World::end_connections() { admin.cmd({"CLIENT", "KILL", "SKIPME", "yes"}); }

void see_through(const Trouble& trouble, World& world, const std::string& url) {
  CAPTURE(trouble.name);
  const std::string name = fresh_queue();
  delayqueue::Producer producer(url, name, hasty<delayqueue::ProducerOptions>(trouble));
  delayqueue::Inspector inspector(url, name, hasty<delayqueue::InspectorOptions>(trouble));
  producer.send_batch(numbers(6));
  inspector.counts();

  Lines lines;
  Ledger ledger;
  Gate gate;
  ConsumerOptions options = quick(2);
  options.connection = hasty<ConsumerOptions>(trouble).connection;
  options.prefetch = 0;
  options.logger = lines.logger();
  delayqueue::Consumer consumer(url, name, ledger.watch([&](const Message&) {
    gate.pass();
    return true;
  }),
                                options);
  consumer.start();
  REQUIRE(eventually([&] { return ledger.running() == 2 && consumer.stats().connected; }, kPatience));

  trouble.provoke(world);
  SendOptions again;
  again.id = delayqueue::store::new_ids(1).front();
  refused(trouble, "send", [&] { producer.send("sent again", again); });
  refused(trouble, "Inspector", [&] { trouble.refuses_reads ? void(inspector.counts()) : inspector.pause(); });
  gate.open();
  REQUIRE(ledger.settles(2));
  const auto told = [&] { return !lines.find(trouble.says).empty() && consumer.stats().errors >= 3; };
  CHECK(eventually(told, kPatience));
  const std::string line = lines.find(trouble.says);
  CHECK_MESSAGE(has(line, trouble.advice), line);
  const delayqueue::ConsumerStats during = consumer.stats();
  CHECK_MESSAGE(has(during.last_error, trouble.says), during.last_error);
  CHECK(!during.connected);
  CHECK(ledger.size() == 2);
  CHECK(during.errors < 50);  // a loop without pauses makes hundreds

  trouble.undo(world);
  const auto gone = Clock::now();
  CHECK(eventually([&] { return consumer.stats().acked >= (trouble.ran ? 4 : 6); }, kPatience));
  CHECK(ledger.settles(6));
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - gone);
  MESSAGE(trouble.name << ": went on " << took.count() << " ms after it was over");
  CHECK(took < trouble.pause + 5s);
  if (!trouble.ran) CHECK(producer.send("sent again", again).created);
  CHECK(ledger.settles(7));
  CHECK(eventually([&] { return inspector.counts().totals.acked == 7; }, kPatience));
  CHECK(ledger.size() == 7);
  CHECK(ledger.overlaps() == 0);
  const delayqueue::Totals totals = inspector.counts().totals;
  CHECK(totals.sent == 7);
  CHECK(totals.retried == 0);
  CHECK(totals.dead == 0);
  CHECK(eventually([&] { return consumer.stats().connected; }, kPatience));
  CHECK(!lines.find("Redis answers again", Severity::info).empty());
  CHECK(lines.count() < 10);
  CHECK(consumer.stop(kPatience));
}

}  // namespace test
