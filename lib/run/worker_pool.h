// WorkerPool: threads that run tasks.
#pragma once

#include "os/resources.h"
#include "run/turns.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <iterator>
#include <limits>
#include <list>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace delayqueue::run {

// a - b, or 0 if b is larger.
inline std::size_t minus(std::size_t a, std::size_t b) { return a - std::min(a, b); }

// The load of the workers, as it concerns one queue of tasks.
struct WorkerLoad {
  std::size_t idle = 0;     // workers that may begin a task, less those that the queued urgent tasks need
  std::size_t waiting = 0;  // queued tasks that are not urgent
  std::size_t running = 0;  // tasks of the queue that have a place or are urgent
  std::size_t allowed = std::numeric_limits<std::size_t>::max();  // how many more of its tasks may have one
  std::size_t places = std::numeric_limits<std::size_t>::max();   // free ones, less those that the urgent tasks need
};

// What work() returns.
struct WorkResult {
  WorkResult(bool worker_stays, bool place_is_free = true)  // NOLINT(google-explicit-constructor)
      : stays(worker_stays), frees_place(place_is_free) {}

  bool stays;        // false if add_worker() has replaced the worker, because its task seemed never to end: it ends
  bool frees_place;  // false: the task goes on without the worker, until free_places()
};

// A queue of tasks that wait for the workers.
struct WorkerQueue {
  unsigned weight = 1;                                          // see Turns
  std::size_t limit = std::numeric_limits<std::size_t>::max();  // most of its tasks that have a place at the same time
};

// Worker threads with queues of tasks. Urgent tasks go before all others; besides, queues with tasks take turns by
// their weights, and a queue whose limit is reached delays no other. A queue may keep one worker free for its urgent
// tasks, so that they need not wait for a long task to end.
//
// A worker calls work(task), then passes the task to take_done(). At that moment load() counts the worker as idle
// again. The pool calls wake() in a worker thread when take_done() has tasks after it had none, and when has_calls()
// becomes false. Neither work(), wake() nor the calls that call() adds may throw.
//
// A task takes one of the `places` when it begins, and one of those that the limit of its queue allows. As a rule they
// are free when work() returns; a task that goes on without its worker keeps them until free_places(). While all places
// are taken, no task begins.
//
// The pool is fast enough for tasks of microseconds: a worker locks the mutex once per task, and a worker that wakes up
// wakes the next one if there are more tasks. To wake all at once would cause contention for the mutex (thundering
// herd).
template <class Task>
class WorkerPool {
 public:
  // While `holds` is true no task begins. If a thread cannot be created, ends those that were, and throws SetupError.
  // `strict`: see Turns.
  WorkerPool(std::size_t workers, std::function<WorkResult(Task&)> work, std::function<void()> wake,
             const std::atomic<bool>& holds, std::size_t places = std::numeric_limits<std::size_t>::max(),
             const std::vector<WorkerQueue>& queues = {{}}, bool strict = false)
      : work_(std::move(work)),
        wake_(std::move(wake)),
        holds_(holds),
        places_(places),
        turns_(weights_of(queues), strict) {
    for (const WorkerQueue& queue : queues) queues_.emplace_back().limit = queue.limit;
    try {
      for (std::size_t i = 0; i < workers; ++i) add_worker();
    } catch (...) {
      close();
      throw;
    }
  }

  ~WorkerPool() { close(); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Throws std::bad_alloc: then `tasks` still has all of them, and none was added.
  void submit(std::vector<Task>&& tasks, std::size_t queue = 0) { put(tasks, &Queue::waiting, queue); }
  void submit_urgent(std::vector<Task>&& tasks, std::size_t queue = 0) { put(tasks, &Queue::urgent, queue); }

  // While on, the queue's last place is for an urgent task, and the last idle worker takes only urgent tasks: unless
  // the limit of the queue is reached, so that none of it could begin, or it is the turn of another queue with a task.
  void keep_one_free(bool on, std::size_t queue = 0) {
    std::unique_lock lock(mutex_);
    queues_[queue].keeps_free = on;
    wake_next(lock);
  }

  WorkerLoad load(std::size_t queue = 0) const {
    const std::lock_guard lock(mutex_);
    return load_of(queues_[queue], urgent_to_begin());
  }

  // Writes the load of each queue.
  void read_loads(std::vector<WorkerLoad>& loads) const {
    const std::lock_guard lock(mutex_);
    loads.clear();
    const std::size_t urgent = urgent_to_begin();
    for (const Queue& queue : queues_) loads.push_back(load_of(queue, urgent));
  }

  // So many tasks of the queue whose work() has returned without freeing their places have ended.
  void free_places(std::size_t count, std::size_t queue = 0) {
    std::unique_lock lock(mutex_);
    taken_ -= count;
    queues_[queue].running -= count;
    wake_next(lock);
  }

  // Adds a call that a worker makes before it begins another task, also while `holds` is true. A worker destroys it,
  // too. close() makes and destroys those that are left.
  void call(std::function<void()> function) {
    std::unique_lock lock(mutex_);
    calls_.push_back(std::move(function));
    ++calls_left_;
    wake_next(lock);
  }

  // Whether a call has not ended yet.
  bool has_calls() const {
    const std::lock_guard lock(mutex_);
    return calls_left_ > 0;
  }

  // Returns the tasks that ended since the last call, in the order in which they ended.
  std::vector<Task> take_done() {
    const std::lock_guard lock(mutex_);
    return std::exchange(done_, {});
  }

  // Removes and returns the queued tasks, queue by queue.
  std::vector<Task> dequeue_all() {
    const std::lock_guard lock(mutex_);
    std::vector<Task> tasks;
    for (std::size_t i = 0; i < queues_.size(); ++i) {
      for (std::deque<Task>* some : {&queues_[i].urgent, &queues_[i].waiting}) {
        for (Task& task : *some) tasks.push_back(std::move(task));
        some->clear();
      }
      turns_.set_busy(i, false);
    }
    urgent_ = waiting_ = 0;
    return tasks;
  }

  // Removes and returns the queued tasks of one queue that `matches` accepts.
  template <class Matches>
  std::vector<Task> dequeue(std::size_t queue, Matches matches) {
    const std::lock_guard lock(mutex_);
    std::vector<Task> tasks;
    const auto take = [&](std::deque<Task>& from, std::size_t& count) {
      const auto left =
          std::stable_partition(from.begin(), from.end(), [&](const Task& task) { return !matches(task); });
      tasks.insert(tasks.end(), std::make_move_iterator(left), std::make_move_iterator(from.end()));
      count -= static_cast<std::size_t>(from.end() - left);
      from.erase(left, from.end());
    };
    take(queues_[queue].urgent, urgent_);
    take(queues_[queue].waiting, waiting_);
    if (queues_[queue].urgent.empty() && queues_[queue].waiting.empty()) turns_.set_busy(queue, false);
    return tasks;
  }

  // Adds a worker. If `is_needed`, which is called when that is started, returns false, it or another one without a
  // task ends at once. So a worker whose replacement cannot be started need not end. Throws SetupError.
  void add_worker(const std::function<bool()>& is_needed = nullptr) {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    for (std::thread& thread : ended_) thread.join();
    ended_.clear();
    std::list<std::thread> added(1);  // allocated before the thread runs, which could not be joined otherwise
    const auto self = added.begin();
    added.front() = start_thread("a worker", [this, self] {
      run();
      const std::lock_guard ending(mutex_);
      if (!closed_) ended_.splice(ended_.end(), threads_, self);
    });
    threads_.splice(threads_.end(), added);
    ++workers_;
    if (is_needed && !is_needed()) ++surplus_;  // the new one looks at it before it sleeps
  }

  // Waits for the running tasks without a limit, drops the queued ones, and makes the queued calls.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
    for (std::list<std::thread>* threads : {&ended_, &threads_}) {  // they do not change any more
      for (std::thread& thread : *threads) {
        if (thread.joinable()) thread.join();
      }
    }
    for (; !calls_.empty(); calls_.pop_front()) calls_.front()();  // no other thread is left
  }

 private:
  struct Queue {
    std::size_t limit = 0;
    std::size_t running = 0;  // those that have a place
    bool keeps_free = false;
    std::deque<Task> urgent{};
    std::deque<Task> waiting{};
  };

  struct Next {
    std::size_t queue;
    std::deque<Task> Queue::*kind;
  };

  static std::vector<unsigned> weights_of(const std::vector<WorkerQueue>& queues) {
    std::vector<unsigned> weights;
    weights.reserve(queues.size());
    for (const WorkerQueue& queue : queues) weights.push_back(queue.weight);
    return weights;
  }

  // Queued urgent tasks that the limits of their queues allow to begin.
  std::size_t urgent_to_begin() const {
    if (urgent_ == 0) return 0;
    std::size_t count = 0;
    for (const Queue& queue : queues_) count += std::min(queue.urgent.size(), minus(queue.limit, queue.running));
    return count;
  }

  WorkerLoad load_of(const Queue& queue, std::size_t urgent) const {
    const std::size_t running = queue.running + queue.urgent.size();
    return {minus(free_workers(), urgent), queue.waiting.size(), running, minus(queue.limit, running),
            minus(places_ - taken_, urgent)};
  }

  void put(std::vector<Task>& tasks, std::deque<Task> Queue::*kind, std::size_t queue) {
    if (tasks.empty()) return;
    std::unique_lock lock(mutex_);
    std::deque<Task>& to = queues_[queue].*kind;
    // At the end of a deque it adds all or, if it throws, none.
    to.insert(to.end(), std::make_move_iterator(tasks.begin()), std::make_move_iterator(tasks.end()));
    (kind == &Queue::urgent ? urgent_ : waiting_) += tasks.size();
    tasks.clear();
    turns_.set_busy(queue, true);
    wake_next(lock);
  }

  // Unlocks, and wakes a sleeping worker if there is a task or call for it. One worker wakes up at a time; it wakes the
  // next one.
  void wake_next(std::unique_lock<std::mutex>& lock) {
    const bool wakes = sleeping_ > 0 && !waking_ && (!calls_.empty() || next().has_value());
    waking_ = waking_ || wakes;
    lock.unlock();
    if (wakes) ready_.notify_one();
  }

  // Workers without a task that have a place for one.
  std::size_t free_workers() const { return std::min(workers_ - busy_, places_ - taken_); }

  // Where the next task is; nullopt: none may begin.
  std::optional<Next> next() const {
    if (holds_ || free_workers() == 0) return std::nullopt;
    if (const auto urgent = next_in(&Queue::urgent, urgent_)) return urgent;
    const auto next = next_in(&Queue::waiting, waiting_);
    return next && free_workers() == 1 && is_kept_from(next->queue) ? std::nullopt : next;
  }

  // Whether the last idle worker is kept free for another queue than this one, or for an urgent task of this one.
  bool is_kept_from(std::size_t next) const {
    for (std::size_t i = 0; i < queues_.size(); ++i) {
      if (queues_[i].keeps_free && queues_[i].running < queues_[i].limit && !turns_.precedes(next, i)) return true;
    }
    return false;
  }

  std::optional<Next> next_in(std::deque<Task> Queue::*kind, std::size_t tasks) const {
    if (tasks == 0) return std::nullopt;
    const std::size_t next = turns_.next([&](std::size_t i) {
      const Queue& queue = queues_[i];
      const std::size_t kept = queue.keeps_free && kind == &Queue::waiting ? 1 : 0;
      return !(queue.*kind).empty() && queue.running < minus(queue.limit, kept);
    });
    return next < queues_.size() ? std::optional(Next{next, kind}) : std::nullopt;
  }

  Task take(const Next& next) {
    Queue& queue = queues_[next.queue];
    Task task = std::move((queue.*next.kind).front());
    (queue.*next.kind).pop_front();
    --(next.kind == &Queue::urgent ? urgent_ : waiting_);
    ++busy_;
    ++taken_;
    ++queue.running;
    turns_.serve(next.queue);
    if (queue.urgent.empty() && queue.waiting.empty()) turns_.set_busy(next.queue, false);
    return task;
  }

  void run() {
    std::unique_lock lock(mutex_);
    for (bool stays = true; stays;) {
      std::optional<Next> begins;
      while (!closed_ && surplus_ == 0 && calls_.empty() && !(begins = next())) sleep(lock);
      if (closed_) return;
      if (surplus_ > 0) {
        --surplus_;
        --workers_;
        break;
      }
      if (!calls_.empty()) {
        make_call(lock);
        continue;
      }
      Task task = take(*begins);
      wake_next(lock);
      const WorkResult result = work_(task);
      stays = result.stays;
      lock.lock();
      --busy_;
      if (!stays) --workers_;
      if (result.frees_place) {
        --taken_;
        --queues_[begins->queue].running;
      }
      add_done(std::move(task), lock);
      if (done_.size() > 1) continue;
      lock.unlock();
      wake_();
      lock.lock();
    }
    wake_next(lock);  // this worker does not go on with the place that it has freed
  }

  // Out of memory it waits until there is some: a task that has ended must not be lost.
  void add_done(Task task, std::unique_lock<std::mutex>& lock) {
    for (;;) {
      try {
        return done_.push_back(std::move(task));  // NOLINT(bugprone-use-after-move): it moves nothing if it throws
      } catch (const std::bad_alloc&) {
        lock.unlock();
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        lock.lock();
      }
    }
  }

  // Returns with the lock.
  void make_call(std::unique_lock<std::mutex>& lock) {
    std::function<void()> call = std::move(calls_.front());
    calls_.pop_front();
    ++busy_;
    wake_next(lock);
    call();
    call = nullptr;
    lock.lock();
    --busy_;
    if (--calls_left_ > 0) return;
    lock.unlock();
    wake_();
    lock.lock();
  }

  void sleep(std::unique_lock<std::mutex>& lock) {
    ++sleeping_;
    ready_.wait(lock);
    --sleeping_;
    waking_ = false;
  }

  const std::function<WorkResult(Task&)> work_;
  const std::function<void()> wake_;
  const std::atomic<bool>& holds_;
  const std::size_t places_;
  mutable std::mutex mutex_;  // guards all members below, but for the threads_ and calls_ that close() finds
  std::condition_variable ready_;
  Turns turns_;
  std::deque<Queue> queues_;
  std::size_t urgent_ = 0;   // queued urgent tasks of all queues
  std::size_t waiting_ = 0;  // queued other tasks of all queues
  std::vector<Task> done_;
  std::deque<std::function<void()>> calls_;
  std::size_t calls_left_ = 0;  // queued or running
  std::size_t workers_ = 0;
  std::size_t surplus_ = 0;  // workers to end
  std::size_t busy_ = 0;     // workers
  std::size_t taken_ = 0;    // places
  std::size_t sleeping_ = 0;
  bool waking_ = false;  // a sleeping worker was notified, and does not run yet
  bool closed_ = false;
  std::list<std::thread> threads_;
  std::list<std::thread> ended_;  // those that were replaced; add_worker() and close() join them
};

}  // namespace delayqueue::run
