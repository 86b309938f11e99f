// How a consumer begins and ends; what it does in between is in consumer.cc.
#include <delayqueue/consumer.h>

#include "consumer/consumer_loop.h"
#include "queue/option_checks.h"
#include "redis/escaped.h"
#include "store/queries.h"

#include <algorithm>
#include <stdexcept>
#include <thread>
#include <utility>

namespace delayqueue {
namespace {

constexpr milliseconds kStartPatience{500};  // six round trips to an encrypted server far away

ConsumerOptions checked(ConsumerOptions options, const Handler& handler) {
  check(options);
  if (!handler) throw std::invalid_argument("handler: none; expected a function");
  if (!options.backoff) options.backoff = exponential(milliseconds(1000), milliseconds(600'000));
  return options;
}

}  // namespace

// One start() or stop() at a time. No std::timed_mutex: the thread sanitizer of gcc 12 does not see it locked.
class Consumer::Impl::Turn {
 public:
  Turn(Impl& impl, std::chrono::steady_clock::time_point until) : impl_(impl) {
    std::unique_lock lock(impl_.state_mutex_);
    owned_ = impl_.state_changed_.wait_until(lock, until, [&] { return !impl_.turn_taken_; });
    if (owned_) impl_.turn_taken_ = true;
  }
  ~Turn() {
    if (!owned_) return;
    const std::lock_guard lock(impl_.state_mutex_);
    impl_.turn_taken_ = false;
    impl_.state_changed_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  bool owned() const { return owned_; }

 private:
  Impl& impl_;
  bool owned_ = false;
};

Consumer::Impl::Impl(const std::string& url, const std::string& queue, Handler handler, ConsumerOptions options)
    : options_(checked(std::move(options), handler)),
      handler_(std::move(handler)),
      id_(store::new_ids(1).front()),
      endpoint_(url, queue, options_.connection, options_.queue),
      store_(endpoint_.keys(), {options_.dead_retention.count() > 0, 0}),
      write_concern_(options_.durability),
      event_sink_("queue " + redis::escaped(queue) + ", consumer " + id_.substr(id_.size() - 8), options_.logger,
                  options_.on_event, options_.report_events),
      wakeup_listener_(endpoint_, id_, options_.connection.command_timeout),
      lease_keeper_(options_.lease),
      settler_(options_.backoff),
      prefetcher_(static_cast<std::size_t>(options_.concurrency), static_cast<std::size_t>(options_.prefetch),
                  options_.lease),
      maintenance_({2 * options_.poll_interval, options_.dead_retention, options_.dead_limit}),
      loop_([this] { return step(); }) {
  event_sink_.warn(endpoint_.warning());
}

Consumer::Impl::~Impl() {
  stop(std::chrono::seconds(30));
  workers_.reset();  // while all that handlers use is still there
}

void Consumer::Impl::start() {
  const Turn turn(*this, std::chrono::steady_clock::now() + kLongest);
  const CallbackScope callbacks(this);
  if (started_ || stopping_) throw std::logic_error("a consumer starts once");
  if (first_thread_.joinable()) first_thread_.join();  // of a start() that threw
  std::packaged_task<void()> first([this] { connect_first(); });
  first_ = first.get_future();
  first_thread_ = std::thread(std::move(first));
  try {
    if (first_.wait_for(kStartPatience) == std::future_status::ready) read_first();
  } catch (const ConnectionError& e) {
    on_failure(e);
  } catch (const redis::ScriptsMissing& e) {  // a server that restarted with this program, and is not done yet
    on_failure(e);
  }
  workers_ = std::make_unique<Workers>(
      static_cast<std::size_t>(options_.concurrency), [this](DeliveryPtr& delivery) { return handle(*delivery); },
      [this] { loop_.wake(); });
  loop_.start();
  started_ = true;
}

// In a thread of its own: what it waits for is not waited for by start() beyond its patience.
void Consumer::Impl::connect_first() {
  const CallbackScope callbacks(this);
  const Interrupt::Scope until(interrupt_);
  connect();
  redis::Pipeline pipeline(*connection_);
  const auto probe = store::counts(pipeline, store_.keys());  // finds keys of a wrong type
  pipeline.run();
  probe.get();
}

// Throws what it met with.
void Consumer::Impl::read_first() {
  first_thread_.join();
  first_.get();
}

void Consumer::Impl::run() {
  start();
  {
    std::unique_lock lock(state_mutex_);
    state_changed_.wait(lock, [this] { return stopped_ || asked_to_stop_; });
  }
  stop(std::chrono::seconds(30));
}

bool Consumer::Impl::stop(milliseconds deadline) {
  const auto end = std::chrono::steady_clock::now() + std::min(deadline, kLongest);
  stopping_ = true;
  if (is_in_callback()) {
    const std::lock_guard lock(state_mutex_);
    asked_to_stop_ = true;
    state_changed_.notify_all();
    return false;
  }
  const Turn turn(*this, end);
  if (!turn.owned()) return false;  // another stop() waits for longer
  if (stopped_) return clean_;
  if (started_) {
    loop_.wake();
    std::unique_lock lock(state_mutex_);
    clean_ = state_changed_.wait_until(lock, end, [this] { return drained_; });
  }
  interrupt_.raise();  // it may wait for a server that does not answer
  loop_.stop();
  if (first_thread_.joinable()) first_thread_.join();  // start() threw, or the loop did not come to it
  round_trips_.clear();
  connection_.reset();
  connected_ = false;
  wakeup_listener_.end();
  const std::lock_guard lock(state_mutex_);
  stopped_ = true;
  state_changed_.notify_all();
  return clean_;
}

ConsumerStats Consumer::Impl::stats() const {
  const std::lock_guard lock(error_mutex_);
  return {delivered_, acked_,       nacked_,   snoozed_, stale_,     expired_,
          foreign_,   unconfirmed_, connects_, errors_,  connected_, last_error_};
}

// ---- The public face -----------------------------------------------------------------------------------------------

Consumer::Consumer(const std::string& url, const std::string& queue, Handler handler, ConsumerOptions options)
    : impl_("Consumer", std::make_unique<Impl>(url, queue, std::move(handler), std::move(options))) {}

// A handler cannot wait for its own end: another thread does then. In a fork nothing is destroyed: see Owned.
Consumer::~Consumer() {
  if (impl_.get() == nullptr || !impl_.get()->is_in_callback()) return;
  std::thread([impl = impl_.release()]() mutable { impl.reset(); }).detach();
}

void Consumer::start() { impl_->start(); }
void Consumer::run() { impl_->run(); }
bool Consumer::stop(milliseconds deadline) { return impl_->stop(deadline); }
ConsumerStats Consumer::stats() const { return impl_->stats(); }

}  // namespace delayqueue
