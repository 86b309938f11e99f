// Threads that each do one task at a time.
#pragma once

#include <algorithm>
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

// A fixed number of workers. Tasks wait in line for a free one; urgent tasks go before all others. One worker may be kept
// free for urgent tasks, so that they need not wait behind the line.
//
// A worker calls work(task); the task is with take_done() from the moment the worker is idle again for all to see.
// `wake` is called, in the worker's thread, when there is something for take_done() after there was nothing. Neither may
// throw. work() says whether its worker stays: for a task that seemed never to end and was replaced by add_hand(), it says
// false when it does end.
//
// Made for tasks of microseconds, too: the lock is taken once a task, and a worker that wakes wakes the next one if there
// is still something to do. To wake all at once would have them fight for the lock while the first does the work.
template <class Task>
class WorkerPool {
 public:
  // How many workers do nothing and are not about to take an urgent task, and how many tasks wait in line for one.
  struct Load {
    std::size_t idle = 0;
    std::size_t waiting = 0;
  };

  WorkerPool(std::size_t workers, std::function<bool(Task&)> work, std::function<void()> wake)
      : work_(std::move(work)), wake_(std::move(wake)) {
    try {
      for (std::size_t i = 0; i < workers; ++i) add_worker();
    } catch (...) {  // no more threads to be had
      close();
      throw;
    }
  }

  ~WorkerPool() { close(); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  void submit(std::vector<Task> tasks) { put(std::move(tasks), line_); }
  void submit_urgent(std::vector<Task> tasks) { put(std::move(tasks), urgent_); }

  // While on, the last idle worker takes urgent tasks only.
  void keep_one_free(bool on) {
    std::unique_lock lock(mutex_);
    keep_free_ = on;
    wake_next(lock);
  }

  Load load() const {
    const std::lock_guard lock(mutex_);
    const std::size_t spoken_for = busy_ + urgent_.size();
    return {workers_ - std::min(workers_, spoken_for), line_.size()};
  }

  // The tasks that were done since the last call, in the order of their ends.
  std::vector<Task> take_done() {
    const std::lock_guard lock(mutex_);
    return std::exchange(done_, {});
  }

  // The tasks that no worker has begun; they are the caller's now.
  std::vector<Task> take_back() {
    const std::lock_guard lock(mutex_);
    std::vector<Task> tasks;
    for (std::deque<Task>* line : {&urgent_, &line_}) {
      for (Task& task : *line) tasks.push_back(std::move(task));
      line->clear();
    }
    return tasks;
  }

  void add_worker() {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    threads_.emplace_back([this] { run(); });
    ++workers_;
  }

  // Waits for the tasks under way, however long; those not begun are dropped.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
    for (std::thread& thread : threads_) {  // no worker is added any more
      if (thread.joinable()) thread.join();
    }
  }

 private:
  void put(std::vector<Task> tasks, std::deque<Task>& line) {
    if (tasks.empty()) return;
    std::unique_lock lock(mutex_);
    for (Task& task : tasks) line.push_back(std::move(task));
    wake_next(lock);
  }

  // Ends the lock. One worker is on its way at a time; there, it wakes the next.
  void wake_next(std::unique_lock<std::mutex>& lock) {
    const bool wakes = asleep_ > 0 && !waking_ && may_begin();
    waking_ = waking_ || wakes;
    lock.unlock();
    if (wakes) ready_.notify_one();
  }

  bool may_begin() const { return !urgent_.empty() || (!line_.empty() && (!keep_free_ || workers_ - busy_ > 1)); }

  void run() {
    std::unique_lock lock(mutex_);
    for (bool stays = true; stays;) {
      while (!closed_ && !may_begin()) sleep(lock);
      if (closed_) return;
      std::deque<Task>& line = urgent_.empty() ? line_ : urgent_;
      Task task = std::move(line.front());
      line.pop_front();
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
    ++asleep_;
    ready_.wait(lock);
    --asleep_;
    waking_ = false;
  }

  const std::function<bool(Task&)> work_;
  const std::function<void()> wake_;
  mutable std::mutex mutex_;  // guards all below but the joining of threads_
  std::condition_variable ready_;
  std::deque<Task> urgent_;
  std::deque<Task> line_;
  std::vector<Task> done_;
  std::size_t workers_ = 0;
  std::size_t busy_ = 0;
  std::size_t asleep_ = 0;
  bool waking_ = false;  // one that sleeps was told to wake, and is not there yet
  bool keep_free_ = false;
  bool closed_ = false;
  std::list<std::thread> threads_;
};

}  // namespace delayqueue::run
