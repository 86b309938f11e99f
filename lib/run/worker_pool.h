// WorkerPool: threads that run tasks.
#pragma once

#include "os/resources.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <limits>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace delayqueue::run {

struct WorkerLoad {
  std::size_t idle = 0;     // workers that may begin a task, less those that the queued urgent tasks need
  std::size_t waiting = 0;  // queued tasks that are not urgent
  std::size_t places = std::numeric_limits<std::size_t>::max();  // free ones, less those that the urgent tasks need
};

// What work() returns.
struct WorkResult {
  WorkResult(bool worker_stays, bool place_is_free = true)  // NOLINT(google-explicit-constructor)
      : stays(worker_stays), frees_place(place_is_free) {}

  bool stays;        // false if add_worker() has replaced the worker, because its task seemed never to end: it ends
  bool frees_place;  // false: the task goes on without the worker, until free_places()
};

// Worker threads with a queue of tasks. Urgent tasks have a queue of their own, which goes first. One worker may be
// kept free for urgent tasks, so that they need not wait for a long task to end.
//
// A worker calls work(task), then passes the task to take_done(). At that moment load() counts the worker as idle
// again. The pool calls wake() in a worker thread when take_done() has tasks after it had none, and when has_calls()
// becomes false. Neither work(), wake() nor the calls that call() adds may throw.
//
// A task takes one of the `places` when it begins. As a rule its place is free when work() returns; a task that goes on
// without its worker keeps it until free_places(). While all places are taken, no task begins.
//
// The pool is fast enough for tasks of microseconds: a worker locks the mutex once per task, and a worker that wakes up
// wakes the next one if there are more tasks. To wake all at once would cause contention for the mutex (thundering
// herd).
template <class Task>
class WorkerPool {
 public:
  // While `holds` is true no task begins. If a thread cannot be created, ends those that were, and throws SetupError.
  WorkerPool(std::size_t workers, std::function<WorkResult(Task&)> work, std::function<void()> wake,
             const std::atomic<bool>& holds, std::size_t places = std::numeric_limits<std::size_t>::max())
      : work_(std::move(work)), wake_(std::move(wake)), holds_(holds), places_(places) {
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

  void submit(std::vector<Task> tasks) { put(std::move(tasks), queue_); }
  void submit_urgent(std::vector<Task> tasks) { put(std::move(tasks), urgent_); }

  // While on, the last idle worker takes only urgent tasks.
  void keep_one_free(bool on) {
    std::unique_lock lock(mutex_);
    keep_free_ = on;
    wake_next(lock);
  }

  WorkerLoad load() const {
    const std::lock_guard lock(mutex_);
    return {minus(free_workers(), urgent_.size()), queue_.size(), minus(places_ - taken_, urgent_.size())};
  }

  // So many tasks whose work() has returned without freeing their places have ended.
  void free_places(std::size_t count) {
    std::unique_lock lock(mutex_);
    taken_ -= count;
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

  // Removes and returns the queued tasks.
  std::vector<Task> take_back() {
    const std::lock_guard lock(mutex_);
    std::vector<Task> tasks;
    for (std::deque<Task>* queue : {&urgent_, &queue_}) {
      for (Task& task : *queue) tasks.push_back(std::move(task));
      queue->clear();
    }
    return tasks;
  }

  // Throws SetupError.
  void add_worker() {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    std::list<std::thread> added(1);  // allocated before the thread runs, which could not be joined otherwise
    added.front() = start_thread("a worker", [this] { run(); });
    threads_.splice(threads_.end(), added);
    ++workers_;
  }

  // Waits for the running tasks without a limit, drops the queued ones, and makes the queued calls.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
    for (std::thread& thread : threads_) {  // add_worker() adds no more
      if (thread.joinable()) thread.join();
    }
    for (; !calls_.empty(); calls_.pop_front()) calls_.front()();  // no other thread is left
  }

 private:
  static std::size_t minus(std::size_t a, std::size_t b) { return a - std::min(a, b); }

  void put(std::vector<Task> tasks, std::deque<Task>& queue) {
    if (tasks.empty()) return;
    std::unique_lock lock(mutex_);
    for (Task& task : tasks) queue.push_back(std::move(task));
    wake_next(lock);
  }

  // Unlocks, and wakes a sleeping worker if there is a task or call for it. One worker wakes up at a time; it wakes the
  // next one.
  void wake_next(std::unique_lock<std::mutex>& lock) {
    const bool wakes = sleeping_ > 0 && !waking_ && (!calls_.empty() || may_begin());
    waking_ = waking_ || wakes;
    lock.unlock();
    if (wakes) ready_.notify_one();
  }

  // Workers without a task that have a place for one.
  std::size_t free_workers() const { return std::min(workers_ - busy_, places_ - taken_); }

  bool may_begin() const {
    if (holds_ || free_workers() == 0) return false;
    return !urgent_.empty() || (!queue_.empty() && (!keep_free_ || free_workers() > 1));
  }

  void run() {
    std::unique_lock lock(mutex_);
    for (bool stays = true; stays;) {
      while (!closed_ && calls_.empty() && !may_begin()) sleep(lock);
      if (closed_) return;
      if (!calls_.empty()) {
        make_call(lock);
        continue;
      }
      std::deque<Task>& queue = urgent_.empty() ? queue_ : urgent_;
      Task task = std::move(queue.front());
      queue.pop_front();
      ++busy_;
      ++taken_;
      wake_next(lock);
      const WorkResult result = work_(task);
      stays = result.stays;
      lock.lock();
      --busy_;
      if (!stays) --workers_;
      if (result.frees_place) --taken_;
      const bool first = done_.empty();
      done_.push_back(std::move(task));
      if (!first) continue;
      lock.unlock();
      wake_();
      lock.lock();
    }
    wake_next(lock);  // this worker does not go on with the place that it has freed
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
  std::deque<Task> urgent_;
  std::deque<Task> queue_;
  std::vector<Task> done_;
  std::deque<std::function<void()>> calls_;
  std::size_t calls_left_ = 0;  // queued or running
  std::size_t workers_ = 0;
  std::size_t busy_ = 0;   // workers
  std::size_t taken_ = 0;  // places
  std::size_t sleeping_ = 0;
  bool waking_ = false;  // a sleeping worker was notified, and does not run yet
  bool keep_free_ = false;
  bool closed_ = false;
  std::list<std::thread> threads_;
};

}  // namespace delayqueue::run
