// The way of a verdict to the consumer's thread, and events of a delivery that race.
#include "support/test.h"

#include "consumer/delivery.h"

namespace delayqueue {
namespace {

InFlightPtr in_flight(int retries_left = 0) {
  return std::make_shared<InFlightMessage>(
      InFlightMessage::Taken{"0197f3a4-5b6c-7d8e-9f01-23456789abcd", nullptr, 1, retries_left, 0},
      Lease::Clock::now() + std::chrono::hours(1));
}

TEST_CASE("inbox: returns the messages in the order of push, and wakes only when it was empty") {
  int wakes = 0;
  VerdictInbox inbox([&] { ++wakes; });
  for (int round = 1; round <= 3; ++round) {
    for (int i = 0; i < 5; ++i) CHECK(inbox.push(in_flight(i)));
    CHECK(wakes == round);
    const std::vector<InFlightPtr> taken = inbox.take();
    REQUIRE(taken.size() == 5);
    for (int i = 0; i < 5; ++i) {
      const InFlightPtr& one = taken[static_cast<std::size_t>(i)];
      CHECK(one->message.retries_left() == i);
      CHECK((one->next == nullptr));
    }
    CHECK(inbox.take().empty());
  }
}

TEST_CASE("inbox: after close it accepts nothing, wakes nothing, and keeps nothing") {
  int wakes = 0;
  VerdictInbox inbox([&] { ++wakes; });
  const InFlightPtr first = in_flight(), second = in_flight(), late = in_flight();
  CHECK(inbox.push(first));
  CHECK(inbox.push(second));
  inbox.close();
  CHECK(first.use_count() == 1);
  CHECK(second.use_count() == 1);
  CHECK_FALSE(inbox.push(late));
  CHECK(late.use_count() == 1);
  CHECK(inbox.take().empty());
  CHECK(wakes == 1);
  inbox.close();
}

TEST_CASE("inbox: many messages that are left are destroyed one by one: recursion would overflow the stack") {
  VerdictInbox inbox([] {});
  const InFlightPtr kept = in_flight();
  for (int i = 0; i < 200'000; ++i) inbox.push(in_flight());
  inbox.push(kept);
  inbox.close();
  CHECK(kept.use_count() == 1);
}

TEST_CASE("inbox: nothing is lost of what 64 threads push while another one takes") {
  constexpr std::size_t kEach = 500;
  std::atomic<int> wakes{0};
  VerdictInbox inbox([&] { ++wakes; });
  std::vector<std::thread> threads;
  threads.reserve(64);
  for (int i = 0; i < 64; ++i) {
    threads.emplace_back([&] {
      for (std::size_t own = 0; own < kEach; ++own) inbox.push(in_flight());
    });
  }
  std::size_t taken = 0;
  int seen = 0;
  while (taken < 64 * kEach) {
    if (wakes == seen) {
      std::this_thread::yield();
      continue;
    }
    seen = wakes;  // before take(): what is pushed after it wakes again
    taken += inbox.take().size();
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(taken == 64 * kEach);
  CHECK(inbox.take().empty());
}

TEST_CASE("inbox: a callback that nothing has called gets `unconfirmed` when the message is destroyed") {
  std::vector<Settlement> results;
  {
    const InFlightPtr one = in_flight();
    one->on_settled = [&](Settlement settlement) { results.push_back(settlement); };
    CHECK(results.empty());
  }
  CHECK(results == std::vector<Settlement>{Settlement::in_doubt});
}

TEST_CASE("place: a worker is replaced once, and only while its handler runs without a place") {
  const InFlightPtr one = in_flight();
  CHECK_FALSE(one->keeps_worker());
  CHECK(one->begin());
  CHECK_FALSE(one->replace_worker());
  CHECK(one->lose_place());
  CHECK(one->keeps_worker());
  CHECK(one->replace_worker());
  CHECK_FALSE(one->keeps_worker());
  CHECK_FALSE(one->replace_worker());
  CHECK(one->settle());  // and its handler still runs
  CHECK_FALSE(one->runs_longer_than(std::chrono::milliseconds(0)));
  CHECK(one->handler_runs_longer_than(std::chrono::milliseconds(0)));
  CHECK_FALSE(one->handler_runs_longer_than(std::chrono::hours(1)));
  CHECK_FALSE(one->leave().frees_worker);
  CHECK_FALSE(one->handler_runs_longer_than(std::chrono::milliseconds(0)));
  CHECK_FALSE(one->replace_worker());

  const InFlightPtr other = in_flight();
  CHECK(other->begin());
  CHECK(other->finish(ack()).frees_worker);
  CHECK_FALSE(other->replace_worker());
}

// In each round the return, the loss and two verdicts race.
TEST_CASE("place: exactly one of return, verdict and loss frees it, when they come at the same time") {
  for (int round = 0; round < 500; ++round) {
    const InFlightPtr one = in_flight();
    REQUIRE(one->begin());
    std::atomic<int> waiting{4}, freed{0}, counted{0};
    const auto at_once = [&](auto event) {
      return std::thread([&, event] {
        for (--waiting; waiting > 0;) std::this_thread::yield();
        event();
      });
    };
    const auto settle = [&] {
      if (one->settle()) {
        ++counted;
        one->verdict.reset();
      }
    };
    std::thread threads[] = {at_once(settle), at_once(settle), at_once([&] { freed += one->leave().frees_place; }),
                             at_once([&] { freed += one->lose_place(); })};
    for (std::thread& thread : threads) thread.join();
    freed += one->stage() == Stage::settled_last;  // the consumer's thread frees it then
    CHECK(counted == 1);
    CHECK(freed == 1);
    CHECK_FALSE(one->settle());
    CHECK_FALSE(one->lose_place());
  }
}

}  // namespace
}  // namespace delayqueue
