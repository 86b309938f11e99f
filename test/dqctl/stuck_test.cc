// Tests of dqctl stuck.
#include "preamble.h"

#include "stuck.h"

using ::dqctl::Evidence;
using ::dqctl::Level;
using ::dqctl::StuckFinding;
using ::dqctl::StuckOptions;

namespace {

json stuck(std::vector<std::string> arguments, int code) {
  arguments.insert(arguments.begin(), {"stuck", "-o", "json", "--look", "300ms"});
  const Ran ran = run(arguments);
  CAPTURE(ran.err);
  CHECK(ran.code == code);
  return parse_json(ran.out);
}

std::vector<std::string> kinds(const json& document) {
  std::vector<std::string> out;
  for (const json& finding : document.at("findings")) out.push_back(finding.at("kind"));
  return out;
}

using Strings = std::vector<std::string>;

const dqctl::Time kNow = dqctl::Time(1'800'000'000s);

Evidence evidence() {
  Evidence seen;
  seen.before.counts.now = kNow - 1s;
  seen.now.counts.now = kNow;
  return seen;
}

StuckFinding only(const Evidence& seen) {
  const auto findings = ::dqctl::diagnose(seen, "q", StuckOptions());
  REQUIRE(findings.size() == 1);
  return findings.front();
}

}  // namespace

TEST_CASE("stuck: a healthy queue is OK") {
  test::empty_server();
  test::send("q", {"later"}, 1h);
  expect(run({"stuck", "q"}), 0, {out_is("q: OK: nothing is stuck\n")});
  CHECK(stuck({"q"}, 0) == parse_json(R"({"queue": "q", "level": "ok", "findings": []})"));
}

TEST_CASE("stuck: a queue that consumers serve is OK") {
  test::empty_server();
  delayqueue::Consumer consumer(test::server().url(), "q", [](const auto&) { return delayqueue::ack(); });
  consumer.start();
  test::send("q", test::numbered(200));
  CHECK(stuck({"q", "--warn", "1s"}, 0).at("level") == "ok");
  CHECK(consumer.stop());
}

TEST_CASE("stuck: messages that are long due, with no consumer, are a warning, then critical") {
  test::empty_server();
  test::send("my queue:eu", test::numbered(3), 1h);
  test::rewind("dp:my queue:eu", 1h + 5min);
  const Ran ran = expect(run({"stuck", "my queue:eu", "--look", "100ms"}), 5);
  CHECK(ran.out.find("my queue:eu: WARNING: 3 messages are due and not taken, the oldest for 5m") == 0);
  CHECK(has(ran.out, "no consumer runs"));
  CHECK(has(ran.out, "dqctl stats 'my queue:eu' --watch 2s"));
  const json document = stuck({"my queue:eu", "--crit", "5m"}, 5);
  CHECK(document.at("level") == "critical");
  CHECK(kinds(document) == Strings{"due"});
  CHECK(document.at("findings")[0].at("age_ms") >= 300'000);
  CHECK(document.at("findings")[0].at("count") == 3);
  CHECK(stuck({"my queue:eu", "--warn", "10m"}, 0).at("level") == "ok");
}

TEST_CASE("stuck: an ended lease that no consumer took back is critical") {
  test::empty_server();
  const std::string id = test::hold("q", -11min);
  const json finding = stuck({"q"}, 5).at("findings")[0];
  CHECK(holds(finding, {{"kind", "lease_ended"}, {"level", "critical"}, {"example", id}}));
  CHECK(has(finding.at("why"), "the consumer ended or was cut off"));
}

TEST_CASE("stuck: a paused queue is reported with reason and end, instead of the messages that wait because of it") {
  test::empty_server();
  test::send("q", {"x"});
  delayqueue::QueueAdmin(test::server().url(), "q").pause({1h, "migration\x1b[2J of users"});
  const json document = stuck({"q"}, 5);
  CHECK(kinds(document) == Strings{"paused"});
  CHECK(kinds(stuck({"q", "--warn", "1ms"}, 5)) == Strings{"paused"});  // waiting messages follow from the pause
  const Ran ran = run({"stuck", "q", "--look", "10ms"});
  CHECK(has(ran.out, "paused: migration\\x1b[2J of users; it ends in 59m"));
  CHECK(has(ran.out, "dqctl resume q"));
  delayqueue::Producer(test::server().url(), "q");
  test::redis().cmd({"DEL", "dp:q:ready"});
  CHECK(stuck({"q"}, 0).at("level") == "ok");  // a note without an alarm, because no message waits
}

TEST_CASE("stuck: ready messages that no consumer takes, and held messages that none finishes, are reported") {
  test::empty_server();
  test::send("q", {"x", "y"});
  CHECK(stuck({"q"}, 0).at("level") == "ok");  // not yet for as long as the default threshold
  const json none = stuck({"q", "--warn", "100ms"}, 5);
  CHECK(kinds(none) == Strings{"not_taken"});
  CHECK(has(none.at("findings")[0].at("why"), "nothing is in flight"));
  test::hold("q", 20s);
  const json slow = stuck({"q", "--warn", "100ms", "--crit", "200ms", "--held", "1h"}, 5);
  CHECK(kinds(slow) == Strings{"slow"});
  CHECK(slow.at("level") == "warning");
}

TEST_CASE("stuck: messages with many deliveries are reported with their reasons") {
  test::empty_server();
  test::hold("q", 20s, 4, "not yet hot");
  test::hold("q", 20s, 7, "gateway timeout");
  const std::string hottest = test::hold("q", 20s, 9, "gateway timeout");
  const json document = stuck({"q"}, 5);
  CHECK(kinds(document) == Strings{"hot_retries"});
  const json finding = document.at("findings")[0];
  CHECK(holds(finding, {{"count", 2}, {"example", hottest}, {"why", "2x gateway timeout"}}));
  CHECK(kinds(stuck({"q", "--hot", "10"}, 0)).empty());
}

TEST_CASE("stuck: messages that fail again and again are found with the default number of retries") {
  test::empty_server();
  delayqueue::Consumer consumer(test::server().url(), "q", [](const delayqueue::Message& message) {
    return delayqueue::nack(message.attempt() < 3 ? 1ms : 3'600'000ms, "gateway timeout");
  });
  consumer.start();
  test::send("q", test::numbered(2));
  REQUIRE(eventually([&] { return consumer.metrics().stats.nacked == 6; }, kPatience));
  const json document = stuck({"q"}, 5);
  CHECK(kinds(document) == Strings{"hot_retries"});
  CHECK(document.at("findings")[0].at("count") == 2);
  CHECK(has(document.at("findings")[0].at("what"), "2 messages delivered again and again (the most: 3 times)"));
  CHECK(document.at("findings")[0].at("why") == "2x gateway timeout");
  CHECK(kinds(stuck({"q", "--hot", "5"}, 0)).empty());
  CHECK(consumer.stop());
}

TEST_CASE("stuck: missing bodies are reported; dead letters are a note") {
  test::empty_server();
  const auto later = test::send("q", {"a", "b"}, 1h);
  test::make_dead("q", test::numbered(3), "no such user");
  test::make_dead("q", test::numbered(2), "gateway timeout");
  const json note = stuck({"q"}, 0);
  CHECK(note.at("level") == "ok");
  CHECK(kinds(note) == Strings{"dead"});
  CHECK(note.at("findings")[0].at("why") == "3x no such user; 2x gateway timeout");
  test::redis().cmd({"DEL", "dp:q:msg:" + later[1]});
  const json document = stuck({"q"}, 5);
  CHECK(kinds(document) == Strings{"no_body", "dead"});
  CHECK(document.at("findings")[0].at("example") == later[1]);
}

TEST_CASE("stuck: a missing queue is exit code 3, and wrong arguments are exit code 2") {
  test::empty_server();
  CHECK(run({"stuck", "nowhere"}).code == 3);
  test::send("q", {"x"});
  CHECK(run({"stuck", "q", "--warn", "10m", "--crit", "1m"}).code == 2);
  CHECK(run({"stuck", "q", "--hot", "1"}).code == 2);
}

TEST_CASE("stuck rules: slow consumers are reported differently from no consumers") {
  Evidence seen = evidence();
  seen.now.counts.due = 5;
  seen.now.counts.oldest_due = kNow - 2min;
  CHECK(has(only(seen).why, "no consumer runs"));
  CHECK(only(seen).level == Level::warning);
  seen.now.counts.totals.delivered = 1;
  CHECK(only(seen).why == "consumers run, but fall behind: it grows by 5.0/s (5.0/s arrive, 0/s are handled; over 1s)");
  seen.now.counts.oldest_due = kNow - 10min;
  CHECK(only(seen).level == Level::critical);
  seen.now.counts.oldest_due = kNow - 59s;
  CHECK(::dqctl::diagnose(seen, "q", StuckOptions()).empty());
}

TEST_CASE("stuck rules: a message whose payload arrives slowly is told from one whose handler hangs") {
  Evidence seen = evidence();
  seen.now.counts.unack = 1;
  ::dqctl::HeldMessage held;
  held.id = "first";
  held.since = kNow - 2min;
  held.worker.host = "web-1";
  held.worker.pid = 4711;
  held.fetching = 60'000'000;
  seen.running = {held};
  CHECK(only(seen).why ==
        "payloads arrive slowly: host web-1, process 4711, first for 2m, a payload of 60,000,000 bytes");
  seen.running[0].fetching.reset();
  CHECK(has(only(seen).why, "handlers are slow, or hang: host web-1"));
}

// A queue that was read twice, a minute apart.
Evidence backlog(std::uint64_t before, std::uint64_t now, std::uint64_t delivered, std::uint64_t acked) {
  Evidence seen = evidence();
  seen.earlier.emplace().now = kNow - 60s;
  seen.earlier->ready = before;
  seen.now.counts.ready = now;
  seen.now.first_ready.emplace().id = "first";
  seen.now.counts.totals.delivered = delivered;
  seen.now.counts.totals.acked = acked;
  return seen;
}

TEST_CASE("stuck rules: a backlog that shrinks has the time at which the queue is empty, by the net rate") {
  const StuckFinding finding = only(backlog(30'000, 25'800, 8400, 8400));  // 140/s done, 70/s arrive
  CHECK(std::string(finding.kind) == "backlog");
  CHECK(finding.level == Level::warning);  // a message that arrives now waits for 25,800 others: 3 minutes
  REQUIRE(finding.pace.has_value());
  CHECK(finding.pace->trend == dqctl::Trend::shrinks);
  CHECK(finding.pace->net == doctest::Approx(-70));
  CHECK(finding.age == 25'800s / 70 + 571ms);
  CHECK(finding.what ==
        "25,800 messages wait in ready and retry; it shrinks by 70/s, and is empty in 6m8s (70/s arrive, 140/s are "
        "handled; over 1m)");
  CHECK(::dqctl::diagnose(backlog(5000, 4000, 8400, 8400), "q", StuckOptions()).empty());
}

TEST_CASE("stuck rules: a backlog grows if more arrives than is handled, whether sent or delivered again") {
  const StuckFinding sent = only(backlog(5000, 9800, 4200, 4200));  // 150/s arrive, 70/s are done
  CHECK(sent.pace->trend == dqctl::Trend::grows);
  CHECK_FALSE(sent.age.has_value());  // it is never empty
  CHECK(has(sent.what, "it grows by 80/s (150/s arrive, 70/s are handled; over 1m)"));
  Evidence seen = backlog(20'000, 15'000, 9000, 4200);  // 80 of 150 deliveries a second fail, and wait in unack
  seen.now.counts.unack = 9800;
  const StuckFinding failed = only(seen);
  CHECK(failed.pace->trend == dqctl::Trend::grows);
  CHECK(has(failed.what, "it grows by 80/s"));
}

TEST_CASE("stuck rules: a backlog holds if it changes by no more than chance") {
  for (const std::uint64_t now : {9900U, 10'000U, 10'100U}) {
    const StuckFinding finding = only(backlog(10'000, now, 6000, 6000));
    CHECK(finding.pace->trend == dqctl::Trend::holds);
    CHECK(has(finding.what, "it neither grows nor shrinks"));
    CHECK_FALSE(finding.age.has_value());
  }
}

TEST_CASE("stuck rules: the pace is of about a minute, or of as long as the queue was read") {
  dqctl::FindingWatch watch;
  dqctl::QueueState state;
  CHECK_FALSE(watch.a_minute_ago().has_value());
  for (int i = 0; i < 200; ++i) {
    state.counts.now = kNow + i * 1s;
    state.counts.ready = 20'000 + 80U * static_cast<unsigned>(i);
    state.counts.totals.delivered = state.counts.totals.acked = 70U * static_cast<unsigned>(i);
    state.first_ready.emplace().id = std::to_string(i);
    watch.update("q", state);
    const auto span = state.counts.now - watch.a_minute_ago()->now;
    CHECK(span >= std::min(60s, i * 1s));
    CHECK(span <= 65s);
    if (i == 0) continue;
    REQUIRE(watch.worst()->pace.has_value());
    CHECK(watch.worst()->pace->trend == dqctl::Trend::grows);
    CHECK(watch.worst()->pace->net == doctest::Approx(80));
  }
  state.counts.now += 10min;  // Redis was away: a reading that old is of no use
  watch.update("q", state);
  CHECK(watch.a_minute_ago()->now == state.counts.now);
  state.counts.now -= 1h;
  watch.update("q", state);
  CHECK(watch.a_minute_ago()->now == state.counts.now);
}

TEST_CASE("stuck rules: how long the oldest message waits, in each state where messages wait") {
  dqctl::QueueState state;
  state.counts.now = kNow;
  CHECK_FALSE(dqctl::oldest_of(state).has_value());
  state.counts.oldest_due = kNow + 1h;  // of pending, not due yet
  state.counts.oldest_lease = kNow + 1h;
  CHECK_FALSE(dqctl::oldest_of(state).has_value());
  state.first_ready.emplace().sent = kNow - 10s;  // when it was due is not known
  CHECK(dqctl::oldest_of(state) == 10s);
  state.counts.oldest_ready = kNow - 7s;
  CHECK(dqctl::oldest_of(state) == 7s);
  state.first_retry.emplace().sent = kNow - 20s;
  CHECK(dqctl::oldest_of(state) == 20s);
  state.first_retry->waits_since = kNow - 9s;
  CHECK(dqctl::oldest_of(state) == 9s);
  state.counts.overdue = 1;
  state.counts.oldest_lease = kNow - 11s;
  CHECK(dqctl::oldest_of(state) == 11s);
  state.counts.due = 1;
  state.counts.oldest_due = kNow - 12s;
  CHECK(dqctl::oldest_of(state) == 12s);
}

TEST_CASE("stuck rules: the wait in ready does not begin at 0 when the message that shows it is taken") {
  dqctl::FindingWatch watch;
  dqctl::QueueState state;
  const auto read = [&](std::chrono::seconds at, std::optional<std::chrono::seconds> probe) {
    state.counts.now = kNow + at;
    state.counts.oldest_ready.reset();
    if (probe) state.counts.oldest_ready = kNow + *probe;
    watch.update("q", state);
    return watch.oldest();
  };
  state.first_ready.emplace().sent = kNow - 1h;
  CHECK(read(5s, 0s) == 5s);
  CHECK(read(300s, 0s) == 300s);
  CHECK(read(301s, 301s) == 300s);
  CHECK(read(500s, 301s) == 300s);
  CHECK(read(601s, 301s) == 300s);
  CHECK(read(621s, 301s) == 320s);
  CHECK(read(622s, 622s) == 320s);
  state.first_ready.reset();
  CHECK_FALSE(read(623s, {}).has_value());
  state.first_ready.emplace();
  CHECK(read(625s, 624s) == 1s);
}

TEST_CASE("stuck: a queue that gets more than its consumers handle grows, and shrinks when nothing arrives") {
  test::empty_server();
  test::send("q", test::numbered(500));
  delayqueue::Consumer consumer(
      test::server().url(), "q",
      [](const auto&) {
        std::this_thread::sleep_for(20ms);
        return delayqueue::ack();
      },
      with(&delayqueue::ConsumerOptions::tuning, with(&delayqueue::ConsumerTuning::prefetch, 0)));
  consumer.start();
  std::atomic<bool> stop{false};
  std::thread sender([&] {
    while (!stop) {
      test::send("q", test::numbered(100));
      std::this_thread::sleep_for(50ms);
    }
  });
  const auto finding = [] {
    const Ran ran = expect(run({"stuck", "q", "--look", "2s", "--warn", "10ms", "--held", "1h", "-o", "json"}), 5);
    return json(parse_json(ran.out).at("findings").at(0));
  };
  const json grows = finding();
  stop = true;
  sender.join();
  CHECK(holds(grows, {{"kind", "backlog"}, {"trend", "grows"}}));
  CHECK(grows.at("net_per_second") > 10);
  CHECK(grows.at("age_ms").is_null());
  const json shrinks = finding();
  CHECK(shrinks.at("trend") == "shrinks");
  CHECK(shrinks.at("net_per_second") < 0);
  CHECK(shrinks.at("age_ms") > 0);
  static_cast<void>(consumer.stop(0ms));
}

TEST_CASE("stuck rules: the worst finding comes first") {
  Evidence seen = evidence();
  seen.now.counts.dead = 1;
  seen.now.counts.due = 1;
  seen.now.counts.oldest_due = kNow - 2min;
  seen.now.counts.overdue = 1;
  seen.now.counts.oldest_lease = kNow - 1h;
  const auto findings = ::dqctl::diagnose(seen, "q", StuckOptions());
  REQUIRE(findings.size() == 3);
  CHECK(std::string(findings[0].kind) == "lease_ended");
  CHECK(std::string(findings[1].kind) == "due");
  CHECK(std::string(findings[2].kind) == "dead");
}

TEST_CASE("stuck: a message held by one delivery alarms once it was observed for the threshold") {
  test::empty_server();
  test::send("q", {"1", "2"});
  DqctlOptions options;
  Dqctl worker({"work", "q", "--exec", "sleep 600", "--concurrency", "2"}, options);
  REQUIRE(eventually([] { return delayqueue::Inspector(test::server().url(), "q").counts().unack == 2; }));
  CHECK(kinds(stuck({"q"}, 0)).empty());
  const Ran ran = expect(run({"stuck", "q", "--warn", "1s", "--crit", "2s", "--look", "1100ms", "-o", "json"}), 5);
  const json warning = parse_json(ran.out);
  CHECK(kinds(warning) == Strings{"held"});
  CHECK(warning.at("level") == "warning");
  CHECK(warning.at("findings")[0].at("count") == 2);
  const json critical =
      parse_json(run({"stuck", "q", "--warn", "1s", "--crit", "2s", "--look", "2100ms", "-o", "json"}).out);
  CHECK(critical.at("level") == "critical");
  CHECK(has(run({"stuck", "q", "--held", "300ms", "--look", "400ms"}).out, "2 messages were held by one delivery"));
}

TEST_CASE("stuck: many dead letters alarm, and so do new ones during the observation") {
  test::empty_server();
  test::make_dead("q", test::numbered(20), "no such user");
  CHECK(stuck({"q"}, 0).at("level") == "ok");
  CHECK(stuck({"q", "--dead", "20"}, 5).at("level") == "warning");
  CHECK(stuck({"q", "--dead", "10", "--dead-crit", "20"}, 5).at("level") == "critical");
  CHECK(stuck({"q", "--dead", "21"}, 0).at("level") == "ok");
  CHECK(run({"stuck", "q", "--dead", "10", "--dead-crit", "9"}).code == 2);
  Dqctl watch({"stuck", "q", "--look", "1500ms", "-o", "json"});
  std::this_thread::sleep_for(500ms);
  test::make_dead("q", test::numbered(3), "no such user");
  const Ran ran = expect(watch.wait(), 5);
  CHECK(parse_json(ran.out).at("level") == "warning");
  CHECK(stuck({"q", "--dead-growth", "4"}, 0).at("level") == "ok");
}

TEST_CASE("stuck: without a name it lists all queues, the worst first, and before them those that cannot be read") {
  test::empty_server();
  test::send("well", {"x"}, 1h);
  test::send("due", {"x"}, 1h);
  test::rewind("dp:due", 1h + 5min);
  test::send("worse", {"x"}, 1h);
  test::rewind("dp:worse", 1h + 50min);
  Ran ran = expect(run({"stuck", "--look", "10ms"}), 5);
  CHECK(ran.out.find("worse: CRITICAL: 1 ") == 0);
  CHECK(has(ran.out, "\ndue: WARNING: 1 "));
  CHECK(has(ran.out, "\nwell: OK: nothing is stuck\n"));
  const json queues = stuck({}, 5).at("queues");
  REQUIRE(queues.size() == 3);
  CHECK(queues[0].at("queue") == "worse");
  CHECK(queues[0].at("findings")[0].at("kind") == "due");
  CHECK(queues[2].at("level") == "ok");
  test::redis().cmd({"DEL", "dp:well:ready"});
  test::redis().cmd({"SET", "dp:well:ready", "x"});
  ran = expect(run({"stuck", "--look", "10ms"}), 5);
  CHECK(ran.out.find("well: UNKNOWN: ") == 0);
  CHECK(run({"stuck", "--look", "10ms", "--warn", "3h", "--crit", "3h"}).code == 4);
  CHECK(stuck({"--warn", "3h", "--crit", "3h"}, 4).at("queues")[0].at("level") == "unknown");
  test::empty_server();
  test::send("well", {"x"}, 1h);
  test::redis().cmd({"SET", "dp:well:ready", "x"});
  CHECK(run({"stuck", "--look", "10ms"}).code == 1);  // no queue could be read
}

TEST_CASE("stuck: a foreign id among the dead letters causes no error") {
  test::empty_server();
  test::make_dead("q", {"x"}, "why");
  test::redis().cmd({"ZADD", "dp:q:dead", "1", "foreign"});
  CHECK(run({"stuck", "q", "--look", "10ms"}).code == 0);
}
