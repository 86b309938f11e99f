// WorkerPool: threads that run tasks.
#pragma once

#include "os/resources.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace delayqueue::run {

struct WorkerLoad {
  std::size_t idle = 0;     // workers without a task, less those that the queued urgent tasks need
  std::size_t waiting = 0;  // queued tasks that are not urgent
};

// Worker threads with a queue of tasks. Urgent tasks have a queue of their own, which goes first. One worker may be
// kept free for urgent tasks, so that they need not wait for a long task to end.
//
// A worker calls work(task), then passes the task to take_done(). At that moment load() counts the worker as idle
// again. work() returns whether the worker continues: it returns false if the worker was replaced by add_worker()
// meanwhile, because its task seemed never to end. The pool calls wake() in a worker thread when take_done() has tasks
// after it had none. Neither work() nor wake() may throw.
//
// The pool is fast enough for tasks of microseconds: a worker locks the mutex once per task, and a worker that wakes up
// wakes the next one if there are more tasks. To wake all at once would cause contention for the mutex (thundering
// herd).
template <class Task>
class WorkerPool {
 public:
  // While `holds` is true no task begins. If a thread cannot be created, ends those that were, and throws SetupError.
  WorkerPool(std::size_t workers, std::function<bool(Task&)> work, std::function<void()> wake,
             const std::atomic<bool>& holds)
      : work_(std::move(work)), wake_(std::move(wake)), holds_(holds) {
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
    const std::size_t taken = busy_ + urgent_.size();
    return {workers_ - std::min(workers_, taken), queue_.size()};
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

  // Waits for the running tasks without a limit, and drops the queued ones.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
    for (std::thread& thread : threads_) {  // add_worker() adds no more
      if (thread.joinable()) thread.join();
    }
  }

 private:
  void put(std::vector<Task> tasks, std::deque<Task>& queue) {
    if (tasks.empty()) return;
    std::unique_lock lock(mutex_);
    for (Task& task : tasks) queue.push_back(std::move(task));
    wake_next(lock);
  }

  // Unlocks, and wakes a sleeping worker if there is a task for it. One worker wakes up at a time; it wakes the next
  // one.
  void wake_next(std::unique_lock<std::mutex>& lock) {
    const bool wakes = sleeping_ > 0 && !waking_ && may_begin();
    waking_ = waking_ || wakes;
    lock.unlock();
    if (wakes) ready_.notify_one();
  }

  bool may_begin() const {
    return !holds_ && (!urgent_.empty() || (!queue_.empty() && (!keep_free_ || workers_ - busy_ > 1)));
  }

  void run() {
    std::unique_lock lock(mutex_);
    for (bool stays = true; stays;) {
      while (!closed_ && !may_begin()) sleep(lock);
      if (closed_) return;
      std::deque<Task>& queue = urgent_.empty() ? queue_ : urgent_;
      Task task = std::move(queue.front());
      queue.pop_front();
      ++busy_;
      wake_next(lock);
      stays = work_(task);
      lock.lock();
      --busy_;
      if (!stays) --workers_;
      const bool first = done_.empty();
      done_.push_back(std::move(task));
      if (!first) continue;
      lock.unlock();
      wake_();
      lock.lock();
    }
  }

  void sleep(std::unique_lock<std::mutex>& lock) {
    ++sleeping_;
    ready_.wait(lock);
    --sleeping_;
    waking_ = false;
  }

  const std::function<bool(Task&)> work_;
  const std::function<void()> wake_;
  const std::atomic<bool>& holds_;
  mutable std::mutex mutex_;  // guards all members below; close() joins threads_ without it
  std::condition_variable ready_;
  std::deque<Task> urgent_;
  std::deque<Task> queue_;
  std::vector<Task> done_;
  std::size_t workers_ = 0;
  std::size_t busy_ = 0;
  std::size_t sleeping_ = 0;
  bool waking_ = false;  // a sleeping worker was notified, and does not run yet
  bool keep_free_ = false;
  bool closed_ = false;
  std::list<std::thread> threads_;
};

}  // namespace delayqueue::run
