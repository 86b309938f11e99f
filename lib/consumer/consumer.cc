#include <delayqueue/consumer.h>

#include "consumer/callback_scope.h"
#include "consumer/consumer_loop.h"
#include "os/caught_signals.h"
#include "os/interrupt.h"
#include "os/resources.h"
#include "queue/option_checks.h"
#include "run/loop.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace delayqueue {
namespace {

using Clock = std::chrono::steady_clock;

constexpr milliseconds kStartPatience{500};  // six round trips to an encrypted server far away
constexpr milliseconds kStoppedPause{1000};  // stop() ends it
constexpr milliseconds kRunTimeout{30'000};  // of the stop() of run()

std::vector<Subscription> subscriptions_of(const QueueNames& queues, const Handler& handler) {
  std::vector<Subscription> subscriptions;
  subscriptions.reserve(queues.size());
  for (const QueueName& queue : queues) subscriptions.push_back({queue, handler, {}});
  return subscriptions;
}

}  // namespace

// Starts and stops the loop of a consumer, and the threads it needs.
class Consumer::Impl {
 public:
  Impl(const Client& client, std::vector<Subscription> subscriptions, ConsumerOptions options)
      : consumer_loop_(client, std::move(subscriptions), std::move(options),
                       {this, [this] { loop_.wake(); }, [this] { on_drained(); }}),
        loop_([this] { return step(); }) {}
  ~Impl();

  void start();
  bool run();
  bool run(const std::vector<int>& signals, milliseconds timeout);
  bool stop(milliseconds timeout);
  void request_stop(std::function<void(bool)> stopped, milliseconds timeout);
  ConsumerMetrics metrics() const { return consumer_loop_.metrics(); }

  // Whether its handler or callback runs in this thread. In a fork made there, no thread is the consumer's.
  bool is_in_callback() const { return CallbackScope::current() == this && process_ == internal::this_process(); }

 private:
  class CallLock;

  bool has_to_end();
  void end_run();
  void connect_first();
  void read_first();
  run::Loop::Pause step();
  void on_drained();
  void join_stop_threads();

  const long process_ = internal::this_process();
  // Guards the next five. Only the owner of the CallLock changes stopped_, and reads it without the mutex.
  std::mutex mutex_;
  bool has_call_ = false;        // a start() or stop() runs
  bool drained_ = false;         // stopping, and nothing is left to settle
  bool stop_requested_ = false;  // by a stop() that did not wait: run() is to stop
  bool stopped_ = false;
  std::vector<std::thread> stop_threads_;  // of request_stop()
  std::condition_variable changed_;
  CaughtSignals* signals_ = nullptr;  // of the run() that waits for them
  bool clean_ = true;                 // the result of stop(); of the owner of the CallLock, as is started_
  bool started_ = false;
  Interrupt interrupt_;  // raised when stop() waits no longer
  ConsumerLoop consumer_loop_;
  std::thread first_thread_;  // makes the first connection; until it is joined, consumer_loop_ belongs to it
  std::future<void> first_;   // its result
  run::Loop loop_;            // last: its thread uses all above
};

// One start() or stop() at a time. No std::timed_mutex: the thread sanitizer of gcc 12 does not see it locked.
class Consumer::Impl::CallLock {
 public:
  CallLock(Impl& impl, Clock::time_point until) : impl_(impl) {
    std::unique_lock lock(impl_.mutex_);
    owned_ = impl_.changed_.wait_until(lock, until, [&] { return !impl_.has_call_; });
    if (owned_) impl_.has_call_ = true;
  }
  ~CallLock() {
    if (!owned_) return;
    const std::lock_guard lock(impl_.mutex_);
    impl_.has_call_ = false;
    impl_.changed_.notify_all();
  }
  CallLock(const CallLock&) = delete;
  CallLock& operator=(const CallLock&) = delete;

  bool owned() const { return owned_; }

 private:
  Impl& impl_;
  bool owned_ = false;
};

Consumer::Impl::~Impl() {
  stop(std::chrono::seconds(30));
  join_stop_threads();  // one of them may have had the CallLock until now
  consumer_loop_.refuse_verdicts();
  consumer_loop_.join_handlers();  // while all that handlers use is still there
  join_stop_threads();             // that the last handlers have started
}

void Consumer::Impl::start() {
  const CallLock call(*this, Clock::now() + kLongest);
  const CallbackScope callbacks(this);
  if (started_ || consumer_loop_.is_stopping()) throw std::logic_error("a consumer starts once");
  if (first_thread_.joinable()) first_thread_.join();  // of a start() that threw
  std::packaged_task<void()> first([this] { connect_first(); });
  first_ = first.get_future();
  first_thread_ = start_thread("the first connection", std::move(first));
  try {
    if (first_.wait_for(kStartPatience) == std::future_status::ready) read_first();
  } catch (const Error&) {
    const redis::Failure failure = redis::current_failure();
    // Without its scripts, the server may have restarted together with this program.
    if (!failure.is_connection() && failure.kind != redis::Failure::Kind::scripts_missing) throw;
    consumer_loop_.on_failure(failure);
  }
  consumer_loop_.start_workers();
  try {
    loop_.start();
  } catch (...) {
    consumer_loop_.join_handlers();  // no worker has a task yet
    throw;
  }
  started_ = true;
  consumer_loop_.on_started();
}

// In its own thread, so that start() can return before the server answers.
void Consumer::Impl::connect_first() {
  const CallbackScope callbacks(this);
  const Interrupt::Scope until(interrupt_);
  consumer_loop_.connect_first();
}

// Throws what the first connection threw.
void Consumer::Impl::read_first() {
  first_thread_.join();
  first_.get();
}

run::Loop::Pause Consumer::Impl::step() {
  const CallbackScope callbacks(this);
  const Interrupt::Scope until(interrupt_);
  if (interrupt_.is_raised()) return kStoppedPause;
  try {
    if (first_thread_.joinable()) read_first();
    return consumer_loop_.step();
  } catch (const std::exception&) {
    if (interrupt_.is_raised()) return kStoppedPause;
    return consumer_loop_.on_failure(redis::current_failure());
  }
}

void Consumer::Impl::on_drained() {
  const std::lock_guard lock(mutex_);
  drained_ = true;
  changed_.notify_all();
}

bool Consumer::Impl::run() {
  start();
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopped_ || stop_requested_; });
  }
  return stop(kRunTimeout);
}

bool Consumer::Impl::run(const std::vector<int>& signals, milliseconds timeout) {
  int early = 0;  // arrived before start() threw
  try {
    CaughtSignals caught(signals);
    try {
      start();
    } catch (...) {
      early = caught.number();
      throw;
    }
    {
      const std::lock_guard lock(mutex_);
      signals_ = &caught;
    }
    while (caught.number() == 0 && !has_to_end()) caught.wait();
    {
      const std::lock_guard lock(mutex_);
      signals_ = nullptr;
    }
    return stop(caught.number() != 0 ? timeout : kRunTimeout);
  } catch (...) {
    if (early != 0) raise(early);
    throw;
  }
}

bool Consumer::Impl::has_to_end() {
  const std::lock_guard lock(mutex_);
  return stopped_ || stop_requested_;
}

// With the mutex locked, after one of the two has become true.
void Consumer::Impl::end_run() {
  changed_.notify_all();
  if (signals_ != nullptr) signals_->wake();
}

bool Consumer::Impl::stop(milliseconds timeout) {
  const auto end = Clock::now() + std::clamp(timeout, milliseconds(0), kLongest);
  consumer_loop_.stop_taking();
  if (is_in_callback()) {
    const std::lock_guard lock(mutex_);
    stop_requested_ = true;
    end_run();
    return false;
  }
  const CallLock call(*this, end);
  if (!call.owned()) {  // a start() or another stop() has it; after that start(), run() stops
    const std::lock_guard lock(mutex_);
    stop_requested_ = true;
    end_run();
    return false;
  }
  if (stopped_) return clean_;
  if (started_) {
    loop_.wake();
    std::unique_lock lock(mutex_);
    clean_ = changed_.wait_until(lock, end, [this] { return drained_; });
  }
  interrupt_.raise();  // it may wait for a server that does not answer
  loop_.stop();
  if (first_thread_.joinable()) first_thread_.join();  // start() threw, or no step has joined it yet
  {
    const CallbackScope callbacks(this);  // of verdicts that came too late for the last step
    consumer_loop_.refuse_verdicts();
  }
  consumer_loop_.disconnect();
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  end_run();
  return clean_;
}

void Consumer::Impl::request_stop(std::function<void(bool)> stopped, milliseconds timeout) {
  const std::lock_guard lock(mutex_);
  stop_threads_.reserve(stop_threads_.size() + 1);  // first: a thread that runs must be kept
  stop_threads_.push_back(start_thread("the stop of a consumer", [this, timeout, call = std::move(stopped)]() mutable {
    const bool clean = stop(timeout);
    const CallbackScope callbacks(this);
    if (call) std::exchange(call, nullptr)(clean);  // destroys it here, too: either may destroy the consumer
  }));
  consumer_loop_.stop_taking();  // not only when the thread runs
}

void Consumer::Impl::join_stop_threads() {
  for (;;) {
    std::vector<std::thread> threads;
    {
      const std::lock_guard lock(mutex_);
      threads.swap(stop_threads_);
    }
    if (threads.empty()) return;
    for (std::thread& thread : threads) thread.join();  // its callback may have started another one
  }
}

std::size_t ConsumerOptions::hardware_concurrency() { return std::max(1U, std::thread::hardware_concurrency()); }

// ---- The public class ----------------------------------------------------------------------------------------------

// Each queue has a copy of the handler.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
Consumer::Consumer(const Client& client, const QueueNames& queues, Handler handler, ConsumerOptions options)
    : Consumer(client, subscriptions_of(queues, handler), std::move(options)) {}

Consumer::Consumer(const Client& client, std::vector<Subscription> subscriptions, ConsumerOptions options)
    : impl_("Consumer", std::make_unique<Impl>(client, std::move(subscriptions), std::move(options))) {}

// A handler cannot wait for its own end, so another thread does. If there can be none, the consumer stops taking
// messages and stays in memory. In a fork nothing is destroyed: see Owned.
Consumer::~Consumer() {
  if (impl_.get() == nullptr || !impl_.get()->is_in_callback()) return;
  Impl* const impl = impl_.release().release();
  try {
    start_thread("the end of a consumer", [impl] { const std::unique_ptr<Impl> ends(impl); }).detach();
  } catch (const SetupError&) {
    impl->stop(milliseconds(0));
    internal::keep(std::shared_ptr<Impl>(impl));
  }
}

void Consumer::start() { impl_->start(); }
bool Consumer::run() { return impl_->run(); }
bool Consumer::run(const StopSignals& signals) { return impl_->run(signals.signals_, signals.timeout_); }

StopSignals::StopSignals() : signals_{SIGINT, SIGTERM} {}

bool Consumer::stop(milliseconds timeout) { return impl_->stop(timeout); }
void Consumer::request_stop(std::function<void(bool clean)> stopped, milliseconds timeout) {
  impl_->request_stop(std::move(stopped), timeout);
}
ConsumerMetrics Consumer::metrics() const { return impl_->metrics(); }

}  // namespace delayqueue
