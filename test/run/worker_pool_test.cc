#include "support/test.h"

#include "run/worker_pool.h"

namespace delayqueue::run {
namespace {

// A WorkerPool with numbers as tasks. work() returns at once for a task below 100, and after open() for others. A
// negative task keeps its place.
class Workers {
 public:
  explicit Workers(std::size_t workers, std::size_t places = 1000, const std::vector<WorkerQueue>& queues = {{}})
      : pool(
            workers,
            [this](int& task) {
              return WorkResult{work(task), task >= 0 && frees};
            },
            [this] { woken = true; }, holds, places, queues) {}
  ~Workers() { open(); }

  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

  std::vector<int> begun() const {
    const std::lock_guard lock(mutex_);
    return begun_;
  }
  // All tasks that have ended. Calls take_done() only after a wake, so that a missing wake is noticed.
  std::vector<int> done() {
    if (woken.exchange(false)) {
      for (const int task : pool.take_done()) done_.push_back(task);
    }
    return done_;
  }

  std::atomic<bool> stays{true}, frees{true};  // what work() returns
  std::atomic<bool> woken{false};
  std::atomic<bool> holds{false};

 private:
  bool work(int task) {
    std::unique_lock lock(mutex_);
    begun_.push_back(task);
    if (task >= 100) changed_.wait(lock, [this] { return open_; });
    return stays;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  std::vector<int> begun_;
  std::vector<int> done_;  // used by the test's thread

 public:
  WorkerPool<int> pool;  // last: its threads use the members above
};

std::vector<int> range(int from, int to) {
  std::vector<int> numbers;
  for (int i = from; i < to; ++i) numbers.push_back(i);
  return numbers;
}

TEST_CASE("worker_pool: one worker runs the tasks in order") {
  Workers workers(1);
  workers.pool.submit(range(0, 40));
  workers.pool.submit({});
  workers.pool.submit(range(40, 100));
  CHECK(eventually([&] { return workers.done().size() == 100; }, kPatience));
  CHECK(workers.done() == range(0, 100));
}

TEST_CASE("worker_pool: a worker is idle as soon as take_done returns its task, and not before") {
  Workers workers(1);
  for (std::size_t i = 1; i <= 200; ++i) {
    workers.pool.submit({1});
    REQUIRE(eventually([&] { return workers.begun().size() == i && workers.pool.load().idle == 1; }, kPatience));
    REQUIRE(workers.pool.take_done().size() == 1);
  }
  for (std::size_t i = 1; i <= 200; ++i) {
    workers.pool.submit({1});
    REQUIRE(eventually([&] { return workers.pool.take_done().size() == 1; }, kPatience));
    REQUIRE(workers.pool.load().idle == 1);
  }
}

// Each worker wakes the next one. If that chain broke, not all workers would run at the same time.
TEST_CASE("worker_pool: as many workers wake as there are tasks, submitted together or one by one") {
  constexpr std::size_t kWorkers = 16;
  for (int round = 0; round < 100; ++round) {
    std::atomic<std::size_t> running{0};
    std::atomic<bool> over{false};
    const std::atomic<bool> holds{false};
    WorkerPool<int> pool(
        kWorkers,
        [&](int&) {
          ++running;
          while (!over) std::this_thread::yield();
          return true;
        },
        [] {}, holds);
    if (round % 2 == 0) {
      pool.submit(range(0, kWorkers));
    } else {
      for (std::size_t i = 0; i < kWorkers; ++i) i % 3 == 0 ? pool.submit_urgent({1}) : pool.submit({2});
    }
    CHECK(eventually([&] { return running == kWorkers; }, kPatience));
    over = true;
  }
}

TEST_CASE("worker_pool: as many tasks run at the same time as there are workers; the others wait") {
  Workers workers(3);
  CHECK(workers.pool.load().idle == 3);
  workers.pool.submit(range(100, 110));
  CHECK(eventually([&] { return workers.begun().size() == 3; }, kPatience));
  CHECK(eventually([&] { return workers.pool.load().waiting == 7; }, kPatience));
  CHECK(workers.pool.load().idle == 0);
  workers.open();
  CHECK(eventually([&] { return workers.done().size() == 10; }, kPatience));
  CHECK(workers.pool.load().idle == 3);
  CHECK(workers.pool.load().waiting == 0);
}

TEST_CASE("worker_pool: urgent tasks run before all others") {
  Workers workers(1);
  workers.pool.submit({100});
  REQUIRE(eventually([&] { return workers.begun().size() == 1; }, kPatience));
  workers.pool.submit({1, 2, 3});
  workers.pool.submit_urgent({4, 5});
  workers.pool.submit({6});
  workers.pool.submit_urgent({7});
  workers.open();
  CHECK(eventually([&] { return workers.done().size() == 8; }, kPatience));
  CHECK(workers.begun() == std::vector<int>{100, 4, 5, 7, 1, 2, 3, 6});
}

TEST_CASE("worker_pool: dequeue_all returns the tasks that have not begun, urgent ones first, each kind in order") {
  Workers workers(1);
  workers.pool.submit({100});
  REQUIRE(eventually([&] { return workers.begun().size() == 1; }, kPatience));
  workers.pool.submit({1, 2, 3});
  workers.pool.submit_urgent({4, 5});
  CHECK(workers.pool.dequeue_all() == std::vector<int>{4, 5, 1, 2, 3});
  CHECK(workers.pool.dequeue_all().empty());
  CHECK(workers.pool.load().waiting == 0);
  workers.open();
  CHECK(eventually([&] { return workers.done() == std::vector<int>{100}; }, kPatience));
}

TEST_CASE("worker_pool: a worker that is kept free runs urgent tasks only") {
  for (const std::size_t count : {1U, 2U, 4U}) {
    CAPTURE(count);
    Workers workers(count);
    workers.pool.keep_one_free(true);
    workers.pool.submit(range(100, 110));
    CHECK(eventually([&] { return workers.begun().size() == count - 1; }, kPatience));
    workers.pool.submit_urgent({1});
    CHECK(eventually([&] { return workers.done().size() == 1; }, kPatience));
    const auto begun = workers.begun();
    CHECK(begun.size() == count);
    CHECK(std::count(begun.begin(), begun.end(), 1) == 1);
    workers.pool.keep_one_free(false);
    CHECK(eventually([&] { return workers.begun().size() == count + 1; }, kPatience));
    workers.open();
    CHECK(eventually([&] { return workers.done().size() == 11; }, kPatience));
  }
}

TEST_CASE("worker_pool: all tasks run while keep_one_free is switched on and off") {
  Workers workers(3);
  std::atomic<bool> over{false};
  std::thread switching([&] {
    for (bool on = true; !over; on = !on) workers.pool.keep_one_free(on);
    workers.pool.keep_one_free(false);
  });
  for (int i = 0; i < 500; ++i) {
    workers.pool.submit({1, 2});
    workers.pool.submit_urgent({3});
  }
  CHECK(eventually([&] { return workers.done().size() >= 500; }, kPatience));
  over = true;
  switching.join();
  CHECK(eventually([&] { return workers.done().size() == 1500; }, kPatience));
}

TEST_CASE("worker_pool: a replaced worker ends when its task returns") {
  Workers workers(1);
  workers.pool.submit({100});
  REQUIRE(eventually([&] { return workers.begun().size() == 1; }, kPatience));
  workers.pool.add_worker();
  workers.pool.submit({1, 2});
  CHECK(eventually([&] { return workers.done() == std::vector<int>{1, 2}; }, kPatience));
  CHECK(eventually([&] { return workers.pool.load().idle == 1; }, kPatience));
  workers.stays = false;
  workers.open();
  CHECK(eventually([&] { return workers.done() == std::vector<int>{1, 2, 100}; }, kPatience));
  workers.stays = true;
  workers.pool.submit({3});
  CHECK(eventually([&] { return workers.done().size() == 4; }, kPatience));
  CHECK(eventually([&] { return workers.pool.load().idle == 1; }, kPatience));
}

TEST_CASE("worker_pool: a worker that is not needed after all ends before it begins a task") {
  Workers workers(1);
  const auto idle = [&] { return workers.pool.load().idle; };
  for (int i = 0; i < 20; ++i) workers.pool.add_worker([] { return false; });
  CHECK(eventually([&] { return idle() == 1; }, kPatience));
  workers.pool.submit({100});
  REQUIRE(eventually([&] { return workers.begun().size() == 1; }, kPatience));
  workers.pool.submit({1});
  workers.pool.add_worker([] { return false; });
  CHECK(eventually([&] { return idle() == 0; }, kPatience));
  CHECK(workers.begun().size() == 1);
  workers.pool.add_worker([] { return true; });
  CHECK(eventually([&] { return workers.done() == std::vector<int>{1}; }, kPatience));
  workers.open();
  CHECK(eventually([&] { return workers.done().size() == 2; }, kPatience));
  CHECK(eventually([&] { return idle() == 2; }, kPatience));
}

// How many of the first tasks that began were of each queue. The tasks of queue i are all i.
std::vector<std::size_t> begun_of_queues(const std::vector<int>& begun, std::size_t first, std::size_t queues) {
  std::vector<std::size_t> of_queues(queues, 0);
  for (std::size_t i = 0; i < first; ++i) ++of_queues[static_cast<std::size_t>(begun[i])];
  return of_queues;
}

std::size_t memory_mappings() {
  std::ifstream maps("/proc/self/maps");
  return static_cast<std::size_t>(std::count(std::istreambuf_iterator<char>(maps), {}, '\n'));
}

TEST_CASE("worker_pool: replaced workers leave no memory behind") {
  Workers workers(1);
  workers.stays = false;
  const std::size_t before = memory_mappings();
  for (std::size_t i = 1; i <= 300; ++i) {
    workers.pool.add_worker();
    workers.pool.submit({1});
    REQUIRE(eventually([&] { return workers.done().size() == i; }, kPatience));
  }
  CHECK(memory_mappings() < before + 150);  // a thread that was not joined keeps two
}

TEST_CASE("worker_pool: queues with tasks take turns by their weights") {
  std::atomic<bool> holds{true};
  std::vector<int> begun;
  WorkerPool<int> pool(
      1,
      [&](int& task) {
        begun.push_back(task);  // one worker
        return true;
      },
      [] {}, holds, 1000, {{6}, {3}, {1}});
  for (std::size_t queue = 0; queue < 3; ++queue) pool.submit(std::vector<int>(60, static_cast<int>(queue)), queue);
  holds = false;
  pool.keep_one_free(false);  // wakes a worker
  std::size_t done = 0;
  CHECK(eventually([&] { return (done += pool.take_done().size()) == 180; }, kPatience));
  CHECK(begun_of_queues(begun, 100, 3) == std::vector<std::size_t>{60, 30, 10});
}

TEST_CASE("worker_pool: a queue whose limit is reached delays no other, and goes on when a task of it ends") {
  Workers workers(4, 1000, {{1, 2}, {1}});
  workers.pool.submit({100, 101, 1, 2}, 0);
  REQUIRE(eventually([&] { return workers.begun().size() == 2; }, kPatience));
  CHECK(workers.pool.load(0).allowed == 0);
  CHECK(workers.pool.load(0).running == 2);
  CHECK(workers.pool.load(0).waiting == 2);
  CHECK(workers.pool.load(1).idle == 2);
  workers.pool.submit({3, 4, 5}, 1);
  CHECK(eventually([&] { return workers.done().size() == 3; }, kPatience));
  workers.pool.submit_urgent({6}, 0);
  CHECK(workers.pool.load(0).running == 3);
  CHECK(workers.pool.load(1).idle == 2);  // the urgent task needs none of them
  workers.open();
  CHECK(eventually([&] { return workers.done().size() == 8; }, kPatience));
}

TEST_CASE(
    "worker_pool: a queue whose limit is reached keeps no worker free, and its next place is for an urgent task") {
  Workers workers(2, 1000, {{1, 1}, {1}});
  workers.pool.keep_one_free(true, 0);
  workers.pool.submit({1}, 0);
  workers.pool.submit({2}, 1);
  CHECK(eventually([&] { return workers.done() == std::vector<int>{2}; }, kPatience));
  workers.pool.submit_urgent({100}, 0);
  REQUIRE(eventually([&] { return workers.begun() == std::vector<int>{2, 100}; }, kPatience));
  workers.pool.submit({3}, 1);
  CHECK(eventually([&] { return workers.done() == std::vector<int>{2, 3}; }, kPatience));
  workers.open();
  CHECK(eventually([&] { return workers.done() == std::vector<int>{2, 3, 100}; }, kPatience));
  workers.pool.keep_one_free(false, 0);
  CHECK(eventually([&] { return workers.done() == std::vector<int>{2, 3, 100, 1}; }, kPatience));
}

TEST_CASE("worker_pool: the last worker is kept free for a queue only in its turn") {
  Workers workers(1, 1000, {{1}, {2}});
  workers.pool.keep_one_free(true, 0);
  workers.pool.submit({1, 2, 3, 4}, 1);
  CHECK_FALSE(eventually([&] { return !workers.begun().empty(); }, 50ms));
  workers.pool.submit_urgent({5}, 0);  // two of the other queue have their turn now
  CHECK(eventually([&] { return workers.done() == std::vector<int>{5, 1, 2}; }, kPatience));
  CHECK_FALSE(eventually([&] { return workers.begun().size() > 3; }, 50ms));
  workers.pool.keep_one_free(false, 0);
  CHECK(eventually([&] { return workers.done() == std::vector<int>{5, 1, 2, 3, 4}; }, kPatience));
}

TEST_CASE("worker_pool: a task whose place was freed does not count for the limit of its queue") {
  Workers workers(1, 1000, {{1, 1}, {1}});
  workers.pool.submit({100}, 0);
  REQUIRE(eventually([&] { return workers.begun().size() == 1; }, kPatience));
  workers.pool.submit({1}, 0);
  workers.pool.add_worker();
  workers.pool.free_places(1, 0);
  CHECK(eventually([&] { return workers.done() == std::vector<int>{1}; }, kPatience));
  CHECK(eventually([&] { return workers.pool.load(0).running == 0; }, kPatience));
  workers.stays = workers.frees = false;
  workers.open();
  CHECK(eventually([&] { return workers.done().size() == 2; }, kPatience));
  CHECK(workers.pool.load(0).running == 0);
  CHECK(workers.pool.load(0).allowed == 1);
}

TEST_CASE("worker_pool: several threads may submit tasks") {
  Workers workers(4);
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 250; ++round)
        round % 5 == 0 ? workers.pool.submit_urgent({1}) : workers.pool.submit({2});
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(eventually([&] { return workers.done().size() == 1000; }, kPatience));
  CHECK(workers.pool.load().idle == 4);
}

TEST_CASE("worker_pool: close waits for running tasks, and may be called again") {
  Workers workers(2);
  workers.pool.submit(range(100, 110));
  REQUIRE(eventually([&] { return workers.begun().size() == 2; }, kPatience));
  std::thread opener([&] {
    std::this_thread::sleep_for(50ms);
    workers.open();
  });
  workers.pool.close();
  CHECK(workers.done().size() == workers.begun().size());
  workers.pool.close();
  opener.join();
}

TEST_CASE("worker_pool: close drops the tasks that have not begun") {
  constexpr int kTasks = 20'000;  // 10 s of work, so that close() is called before it is done
  std::atomic<int> begun{0};
  const std::atomic<bool> holds{false};
  WorkerPool<int> pool(
      2,
      [&](int&) {
        ++begun;
        std::this_thread::sleep_for(1ms);
        return true;
      },
      [] {}, holds);
  pool.submit(range(0, kTasks));
  REQUIRE(eventually([&] { return begun > 0; }, kPatience));
  pool.close();
  CHECK(begun < kTasks);
  CHECK(pool.take_done().size() == static_cast<std::size_t>(begun));
}

TEST_CASE("worker_pool: dequeue returns the tasks of one queue that match, and the others go on in their order") {
  Workers workers(1, 1000, {{}, {}});
  workers.pool.submit({100});
  REQUIRE(eventually([&] { return workers.begun().size() == 1; }, kPatience));
  workers.pool.submit({1, 2, 3, 4});
  workers.pool.submit_urgent({5, 6});
  workers.pool.submit({10, 11}, 1);
  const auto is_even = [](int task) { return task % 2 == 0; };
  CHECK(workers.pool.dequeue(0, is_even) == std::vector<int>{6, 2, 4});
  CHECK(workers.pool.dequeue(0, is_even).empty());
  CHECK(workers.pool.load(0).waiting == 2);
  CHECK(workers.pool.dequeue(1, [](int) { return true; }) == std::vector<int>{10, 11});
  workers.pool.submit({12}, 1);
  workers.open();
  CHECK(eventually([&] { return workers.done().size() == 5; }, kPatience));
  std::vector<int> done = workers.done();
  std::sort(done.begin(), done.end());
  CHECK(done == std::vector<int>{1, 3, 5, 12, 100});
}

TEST_CASE("worker_pool: while `holds` is true, no task begins; dequeue_all() returns all that wait") {
  Workers workers(2);
  workers.pool.submit({100, 101});
  REQUIRE(eventually([&] { return workers.begun().size() == 2; }, kPatience));
  workers.pool.submit({1});
  workers.pool.submit_urgent({2});
  workers.holds = true;
  workers.open();
  CHECK(eventually([&] { return workers.done().size() == 2; }, kPatience));
  workers.pool.submit({3});
  std::this_thread::sleep_for(50ms);
  CHECK(workers.begun().size() == 2);
  CHECK(workers.pool.dequeue_all().size() == 3);
}

TEST_CASE("worker_pool: tasks that keep their places after work() bound how many begin, until the places are freed") {
  Workers workers(4, 3);
  CHECK(workers.pool.load().places == 3);
  CHECK(workers.pool.load().idle == 3);
  workers.pool.submit({-1, -2, -3, -4, -5, 1});
  REQUIRE(eventually([&] { return workers.done().size() == 3; }, kPatience));
  std::this_thread::sleep_for(50ms);
  CHECK(workers.begun().size() == 3);
  CHECK(workers.pool.load().idle == 0);
  CHECK(workers.pool.load().places == 0);
  CHECK(workers.pool.load().waiting == 3);
  workers.pool.submit_urgent({-6});
  workers.pool.free_places(1);
  REQUIRE(eventually([&] { return workers.done().size() == 4; }, kPatience));
  CHECK(workers.begun().back() == -6);
  workers.pool.free_places(2);
  REQUIRE(eventually([&] { return workers.done().size() == 6; }, kPatience));
  workers.pool.free_places(3);
  REQUIRE(eventually([&] { return workers.done().size() == 7; }, kPatience));
  CHECK(eventually([&] { return workers.pool.load().idle == 3; }, kPatience));
}

TEST_CASE("worker_pool: the last free place is kept for an urgent task, as the last free worker is") {
  Workers workers(4, 2);
  workers.pool.keep_one_free(true);
  workers.pool.submit({-1, -2});
  REQUIRE(eventually([&] { return workers.done().size() == 1; }, kPatience));
  std::this_thread::sleep_for(50ms);
  CHECK(workers.begun().size() == 1);
  workers.pool.submit_urgent({-3});
  CHECK(eventually([&] { return workers.done().size() == 2; }, kPatience));
  CHECK(workers.begun().back() == -3);
}

TEST_CASE("worker_pool: a worker that ends leaves the place of its task to another one") {
  Workers workers(1, 1);
  workers.pool.submit({100});
  REQUIRE(eventually([&] { return workers.begun().size() == 1; }, kPatience));
  workers.pool.add_worker();
  workers.pool.submit({1});
  std::this_thread::sleep_for(50ms);
  CHECK(workers.begun().size() == 1);
  workers.stays = false;
  workers.open();
  CHECK(eventually([&] { return workers.done() == std::vector<int>{100, 1}; }, kPatience));
}

TEST_CASE("worker_pool: calls are made before tasks, while `holds` is true and without a place, and end with a wake") {
  Workers workers(1, 1);
  workers.pool.submit({-1});
  REQUIRE(eventually([&] { return workers.done().size() == 1; }, kPatience));
  workers.holds = true;
  workers.pool.submit({1});
  std::atomic<int> made{0};
  const auto owned = std::make_shared<int>(1);  // a worker destroys what a call owns
  for (int i = 0; i < 10; ++i) workers.pool.call([&made, owned] { ++made; });
  CHECK(eventually([&] { return made == 10 && !workers.pool.has_calls() && workers.woken; }, kPatience));
  CHECK(owned.use_count() == 1);
  CHECK(workers.begun().size() == 1);
}

TEST_CASE("worker_pool: close makes the calls that no worker has made") {
  Workers workers(1);
  workers.pool.submit({100});
  REQUIRE(eventually([&] { return workers.begun().size() == 1; }, kPatience));
  std::atomic<int> made{0};
  for (int i = 0; i < 3; ++i) workers.pool.call([&made] { ++made; });
  CHECK(made == 0);
  std::thread opener([&] {
    std::this_thread::sleep_for(50ms);
    workers.open();
  });
  workers.pool.close();
  opener.join();
  CHECK(made == 3);
}

TEST_CASE("worker_pool: tasks are moved, never copied") {
  const std::atomic<bool> holds{false};
  WorkerPool<std::unique_ptr<std::string>> pool(
      2, [](std::unique_ptr<std::string>&) { return true; }, [] {}, holds);
  std::vector<std::unique_ptr<std::string>> tasks;
  for (const char* text : {"a", "b", "c"}) tasks.push_back(std::make_unique<std::string>(text));
  pool.submit(std::move(tasks));
  std::vector<std::string> seen;
  CHECK(eventually(
      [&] {
        for (const auto& task : pool.take_done()) seen.push_back(*task);
        return seen.size() == 3;
      },
      kPatience));
}

// A task for which memory can run out.
struct Scarce {
  static inline std::atomic<bool> has_memory{true};
  int number = 0;
};

}  // namespace
}  // namespace delayqueue::run

// That of the lists of these tasks.
template <>
class std::allocator<delayqueue::run::Scarce> {
 public:
  using value_type = delayqueue::run::Scarce;
  allocator() = default;
  template <class Other>
  allocator(const std::allocator<Other>& /*other*/) noexcept {}  // NOLINT(google-explicit-constructor)
  value_type* allocate(std::size_t count) {
    if (!value_type::has_memory) throw std::bad_alloc();
    return static_cast<value_type*>(::operator new(count * sizeof(value_type)));
  }
  void deallocate(value_type* at, std::size_t /*count*/) { ::operator delete(at); }
  std::size_t max_size() const { return std::size_t{1} << 30; }
  template <class One, class... Arguments>
  void construct(One* at, Arguments&&... arguments) {
    ::new (static_cast<void*>(at)) One(std::forward<Arguments>(arguments)...);
  }
  template <class One>
  void destroy(One* at) {
    at->~One();
  }
};

namespace delayqueue::run {
namespace {

TEST_CASE("worker_pool: out of memory no task of a call is added, and the caller still has them") {
  const std::atomic<bool> holds{true};
  WorkerPool<Scarce> pool(
      1, [](Scarce&) { return true; }, [] {}, holds);
  std::vector<Scarce> tasks(1000), urgent(1000);  // more than a part of the list has place for
  Scarce::has_memory = false;
  CHECK_THROWS_AS(pool.submit(std::move(tasks)), std::bad_alloc);
  CHECK_THROWS_AS(pool.submit_urgent(std::move(urgent)), std::bad_alloc);
  Scarce::has_memory = true;
  CHECK(tasks.size() == 1000);   // NOLINT(bugprone-use-after-move)
  CHECK(urgent.size() == 1000);  // NOLINT(bugprone-use-after-move)
  CHECK(pool.load().waiting == 0);
  CHECK(pool.load().running == 0);
  CHECK(pool.dequeue_all().empty());
  pool.submit(std::move(tasks));
  CHECK(pool.load().waiting == 1000);
}

TEST_CASE("worker_pool: a task that ends while there is no memory is returned later, and its worker goes on") {
  const std::atomic<bool> holds{false};
  std::atomic<int> ran{0};
  WorkerPool<Scarce> pool(
      1,
      [&](Scarce& task) {
        if (task.number == 1) Scarce::has_memory = false;
        ++ran;
        return true;
      },
      [] {}, holds);
  pool.submit(std::vector<Scarce>{Scarce{1}, Scarce{2}});
  REQUIRE(eventually([&] { return ran == 1; }, kPatience));
  std::this_thread::sleep_for(50ms);
  CHECK(pool.take_done().empty());
  Scarce::has_memory = true;
  std::vector<Scarce> done;
  const auto returns_both = [&] {
    for (const Scarce& task : pool.take_done()) done.push_back(task);
    return done.size() == 2;
  };
  CHECK(eventually(returns_both, kPatience));
  CHECK(ran == 2);
}

}  // namespace
}  // namespace delayqueue::run
