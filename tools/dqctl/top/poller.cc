#include "top/poller.h"

#include <algorithm>
#include <exception>
#include <stdexcept>

namespace dqctl {
namespace {

using delayqueue::Counts;
using delayqueue::Inspector;
using View = ViewRequest::View;

constexpr std::size_t kHistory = 120;
constexpr std::uint64_t kOftenFetched = 64 * 1024;  // larger payloads are fetched once, not at each poll

}  // namespace

bool operator==(const ViewRequest& a, const ViewRequest& b) {
  return a.view == b.view && a.queue == b.queue && a.state == b.state && a.cursor == b.cursor && a.limit == b.limit &&
         a.id == b.id;
}

Poller::Poller(Context& context, std::vector<std::string> names, milliseconds interval, std::function<void()> changed)
    : context_(context), names_(std::move(names)), interval_(interval), changed_(std::move(changed)) {
  for (const std::string& name : names_) context_.counts(name);
  poll(request_);
}

Poller::~Poller() {
  stop(milliseconds(0));
  if (thread_.joinable()) thread_.join();
}

void Poller::start() {
  has_ended_ = false;
  started_ = true;
  thread_ = std::thread([this] { run(); });
}

void Poller::request_view(const ViewRequest& request) {
  const std::lock_guard lock(mutex_);
  if (request_ == request) return;
  request_ = request;
  request_is_new_ = true;
  wake_.notify_one();
}

void Poller::request_change(const TopChange& change) {
  const std::lock_guard lock(mutex_);
  changes_.push_back(change);
  wake_.notify_one();
}

Snapshot Poller::snapshot() const {
  const std::lock_guard lock(mutex_);
  return snapshot_;
}

bool Poller::stop(milliseconds limit) {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  wake_.notify_one();
  return ended_.wait_for(lock, limit, [this] { return has_ended_; });
}

void Poller::run() {
  std::unique_lock lock(mutex_);
  using Steady = std::chrono::steady_clock;
  // The first comparison of two readings, see update_finding(), does not wait for a longer interval.
  const auto first = Steady::now() + *StuckOptions().interval + milliseconds(20);
  while (!stopping_) {
    const auto now = Steady::now();
    const auto next = now < first ? std::min(first, now + interval_) : now + interval_;
    const auto is_needed = [this] { return stopping_ || request_is_new_ || !changes_.empty(); };
    while (redrive_ != nullptr && !is_needed() && Steady::now() < next) {
      lock.unlock();
      continue_redrive();
      lock.lock();
      request_is_new_ = request_is_new_ || redrive_ == nullptr;  // shows the counts after its end
    }
    wake_.wait_until(lock, next, is_needed);
    if (stopping_) break;
    const auto changes = std::exchange(changes_, {});
    const ViewRequest request = request_;
    request_is_new_ = false;
    lock.unlock();
    const auto begun = Steady::now();
    try {
      for (const TopChange& change : changes) make_change(change);
      poll(request);
    } catch (const std::exception& error) {
      publish([&](Snapshot& snapshot) {
        if (snapshot.error.empty()) snapshot.failing_since = begun;
        snapshot.error = error.what();
      });
    }
    lock.lock();
  }
  lock.unlock();
  if (redrive_ != nullptr) end_redrive();
  lock.lock();
  has_ended_ = true;
  ended_.notify_all();
}

void Poller::make_change(const TopChange& change) {
  if (change.kind != TopChange::Kind::redrive_all) return notify(dqctl::make_change(context_, change));
  if (redrive_ != nullptr) return notify("not begun: " + redrive_->progress() + ", which goes on");
  try {
    redrive_ = std::make_unique<RedriveRun>(context_, change.queue);
  } catch (const delayqueue::Error& error) {
    notify("cannot redrive " + in_quotes(change.queue) + ": " + printable(error.what()));
  }
}

void Poller::notify(const std::string& text) {
  publish([&](Snapshot& snapshot) {
    snapshot.notice = text;
    ++snapshot.notices;
  });
}

void Poller::continue_redrive() { redrive_->step() ? notify(redrive_->progress()) : end_redrive(); }

void Poller::end_redrive() {
  notify(redrive_->end());
  redrive_.reset();
}

void Poller::poll(const ViewRequest& request) {
  Snapshot seen;
  context_.use_short_timeouts(false);
  if (request.view == View::queues) {
    for (const std::string& name : names_.empty() ? context_.inspector("queues").queues() : names_) {
      seen.queues.push_back(read_queue(name));
      if (seen.queues.back().error.empty()) seen.now = seen.queues.back().counts.now;
    }
    const bool unreachable =
        std::all_of(seen.queues.begin(), seen.queues.end(), [](const auto& one) { return one.unreachable; });
    if (unreachable && !seen.queues.empty()) throw delayqueue::ConnectionError(seen.queues.front().error);
  } else {
    seen.queue = read_queue(request.queue);
    seen.now = seen.queue.counts.now;
    Inspector& inspector = context_.inspector(request.queue);
    if (request.view == View::messages) {
      delayqueue::ListOptions options;
      options.limit = request.limit;
      options.cursor = request.cursor;
      options.payload = 256;
      seen.page = inspector.list(request.state, options);
    } else {
      const Snapshot last = snapshot();
      const bool large = last.request == request && last.message && last.message->size.value_or(0) > kOftenFetched;
      seen.message = large ? last.message : inspector.find(request.id);
    }
  }
  publish([&](Snapshot& snapshot) {
    if (request.view == View::queues) snapshot.queues = std::move(seen.queues);
    if (request.view != View::queues) snapshot.queue = std::move(seen.queue);
    if (request.view == View::messages) snapshot.page = std::move(seen.page);
    if (request.view == View::message) snapshot.message = std::move(seen.message);
    if (seen.now) snapshot.now = seen.now;
    snapshot.request = request;
    snapshot.error.clear();
  });
}

// Reads one queue. An error is part of the result and does not hide the other queues: a key of a wrong type, or an
// unreachable server.
QueueSnapshot Poller::read_queue(const std::string& name) {
  QueueSnapshot seen;
  seen.name = name;
  try {
    const QueueState state = read_state(context_.inspector(name));
    seen.counts = state.counts;
    seen.rates = update_rates(name, seen.counts, seen.history);
    seen.finding = update_finding(name, state);
    seen.oldest = previous_[name].findings.oldest();
  } catch (const delayqueue::ConnectionError& error) {
    seen.error = error.what();
    seen.unreachable = true;
    context_.use_short_timeouts(true);
  } catch (const delayqueue::ReplyError& error) {
    seen.error = error.what();
  } catch (const std::invalid_argument& error) {  // not a valid queue name
    seen.error = error.what();
  }
  return seen;
}

std::optional<Rates> Poller::update_rates(const std::string& name, const Counts& counts, std::vector<double>& history) {
  const auto [place, is_first] = previous_.try_emplace(name);
  PreviousPoll& previous = place->second;
  const auto span = span_between(previous.now, counts.now);
  // A key press polls at once: too early for a rate. After Redis' clock was set back, the rates start over.
  if (is_first || span >= interval_ / 2 || span.count() < 0) {
    const auto rate = [&span](std::uint64_t last, std::uint64_t first) {
      return last < first ? 0.0 : static_cast<double>(last - first) * 1000 / static_cast<double>(span.count());
    };
    const auto& then = previous.totals;
    const auto& now = counts.totals;
    if (!is_first && span.count() > 0) {
      previous.rates = Rates{rate(now.sent, then.sent), rate(now.delivered, then.delivered),
                             rate(now.acked, then.acked), rate(now.nacked, then.nacked)};
      previous.history.push_back(previous.rates->acked);
      if (previous.history.size() > kHistory) previous.history.pop_front();
    }
    previous.totals = counts.totals;
    previous.now = counts.now;
  }
  history.assign(previous.history.begin(), previous.history.end());
  return previous.rates;
}

std::string Poller::update_finding(const std::string& name, const QueueState& now) {
  FindingWatch& watch = previous_[name].findings;
  watch.update(name, now);
  if (!watch.worst() || watch.worst()->level == Level::ok) return "";
  return std::string(to_string(watch.worst()->level)) + ": " + watch.worst()->what;
}

void Poller::publish(const std::function<void(Snapshot&)>& change) {
  bool started = false;
  {
    const std::lock_guard lock(mutex_);
    change(snapshot_);
    started = started_;
  }
  if (started) changed_();
}

}  // namespace dqctl
