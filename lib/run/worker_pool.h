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

// The load of the workers, as it concerns one line of tasks.
struct WorkerLoad {
  std::size_t idle = 0;     // workers that may begin a task, less those that the queued urgent tasks need
  std::size_t waiting = 0;  // queued tasks of the line that are not urgent
  std::size_t running = 0;  // tasks of the line that have a place or are urgent
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

// A line of tasks that wait for the workers.
struct WorkerLine {
  unsigned weight = 1;                                          // see Turns
  std::size_t limit = std::numeric_limits<std::size_t>::max();  // most of its tasks that have a place at the same time
};

// Worker threads with lines of tasks. Urgent tasks go before all others; besides, lines with tasks take turns by their
// weights, and a line whose limit is reached delays no other. A line may keep one worker free for its urgent tasks, so
// that they need not wait for a long task to end.
//
// A worker calls work(task), then passes the task to take_done(). At that moment load() counts the worker as idle
// again. The pool calls wake() in a worker thread when take_done() has tasks after it had none, and when has_calls()
// becomes false. Neither work(), wake() nor the calls that call() adds may throw.
//
// A task takes one of the `places` when it begins, and one of those that the limit of its line allows. As a rule they
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
             const std::vector<WorkerLine>& lines = {{}}, bool strict = false)
      : work_(std::move(work)),
        wake_(std::move(wake)),
        holds_(holds),
        places_(places),
        turns_(weights_of(lines), strict) {
    for (const WorkerLine& line : lines) lines_.emplace_back().limit = line.limit;
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
  void submit(std::vector<Task>&& tasks, std::size_t line = 0) { put(tasks, &Line::queue, line); }
  void submit_urgent(std::vector<Task>&& tasks, std::size_t line = 0) { put(tasks, &Line::urgent, line); }

  // While on, the line's last place is for an urgent task, and the last idle worker takes only urgent tasks: unless the
  // limit of the line is reached, so that none of it could begin, or it is the turn of another line with a task.
  void keep_one_free(bool on, std::size_t line = 0) {
    std::unique_lock lock(mutex_);
    lines_[line].keeps_free = on;
    wake_next(lock);
  }

  WorkerLoad load(std::size_t line = 0) const {
    const std::lock_guard lock(mutex_);
    return load_of(lines_[line], urgent_to_begin());
  }

  // Writes the load of each line.
  void read_loads(std::vector<WorkerLoad>& loads) const {
    const std::lock_guard lock(mutex_);
    loads.clear();
    const std::size_t urgent = urgent_to_begin();
    for (const Line& line : lines_) loads.push_back(load_of(line, urgent));
  }

  // So many tasks of the line whose work() has returned without freeing their places have ended.
  void free_places(std::size_t count, std::size_t line = 0) {
    std::unique_lock lock(mutex_);
    taken_ -= count;
    lines_[line].running -= count;
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

  // Removes and returns the queued tasks, line by line.
  std::vector<Task> dequeue_all() {
    const std::lock_guard lock(mutex_);
    std::vector<Task> tasks;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      for (std::deque<Task>* queue : {&lines_[i].urgent, &lines_[i].queue}) {
        for (Task& task : *queue) tasks.push_back(std::move(task));
        queue->clear();
      }
      turns_.set_busy(i, false);
    }
    urgent_ = waiting_ = 0;
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
  struct Line {
    std::size_t limit = 0;
    std::size_t running = 0;  // those that have a place
    bool keeps_free = false;
    std::deque<Task> urgent{};
    std::deque<Task> queue{};
  };

  struct Next {
    std::size_t line;
    std::deque<Task> Line::*queue;
  };

  static std::vector<unsigned> weights_of(const std::vector<WorkerLine>& lines) {
    std::vector<unsigned> weights;
    weights.reserve(lines.size());
    for (const WorkerLine& line : lines) weights.push_back(line.weight);
    return weights;
  }

  // Queued urgent tasks that the limits of their lines allow to begin.
  std::size_t urgent_to_begin() const {
    if (urgent_ == 0) return 0;
    std::size_t count = 0;
    for (const Line& line : lines_) count += std::min(line.urgent.size(), minus(line.limit, line.running));
    return count;
  }

  WorkerLoad load_of(const Line& line, std::size_t urgent) const {
    const std::size_t running = line.running + line.urgent.size();
    return {minus(free_workers(), urgent), line.queue.size(), running, minus(line.limit, running),
            minus(places_ - taken_, urgent)};
  }

  void put(std::vector<Task>& tasks, std::deque<Task> Line::*queue, std::size_t line) {
    if (tasks.empty()) return;
    std::unique_lock lock(mutex_);
    std::deque<Task>& to = lines_[line].*queue;
    // At the end of a deque it adds all or, if it throws, none.
    to.insert(to.end(), std::make_move_iterator(tasks.begin()), std::make_move_iterator(tasks.end()));
    (queue == &Line::urgent ? urgent_ : waiting_) += tasks.size();
    tasks.clear();
    turns_.set_busy(line, true);
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
    if (const auto urgent = next_in(&Line::urgent, urgent_)) return urgent;
    const auto next = next_in(&Line::queue, waiting_);
    return next && free_workers() == 1 && is_kept_from(next->line) ? std::nullopt : next;
  }

  // Whether the last idle worker is kept free for another line than this one, or for an urgent task of this one.
  bool is_kept_from(std::size_t next) const {
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      if (lines_[i].keeps_free && lines_[i].running < lines_[i].limit && !turns_.precedes(next, i)) return true;
    }
    return false;
  }

  std::optional<Next> next_in(std::deque<Task> Line::*queue, std::size_t tasks) const {
    if (tasks == 0) return std::nullopt;
    const std::size_t next = turns_.next([&](std::size_t i) {
      const Line& line = lines_[i];
      const std::size_t kept = line.keeps_free && queue == &Line::queue ? 1 : 0;
      return !(line.*queue).empty() && line.running < minus(line.limit, kept);
    });
    return next < lines_.size() ? std::optional(Next{next, queue}) : std::nullopt;
  }

  Task take(const Next& next) {
    Line& line = lines_[next.line];
    Task task = std::move((line.*next.queue).front());
    (line.*next.queue).pop_front();
    --(next.queue == &Line::urgent ? urgent_ : waiting_);
    ++busy_;
    ++taken_;
    ++line.running;
    turns_.serve(next.line);
    if (line.urgent.empty() && line.queue.empty()) turns_.set_busy(next.line, false);
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
        --lines_[begins->line].running;
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
  std::deque<Line> lines_;
  std::size_t urgent_ = 0;   // queued urgent tasks of all lines
  std::size_t waiting_ = 0;  // queued other tasks of all lines
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
