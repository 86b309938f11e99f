// The way of a verdict to the consumer's thread, and which of three events frees the place of its delivery.
#include "support/test.h"

#include "consumer/in_flight_message.h"
#include "consumer/verdict_inbox.h"

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

// b: the handler begins, r: it returns, v: the verdict is there, l: the lease is lost. In each order that is possible.
TEST_CASE("place: exactly one of return, verdict and loss frees it, in every order") {
  std::string order = "blrv";
  std::sort(order.begin(), order.end());
  int orders = 0;
  do {
    if (order.find('b') > order.find('r') || order.find('b') > order.find('v')) continue;
    CAPTURE(order);
    ++orders;
    const InFlightPtr one = in_flight();
    bool runs = false;
    int freed = 0;
    for (const char event : order) {
      if (event == 'l') freed += one->lose_place();
      if (event == 'b') {
        runs = one->begin();
        if (!runs) freed += one->end(snooze(std::chrono::milliseconds(0))).frees_place;
      }
      if (event == 'r' && runs) freed += one->end_handler().frees_place;
      if (event == 'v' && runs) {
        CHECK(one->claim());
        freed += one->frees_place;
      }
    }
    CHECK(freed == 1);
    CHECK(runs == (order.find('b') < order.find('l')));
    CHECK_FALSE(one->claim());
    CHECK_FALSE(one->lose_place());
  } while (std::next_permutation(order.begin(), order.end()));
  CHECK(orders == 8);
}

TEST_CASE("place: a worker is replaced once, and only while its handler runs") {
  const InFlightPtr one = in_flight();
  CHECK_FALSE(one->keeps_worker());
  CHECK_FALSE(one->replace_worker());
  CHECK(one->begin());
  CHECK(one->keeps_worker());
  CHECK(one->replace_worker());
  CHECK_FALSE(one->keeps_worker());
  CHECK_FALSE(one->replace_worker());
  CHECK(one->claim());  // settled, and its handler still runs
  CHECK_FALSE(one->runs_longer_than(std::chrono::milliseconds(0)));
  CHECK(one->handler_runs_longer_than(std::chrono::milliseconds(0)));
  CHECK_FALSE(one->handler_runs_longer_than(std::chrono::hours(1)));
  CHECK_FALSE(one->end_handler().stays);
  CHECK_FALSE(one->handler_runs_longer_than(std::chrono::milliseconds(0)));
  CHECK_FALSE(one->replace_worker());

  const InFlightPtr other = in_flight();
  CHECK(other->begin());
  CHECK(other->end(ack()).stays);
  CHECK_FALSE(other->replace_worker());
}

}  // namespace
}  // namespace delayqueue
