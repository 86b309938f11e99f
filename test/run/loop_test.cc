#include "support/test.h"

#include <unistd.h>

#include "run/loop.h"

namespace delayqueue::run {
namespace {

TEST_CASE("loop: the step runs repeatedly between start and stop, and not before or after") {
  std::atomic<int> steps{0};
  Loop loop([&] {
    ++steps;
    return Loop::Pause::zero();
  });
  CHECK(steps == 0);
  loop.start();
  CHECK(eventually([&] { return steps > 1000; }, kPatience));
  loop.stop();
  const int then = steps;
  loop.wake();
  CHECK(steps == then);
}

TEST_CASE("loop: it pauses for the duration that the step returns") {
  std::atomic<int> steps{0};
  Loop loop([&]() -> Loop::Pause {
    ++steps;
    return 20ms;
  });
  const auto begin = std::chrono::steady_clock::now();
  loop.start();
  CHECK(eventually([&] { return steps >= 6; }, kPatience));
  CHECK(std::chrono::steady_clock::now() - begin >= 100ms);
}

TEST_CASE("loop: a wake ends a pause") {
  std::atomic<int> steps{0};
  Loop loop([&]() -> Loop::Pause {
    ++steps;
    return 1h;
  });
  loop.start();
  for (int step = 1; step <= 200; ++step) {
    REQUIRE(eventually([&] { return steps >= step; }, kPatience));
    loop.wake();
  }
  CHECK(eventually([&] { return steps >= 201; }, kPatience));
}

TEST_CASE("loop: a wake ends even the longest possible pause, and a negative pause is none") {
  std::atomic<int> steps{0};
  Loop loop([&]() -> Loop::Pause {
    ++steps;
    if (steps < 5) return std::chrono::nanoseconds(-1);
    return std::chrono::nanoseconds::max();
  });
  loop.start();
  CHECK(eventually([&] { return steps >= 5; }, kPatience));
  loop.wake();
  CHECK(eventually([&] { return steps >= 6; }, kPatience));
}

TEST_CASE("loop: after a wake during a step the next step follows at once") {
  std::atomic<int> steps{0};
  std::unique_ptr<Loop> loop;
  loop = std::make_unique<Loop>([&]() -> Loop::Pause {
    if (++steps < 100) loop->wake();
    return 1h;
  });
  loop->start();
  CHECK(eventually([&] { return steps >= 100; }, kPatience));
}

TEST_CASE("loop: several wakes before a step cause one step") {
  std::atomic<int> steps{0};
  Loop loop([&]() -> Loop::Pause {
    ++steps;
    return 1h;
  });
  for (int i = 0; i < 100'000; ++i) loop.wake();  // more than a pipe can buffer
  loop.start();
  CHECK(eventually([&] { return steps >= 1; }, kPatience));
  std::this_thread::sleep_for(50ms);  // no step may run now
  CHECK(steps <= 2);
}

TEST_CASE("loop: no wake is lost when many threads wake") {
  std::atomic<int> wanted{0}, done{0};
  Loop loop([&]() -> Loop::Pause {
    done = wanted.load();
    return 1h;
  });
  loop.start();
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 5000; ++round) {
        ++wanted;
        loop.wake();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(eventually([&] { return done == 20'000; }, kPatience));
}

TEST_CASE("loop: a pause ends when its descriptor is readable") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  std::atomic<int> steps{0};
  Loop loop([&]() -> Loop::Pause {
    ++steps;
    return {1h, ends[0]};
  });
  loop.start();
  CHECK(eventually([&] { return steps == 1; }, kPatience));
  CHECK(::write(ends[1], "x", 1) == 1);
  CHECK(eventually([&] { return steps >= 2; }, kPatience));
  loop.stop();
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("loop: a wake does not end a pause that ignores wakes, but cancels the next one") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  std::atomic<int> steps{0};
  Loop loop([&]() -> Loop::Pause {
    if (++steps <= 2) return {1h, ends[0], true};
    return 1h;
  });
  loop.start();
  CHECK(eventually([&] { return steps == 1; }, kPatience));
  std::this_thread::sleep_for(20ms);  // the pause has begun
  for (int i = 0; i < 10; ++i) loop.wake();
  std::this_thread::sleep_for(50ms);
  CHECK(steps == 1);
  CHECK(::write(ends[1], "x", 1) == 1);
  CHECK(eventually([&] { return steps == 4; }, kPatience));
  loop.wake();
  CHECK(eventually([&] { return steps == 5; }, kPatience));
  loop.stop();
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("loop: stop ends a pause that ignores wakes") {
  for (const bool woken : {false, true}) {
    std::atomic<int> steps{0};
    Loop loop([&]() -> Loop::Pause {
      ++steps;
      return {1h, -1, true};
    });
    if (woken) loop.wake();
    loop.start();
    CHECK(eventually([&] { return steps >= 1; }, kPatience));
    loop.stop();
  }
}

TEST_CASE("loop: stop waits for the running step, and may be called again, from several threads, and before start") {
  std::atomic<bool> inside{false}, ended{false};
  Loop loop([&]() -> Loop::Pause {
    inside = true;
    std::this_thread::sleep_for(100ms);
    ended = true;
    return 1h;
  });
  loop.start();
  REQUIRE(eventually([&] { return inside.load(); }, kPatience));
  std::vector<std::thread> threads;
  threads.reserve(8);
  std::atomic<int> early{0};
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      loop.stop();
      if (!ended) ++early;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(early == 0);
  loop.stop();

  Loop never([]() -> Loop::Pause { return 1h; });
  never.stop();
}

TEST_CASE("loop: the destructor stops the loop") {
  std::atomic<int> steps{0};
  {
    Loop loop([&] {
      ++steps;
      return Loop::Pause::zero();
    });
    loop.start();
    CHECK(eventually([&] { return steps > 10; }, kPatience));
  }
  const int then = steps;
  std::this_thread::sleep_for(10ms);  // no step may run now
  CHECK(steps == then);
}

}  // namespace
}  // namespace delayqueue::run
