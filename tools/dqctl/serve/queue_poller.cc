#include "serve/queue_poller.h"

#include <delayqueue/error.h>

#include <algorithm>
#include <exception>
#include <set>
#include <utility>

#include "listed_queues.h"
#include "row_error.h"

namespace dqctl {
namespace {

using delayqueue::Counts;

constexpr milliseconds kOften{1000};
constexpr milliseconds kSeldom{15'000};     // without clients: for the history only
constexpr milliseconds kAskedFor{5000};     // how long a request is remembered
constexpr milliseconds kShortestSpan{500};  // between two readings that a rate is computed from
constexpr int kIdleShare = 3;               // a poll is followed by a pause of at least as many times its length

}  // namespace

const QueueReading* Readings::find(const std::string& queue) const {
  const auto found = std::lower_bound(queues.begin(), queues.end(), queue,
                                      [](const auto& one, const std::string& name) { return one->queue < name; });
  return found == queues.end() || (*found)->queue != queue ? nullptr : found->get();
}

QueuePoller::QueuePoller(Context& context, History& history, std::function<void(const Readings&)> changed)
    : context_(context), history_(history), changed_(std::move(changed)) {
  try {
    poll();
  } catch (const delayqueue::ConnectionError& error) {
    publish_failure(error.what());
  }
}

QueuePoller::~QueuePoller() {
  stop(milliseconds(0));
  if (thread_.joinable()) thread_.join();
}

void QueuePoller::start() {
  has_ended_ = false;
  thread_ = std::thread([this] { run(); });
}

void QueuePoller::ask() {
  const std::lock_guard lock(mutex_);
  asked_ = Steady::now();
  wake_.notify_one();
}

std::shared_ptr<const Readings> QueuePoller::fresh() {
  std::unique_lock lock(mutex_);
  asked_ = Steady::now();
  wake_.notify_one();
  if (asked_ - polled_at_ <= kOften) return readings_;
  const std::uint64_t before = polls_;
  polled_.wait_for(lock, kOften, [&] { return polls_ != before || stopping_; });
  return readings_;
}

std::shared_ptr<const Readings> QueuePoller::last() const {
  const std::lock_guard lock(mutex_);
  return readings_;
}

bool QueuePoller::stop(milliseconds limit) {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  wake_.notify_one();
  polled_.notify_all();
  return ended_.wait_for(lock, limit, [this] { return has_ended_; });
}

QueuePoller::Steady::time_point QueuePoller::next_poll() const {
  const bool asked = Steady::now() - asked_ < kAskedFor;
  return std::max(begun_ + (asked ? kOften : kSeldom), polled_at_ + kIdleShare * (polled_at_ - begun_));
}

void QueuePoller::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto next = next_poll();
    if (Steady::now() < next) {
      wake_.wait_until(lock, next);
      continue;
    }
    lock.unlock();
    try {
      poll();
    } catch (const delayqueue::ReplyError& error) {
      publish_failure(advised(error.what()));
    } catch (const std::exception& error) {
      publish_failure(error.what());
    }
    lock.lock();
  }
  has_ended_ = true;
  ended_.notify_all();
}

void QueuePoller::poll() {
  {
    const std::lock_guard lock(mutex_);
    begun_ = Steady::now();
  }
  context_.use_short_timeouts(false);
  std::vector<std::string> names = context_.inspector("queues").queues();
  Readings readings;
  readings.left_out = limit_names(names, kMostPolled);
  for (const std::string& name : names) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
    readings.queues.push_back(read_queue(name));
  }
  const auto& queues = readings.queues;
  const bool unreachable = std::all_of(queues.begin(), queues.end(), [](const auto& one) { return one->unreachable; });
  if (unreachable && !queues.empty()) throw delayqueue::ConnectionError(queues.front()->error);
  const std::set<std::string> known(names.begin(), names.end());
  history_.keep_only(known);
  for (auto one = previous_.begin(); one != previous_.end();) {
    one = known.count(one->first) > 0 ? std::next(one) : previous_.erase(one);
  }
  readings.read_at = std::chrono::system_clock::now();
  publish(std::move(readings));
}

void QueuePoller::publish(Readings readings) {
  const auto published = std::make_shared<const Readings>(std::move(readings));
  {
    const std::lock_guard lock(mutex_);
    readings_ = published;
    polled_at_ = Steady::now();
    ++polls_;
  }
  polled_.notify_all();
  changed_(*published);
}

void QueuePoller::publish_failure(const std::string& error) {
  Readings readings;
  Steady::duration took{};
  {
    const std::lock_guard lock(mutex_);
    readings = *readings_;
    took = Steady::now() - begun_;
  }
  const auto begun = std::chrono::system_clock::now() - took;
  if (!readings.failing_since) readings.failing_since = std::chrono::time_point_cast<Time::duration>(begun);
  readings.error = error;
  publish(std::move(readings));
}

// Reads one queue. An error is part of the result and does not hide the other queues: a key of a wrong type, or an
// unreachable server of a Cluster.
std::shared_ptr<const QueueReading> QueuePoller::read_queue(const std::string& name) {
  auto reading = std::make_shared<QueueReading>();
  reading->queue = name;
  const auto error = read_row(context_, [&] {
    try {
      reading->state = read_state(context_.inspector(name));
    } catch (const delayqueue::ConnectionError&) {
      reading->unreachable = true;
      throw;
    }
    const auto [place, is_first] = previous_.try_emplace(name);
    reading->rates = update_rates(place->second, is_first, reading->state.counts);
    place->second.findings.update(name, reading->state);
    reading->worst = place->second.findings.worst();
    reading->oldest = place->second.findings.oldest();
    reading->a_minute_ago = place->second.findings.a_minute_ago();
    history_.add(name, std::chrono::system_clock::now(), reading->state.counts);
  });
  if (error) {
    reading->state = {};
    reading->error = error->text;
  }
  return reading;
}

std::optional<TotalRates> QueuePoller::update_rates(Previous& previous, bool is_first, const Counts& counts) {
  const auto span = span_between(previous.counts.now, counts.now);
  // Shortly after a reading the rates stay. After Redis' clock was set back they start over.
  if (!is_first && span.count() >= 0 && span < kShortestSpan) return previous.rates;
  previous.rates.reset();
  if (!is_first && span.count() > 0) {
    previous.rates.emplace();
    for (std::size_t i = 0; i < kTotals.size(); ++i) {
      (*previous.rates)[i] = rate_of(kTotals[i], previous.counts, counts);
    }
  }
  previous.counts = counts;
  return previous.rates;
}

}  // namespace dqctl
