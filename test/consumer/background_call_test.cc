// Calls in other threads, by which a consumer of several servers connects to them.
#include "support/test.h"

#include <unistd.h>

#include "consumer/link.h"
#include "consumer/wakeups.h"
#include "queue/endpoint.h"
#include "support/raw_server.h"

namespace delayqueue {
namespace {

TEST_CASE("background calls: a few run at a time, and one that has ended makes way before its result is read") {
  std::atomic<int> woken{0};
  test::Gate gate;
  BackgroundCalls calls;
  calls.wake = [&] { ++woken; };
  std::deque<BackgroundCall<int>> all;
  for (int i = 0; i < static_cast<int>(BackgroundCalls::kMost); ++i) {
    BackgroundCall<int>& call = all.emplace_back(calls);
    REQUIRE(call.may_start());
    CHECK(call.may_start(1) == (i == 0));
    call.start([&gate, i] {
      gate.pass();
      return i;
    });
  }
  BackgroundCall<int> next(calls);
  CHECK_FALSE(next.may_start());
  gate.open();
  REQUIRE(eventually([&] { return woken == static_cast<int>(BackgroundCalls::kMost); }, kPatience));
  CHECK(next.may_start());
  CHECK(next.may_start(1));
  for (int i = 0; i < static_cast<int>(BackgroundCalls::kMost); ++i) {
    REQUIRE(all[static_cast<std::size_t>(i)].has_ended());
    CHECK(all[static_cast<std::size_t>(i)].finish() == i);
  }
  CHECK(next.may_start());
}

TEST_CASE("background calls: after its end a listener wakes no consumer, which may be destroyed then") {
  const int fd = test::listen_on_loopback();  // it accepts connections, and never answers
  Endpoint endpoint(
      {"redis://127.0.0.1:" + std::to_string(test::port_of(fd)), with(&ClientOptions::connect_timeout, 1s)}, "orders");
  std::atomic<int> woken{0};
  BackgroundCalls calls;
  calls.wake = [&] { ++woken; };
  WakeupListener listener(endpoint, 1s, &calls);
  listener.begin({endpoint.keys().wake}, true);
  REQUIRE(calls.running == 1);
  listener.end();
  CHECK(calls.running == 0);
  CHECK(woken == 1);
  ::close(fd);
}

}  // namespace
}  // namespace delayqueue
