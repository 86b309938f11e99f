// How a consumer begins and ends; what it does in between is in consumer.cc.
#include <delayqueue/consumer.h>

#include "check.h"
#include "consumer_impl.h"
#include "inside.h"
#include "store/views.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace delayqueue {
namespace {

ConsumerOptions checked(ConsumerOptions options, const Handler& handler) {
  check(options);
  if (!handler) throw std::invalid_argument("handler: none; expected a function");
  if (!options.backoff) options.backoff = exponential(milliseconds(1000), milliseconds(600'000));
  return options;
}

}  // namespace

Consumer::Impl::Impl(const std::string& url, const std::string& queue, Handler handler, ConsumerOptions options)
    : options_(checked(std::move(options), handler)),
      handler_(std::move(handler)),
      endpoint_(url, queue, options_.connection, options_.queue),
      store_(endpoint_.keys(), {options_.dead_retention.count() > 0, 0}),
      durable_(options_.durability),
      report_(options_.logger, options_.on_event, options_.report_events),
      watch_(endpoint_, options_.connection.command_timeout),
      held_(options_.lease),
      settling_(options_.backoff),
      intake_(static_cast<std::size_t>(options_.concurrency), static_cast<std::size_t>(options_.prefetch),
              options_.lease),
      housekeeping_({2 * options_.poll_interval, options_.dead_retention, options_.dead_limit}),
      loop_([this] { return step(); }) {}

Consumer::Impl::~Impl() {
  stop(std::chrono::seconds(30));
  hands_.reset();  // while all that handlers use is still there
}

void Consumer::Impl::start() {
  const std::lock_guard life(life_);
  const Inside callbacks(this);
  if (started_ || stopping_) throw std::logic_error("a consumer starts once");
  try {
    connect();
    redis::Pipeline pipeline(*connection_);
    const auto probe = store::counts(pipeline, store_.keys());  // finds keys of a wrong type
    pipeline.run();
    probe.get();
  } catch (const ConnectionError& e) {
    trouble(e);
  }
  hands_ = std::make_unique<Hands>(
      static_cast<std::size_t>(options_.concurrency), [this](DeliveryPtr& delivery) { return handle(*delivery); },
      [this] { loop_.wake(); });
  loop_.start();
  started_ = true;
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
  stopping_ = true;
  if (Inside::current() == this) {
    const std::lock_guard lock(state_mutex_);
    asked_to_stop_ = true;
    state_changed_.notify_all();
    return false;
  }
  const std::lock_guard life(life_);
  if (stopped_) return clean_;
  if (started_) {
    loop_.wake();
    std::unique_lock lock(state_mutex_);
    clean_ = state_changed_.wait_for(lock, std::min(deadline, kLongest), [this] { return drained_; });
    lock.unlock();
    loop_.stop();
  }
  trips_.clear();
  connection_.reset();
  connected_ = false;
  watch_.end();
  const std::lock_guard lock(state_mutex_);
  stopped_ = true;
  state_changed_.notify_all();
  return clean_;
}

ConsumerStats Consumer::Impl::stats() const {
  const std::lock_guard lock(error_mutex_);
  return {delivered_,   acked_,    nacked_, snoozed_,   stale_,     expired_,
          unconfirmed_, connects_, errors_, connected_, last_error_};
}

// ---- The public face -----------------------------------------------------------------------------------------------

Consumer::Consumer(const std::string& url, const std::string& queue, Handler handler, ConsumerOptions options)
    : impl_(std::make_unique<Impl>(url, queue, std::move(handler), std::move(options))) {}
Consumer::~Consumer() = default;
void Consumer::start() { impl_->start(); }
void Consumer::run() { impl_->run(); }
bool Consumer::stop(milliseconds deadline) { return impl_->stop(deadline); }
ConsumerStats Consumer::stats() const { return impl_->stats(); }

}  // namespace delayqueue
