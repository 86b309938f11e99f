// Sandbox::play(): time passes, and what is due in it is handled when it is due.
#include "support/test.h"

#include <delayqueue/schedules.h>
#include <delayqueue/testing.h>

namespace delayqueue {
namespace {

using testing::Handled;
using testing::Sandbox;

using Strings = std::vector<std::string>;

Strings names_of(const std::vector<Handled>& handled) {
  Strings names;
  for (const Handled& one : handled) names.push_back(one.queue + " " + one.payload);
  return names;
}

Verdict acked(const Message&) { return ack(); }

// Generous: the machine may be busy while a message is handled.
constexpr std::chrono::seconds kBusy{30};

TEST_CASE("sandbox R40: 45 minutes with 200 messages over two queues are played in order, each at its time") {
  Sandbox box;
  Producer orders(box.url(), "orders"), mails(box.url(), "mails");
  Strings expected;
  std::vector<milliseconds> delays;
  for (int i = 0; i < 200; ++i) {
    delays.push_back(i * 13s);
    const bool mail = i % 3 == 0;
    (mail ? mails : orders).send(std::to_string(i), delayed(delays.back()));
    expected.push_back((mail ? "mails " : "orders ") + std::to_string(i));
  }
  const auto began = box.now();
  const auto real = std::chrono::steady_clock::now();
  const auto handled = box.play(45min, {{"orders", acked}, {"mails", acked}});
  const auto took = std::chrono::steady_clock::now() - real;
  MESSAGE("45 minutes with 200 messages: " << std::chrono::duration_cast<milliseconds>(took).count() << " ms");
  CHECK((names_of(handled) == expected));
  for (std::size_t i = 0; i < std::min(handled.size(), delays.size()); ++i) {
    const auto late = handled[i].at - (began + delays[i]);
    CHECK(late > -kBusy);  // they were sent before `began`
    CHECK(late < kBusy);
  }
  CHECK(box.now() - began >= 45min);
  CHECK(box.now() - began < 45min + 5 * kBusy);
  CHECK(box.sent("orders").empty());
}

TEST_CASE("sandbox R40: play() waits for backoffs, and handles what the handlers send") {
  Sandbox box;
  Producer orders(box.url(), "orders"), mails(box.url(), "mails");
  ConsumerOptions options;
  options.backoff = Backoff::fixed(5min);
  orders.send("42", delayed(10min));
  const auto began = box.now();
  const auto expire = [&](const Message& message) {
    if (message.attempt() == 1) return nack("the bank is closed");
    mails.send("order " + message.payload() + " has expired", delayed(1min));
    return ack();
  };
  auto handled = box.play(15min, {{"orders", expire}, {"mails", acked}}, options);
  REQUIRE((names_of(handled) == Strings{"orders 42", "orders 42"}));
  CHECK(handled[0].verdict == nack("the bank is closed"));
  CHECK(handled[1].attempt == 2);
  CHECK(handled[1].at - began >= 15min);
  handled = box.play(1min, {{"orders", expire}, {"mails", acked}}, options);
  CHECK((names_of(handled) == Strings{"mails order 42 has expired"}));
}

TEST_CASE("sandbox R40: play() goes on at the end of a pause, a limit or a dead process' lease") {
  Sandbox box;
  Producer orders(box.url(), "orders");
  QueueAdmin admin(box.url(), "orders");
  orders.send("1");
  auto handled = box.play(2h, {{"orders", [](const Message& message) {
                                  if (message.attempt() == 1 && message.payload() == "1" && message.retries_left() == 3)
                                    return pause_queue(1h, "429");
                                  return ack();
                                }}});
  CHECK(handled.size() >= 2);  // paused, and handled after the pause until the time is over
  box.play(24h, {{"orders", acked}});

  QueueLimits limits;
  limits.rate = Rate{1, 10min, 1};
  REQUIRE(admin.set_limits(limits));
  orders.send_batch({"2", "3", "4", "5"});
  const auto began = box.now();
  handled = box.play(25min, {{"orders", acked}});
  REQUIRE((names_of(handled) == Strings{"orders 2", "orders 3", "orders 4"}));
  CHECK(handled[1].at - began >= 10min - kBusy);
  CHECK(handled[2].at - began >= 20min - kBusy);
  admin.pause();
  const auto paused_at = box.now();
  CHECK(box.play(1h, {{"orders", acked}}).empty());  // until resume(): nothing happens
  CHECK(box.now() - paused_at >= 1h);
}

TEST_CASE("sandbox R40: play() delivers each occurrence of a schedule at its slot") {
  Sandbox box;
  box.advance(std::chrono::ceil<milliseconds>(
      1h + 1min - box.now().time_since_epoch() % 1h));  // the slots are not now: real time passes, too
  Schedules schedules(box.url(), "reports");
  Schedule nightly;
  nightly.cron = "30 3 * * *";
  schedules.set("nightly", nightly);
  Schedule hourly;
  hourly.every = 1h;
  hourly.payload = "hourly";
  schedules.set("hourly", hourly);
  const auto began = box.now();
  const auto expected = next_times(hourly, began, 72);
  std::vector<Handled> nights, hours;
  for (Handled& one : box.play(72h, {{"reports", acked}})) {
    (one.payload == "hourly" ? hours : nights).push_back(std::move(one));
  }
  CHECK(nights.size() == 3);
  REQUIRE(hours.size() == expected.size());
  for (std::size_t i = 0; i < hours.size(); ++i) {
    CHECK(hours[i].at >= expected[i]);
    CHECK(hours[i].at - expected[i] < kBusy);
  }
}

TEST_CASE("sandbox R40: a schedule that cannot be read delays play() by a second at most") {
  Sandbox box;
  Redis client(box.server().socket());
  const auto slot = std::chrono::duration_cast<std::chrono::seconds>(box.now().time_since_epoch()) + 30min;
  client.cmd({"ZADD", "dp:orders:schedules:next", std::to_string(slot.count()), "from a later version"});
  const auto began = box.now();
  CHECK(box.play(45min, {{"orders", acked}}).empty());
  CHECK(box.now() - began < 45min + kBusy);
}

TEST_CASE("sandbox R40: play() of no time is a drain, and of a queue without messages only lets time pass") {
  Sandbox box;
  const auto began = box.now();
  CHECK(box.play(0ms, {{"orders", acked}}).empty());
  CHECK(box.play(365 * 24h, {{"orders", acked}, {"mails", acked}}).empty());
  CHECK(box.now() - began >= 365 * 24h);
  Producer(box.url(), "orders").send("x");
  CHECK(box.play(0ms, {{"orders", acked}}).size() == 1);
}

}  // namespace
}  // namespace delayqueue
