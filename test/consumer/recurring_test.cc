#include "support/test.h"

#include "support/wrong_clock.h"

#include <delayqueue/schedules.h>

#include <mutex>

// Consumers of a queue with schedules.
namespace delayqueue {
namespace {

Schedule repeated_each(milliseconds period, Missed missed = Missed::last, Overlap overlap = Overlap::allow) {
  Schedule schedule;
  schedule.every = period;
  schedule.payload = "tick";
  schedule.missed = missed;
  schedule.overlap = overlap;
  return schedule;
}

// The slots of the deliveries that have begun, in seconds.
std::vector<std::int64_t> slots_of(const Ledger& ledger) {
  std::vector<std::int64_t> slots;
  for (const auto& entry : ledger.entries()) {
    const auto occurrence = entry.message.occurrence();
    REQUIRE(occurrence);
    slots.push_back(std::chrono::duration_cast<std::chrono::seconds>(occurrence->slot.time_since_epoch()).count());
  }
  return slots;
}

class ScheduleWarnings {
 public:
  Logger logger() {
    return [this](const LogEntry& entry) {
      const std::lock_guard lock(mutex_);
      if (entry.severity == Severity::warning) all_.push_back(entry.line);
    };
  }
  std::size_t count(const std::string& part) {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(
        std::count_if(all_.begin(), all_.end(), [&](const auto& one) { return one.find(part) != std::string::npos; }));
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> all_;
};

TEST_CASE("schedules R8: consumers keep a schedule going: each slot is delivered once, and none early") {
  Queue queue;
  Schedules schedules(queue.client, queue.name);
  Ledger ledger;
  const auto handler = [](const Message& message) {
    CHECK(message.payload() == "tick");
    CHECK(message.occurrence()->schedule == "tick");
    CHECK(std::chrono::system_clock::now() + 1ms >= message.occurrence()->slot);
    return ack();
  };
  std::vector<test::ConsumerPtr> consumers;
  for (int i = 0; i < 3; ++i) consumers.push_back(queue.consumer(ledger.watch(handler), quick(2)));
  for (const auto& consumer : consumers) consumer->start();
  CHECK(schedules.set("tick", repeated_each(1s, Missed::all)) == SetResult::created);  // they do not know of it
  REQUIRE(ledger.settles(5));
  for (const auto& consumer : consumers) CHECK(consumer->stop());
  const std::vector<std::int64_t> slots = slots_of(ledger);
  for (std::size_t i = 1; i < slots.size(); ++i) CHECK(slots[i] == slots[i - 1] + 1);
  CHECK(schedules.find("tick")->behind < kPatience);
}

TEST_CASE("schedules R10: what was missed is decided before the first take after a connect") {
  for (const Missed missed : {Missed::none, Missed::last, Missed::all}) {
    CAPTURE(std::string(to_string(missed)));
    if (!test::can_run_with_wrong_clock()) return;
    test::WrongClock clock;
    Queue queue(clock.server().url());
    Schedules schedules(queue.client, queue.name);
    CHECK(schedules.set("tick", repeated_each(1h, missed)) == SetResult::created);
    const auto first = *schedules.find("tick")->next;
    const auto until_first = first - std::chrono::system_clock::now();
    clock.jump(std::chrono::duration_cast<milliseconds>(until_first) + 6h + 30min);
    Ledger ledger;
    const auto consumer = queue.consumer(ledger.watch());
    consumer->start();
    const std::size_t expected = missed == Missed::none ? 0 : missed == Missed::last ? 1 : 7;
    REQUIRE(eventually([&] { return *schedules.find("tick")->next > first + 6h; }, kPatience));
    REQUIRE(ledger.settles(expected));
    CHECK(eventually([&] { return queue.inspector.counts().pending == 1; }, kPatience));
    CHECK(consumer->stop());
    const std::vector<std::int64_t> slots = slots_of(ledger);
    CHECK(slots.size() == expected);
    const auto hours = [&](std::int64_t slot) {
      return (slot - std::chrono::duration_cast<std::chrono::seconds>(first.time_since_epoch()).count()) / 3600;
    };
    if (missed == Missed::last) CHECK(hours(slots.at(0)) == 6);
    for (std::size_t i = 0; missed == Missed::all && i < slots.size(); ++i) {
      CHECK(hours(slots[i]) == static_cast<std::int64_t>(i));
    }
    CHECK(queue.inspector.counts().totals.skipped == (missed == Missed::all ? 0U : 1U));
  }
}

TEST_CASE("schedules R18: the time of a pause counts as missed, also for a consumer that runs all the time") {
  if (!test::can_run_with_wrong_clock()) return;
  for (const Missed missed : {Missed::none, Missed::last}) {
    CAPTURE(std::string(to_string(missed)));
    test::WrongClock clock;
    Queue queue(clock.server().url());
    Schedules schedules(queue.client, queue.name);
    Ledger ledger;
    const auto consumer = queue.consumer(ledger.watch());
    CHECK(schedules.set("tick", repeated_each(1h, missed)) == SetResult::created);
    consumer->start();
    queue.admin.pause();
    const auto first = *schedules.find("tick")->next;
    std::this_thread::sleep_for(300ms);  // the consumer looks
    clock.jump(30h + 30min);
    std::this_thread::sleep_for(300ms);
    CHECK(*schedules.find("tick")->next == first);
    queue.admin.resume();
    REQUIRE(eventually([&] { return *schedules.find("tick")->next > first + 29h; }, kPatience));
    CHECK(eventually([&] { return queue.inspector.counts().pending == 1; }, kPatience));
    REQUIRE(ledger.settles(missed == Missed::none ? 0 : 1));
    CHECK(consumer->stop());
    CHECK(ledger.size() == (missed == Missed::none ? 0U : 1U));
  }
}

TEST_CASE("schedules R19: with skip one runs at a time, the others are left out, and the schedule goes on") {
  Queue queue;
  Schedules schedules(queue.client, queue.name);
  Ledger ledger;
  std::atomic<int> runs{0};
  const auto handler = [&](const Message&) {
    std::this_thread::sleep_for(2200ms);
    return ++runs == 1 ? nack("once") : ack();
  };
  const auto one = queue.consumer(ledger.watch(handler), quick(4));
  const auto other = queue.consumer(ledger.watch(handler), quick(4));
  CHECK(schedules.set("tick", repeated_each(1s, Missed::last, Overlap::skip)) == SetResult::created);
  one->start();
  other->start();
  REQUIRE(ledger.settles(3));
  CHECK(ledger.most_running() == 1);
  CHECK(queue.inspector.counts().totals.skipped > 0);
  CHECK(ledger.entries()[1].message.attempt() == 2);  // the retry is not left out
  CHECK(one->stop());
  CHECK(other->stop());
  CHECK(one->metrics().stats.skipped + other->metrics().stats.skipped <= queue.inspector.counts().totals.skipped);
}

TEST_CASE("schedules R19: a redriven occurrence waits while another one runs, and is handled then") {
  Queue queue;
  Schedules schedules(queue.client, queue.name);
  Ledger ledger;
  Gate gate;
  std::mutex mutex;
  std::string first;
  std::string running;
  const auto consumer = queue.consumer(ledger.watch([&](const Message& message) {
    {
      const std::lock_guard lock(mutex);
      if (first.empty()) {
        first = message.id();
        return reject("the first one");
      }
      if (running.empty() && message.id() != first) running = message.id();
      if (running != message.id()) return ack();
    }
    gate.pass();
    return ack();
  }),
                                       quick(4));
  CHECK(schedules.set("tick", repeated_each(1s, Missed::last, Overlap::skip)) == SetResult::created);
  consumer->start();
  REQUIRE(ledger.reaches(2));
  CHECK(queue.admin.redrive(first) == std::vector<Outcome>{Outcome::done});
  std::this_thread::sleep_for(1500ms);
  CHECK(ledger.running() == 1);
  CHECK(schedules.pause("tick"));
  gate.open();
  CHECK(eventually(
      [&] {
        const auto entries = ledger.entries();
        return std::count_if(entries.begin(), entries.end(),
                             [&](const auto& one) { return one.message.id() == first; }) == 2;
      },
      kPatience));
  CHECK(ledger.most_running() == 1);
  CHECK(consumer->stop());
}

TEST_CASE("schedules R11: schedules that cannot be read are named once, and do not hide those behind them") {
  Queue queue;
  Schedules schedules(queue.client, queue.name);
  for (int i = 0; i < 150; ++i) {
    const std::string name = "later " + std::to_string(i);
    test::redis().cmd({"HSET", queue.base + ":schedules", name, "1 active\nspread=5\nevery=60000\npayload="});
    test::redis().cmd({"ZADD", queue.base + ":schedules:next", std::to_string(i), name});
  }
  ScheduleWarnings warnings;
  ConsumerOptions options = quick(2);
  options.logger = warnings.logger();
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), options);
  CHECK(schedules.set("tick", repeated_each(1s)) == SetResult::created);
  consumer->start();
  REQUIRE(ledger.settles(3));
  CHECK(consumer->stop());
  CHECK(warnings.count(
            "the schedule \"later 7\" stands still here: the stored definition: the key spread is unknown") == 1);
  CHECK(schedules.list().size() == 151);
  CHECK(schedules.find("later 7")->problem.find("spread is unknown") != std::string::npos);
  CHECK(test::redis().cmd({"HGET", queue.base + ":schedules", "later 7"}).text.find("spread=5") != std::string::npos);
}

TEST_CASE("schedules R12: consumers find a schedule whose slot was lost") {
  Queue queue;
  Schedules schedules(queue.client, queue.name);
  CHECK(schedules.set("tick", repeated_each(1h)) == SetResult::created);
  test::redis().cmd({"DEL", queue.base + ":schedules:next"});
  CHECK_FALSE(schedules.find("tick")->next);
  const auto consumer = queue.consumer(test::ack_all);
  consumer->start();
  CHECK(eventually([&] { return schedules.find("tick")->next.has_value(); }, kPatience));
  CHECK(consumer->stop());
  CHECK(queue.inspector.counts().pending == 1);
}

TEST_CASE("schedules R14: a consumer whose user may not advance warns once, and delivers messages") {
  Queue queue;
  for (const char* key : {":schedules", ":schedules:next", ":schedules:open"}) {
    test::redis().cmd({"SET", queue.base + key, "of another program"});
  }
  ScheduleWarnings warnings;
  ConsumerOptions options = quick(2);
  options.logger = warnings.logger();
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), options);
  consumer->start();
  for (int i = 0; i < 20; ++i) queue.send("x");
  REQUIRE(ledger.settles(20));
  CHECK(eventually([&] { return warnings.count("the schedules of this queue") == 1; }, kPatience));
  CHECK(consumer->stop());
  CHECK(consumer->metrics().stats.errors == 0);
}

}  // namespace
}  // namespace delayqueue
