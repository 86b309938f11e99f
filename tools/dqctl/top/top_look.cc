#include "top/top_look.h"

#include <algorithm>
#include <exception>
#include <stdexcept>

namespace dqctl {
namespace {

using delayqueue::Counts;
using delayqueue::Inspector;
using View = Wish::View;

constexpr std::size_t kHistory = 120;
constexpr std::uint64_t kOftenFetched = 64 * 1024;  // a larger payload is not brought again and again

// Of the lists nothing is known but when their messages were sent.
std::optional<milliseconds> oldest_of(const QueueState& state) {
  const Counts& counts = state.counts;
  if (counts.due > 0 && counts.oldest_due) return age_between(*counts.oldest_due, counts.now);
  std::optional<milliseconds> oldest;
  for (const auto* first : {&state.first_ready, &state.first_retry}) {
    if (!*first || !(*first)->sent) continue;
    oldest = std::max(oldest.value_or(milliseconds(0)), age_between(*(*first)->sent, counts.now));
  }
  return oldest;
}

}  // namespace

bool operator==(const Wish& a, const Wish& b) {
  return a.view == b.view && a.queue == b.queue && a.state == b.state && a.cursor == b.cursor && a.limit == b.limit &&
         a.id == b.id;
}

Looker::Looker(Context& context, std::vector<std::string> names, milliseconds interval, std::function<void()> changed)
    : context_(context), names_(std::move(names)), interval_(interval), changed_(std::move(changed)) {
  for (const std::string& name : names_) context_.counts(name);
  look(wish_);
}

Looker::~Looker() {
  stop(milliseconds(0));
  if (thread_.joinable()) thread_.join();
}

void Looker::start() {
  has_ended_ = false;
  started_ = true;
  thread_ = std::thread([this] { run(); });
}

void Looker::want(const Wish& wish) {
  const std::lock_guard lock(mutex_);
  if (wish_ == wish) return;
  wish_ = wish;
  wish_is_new_ = true;
  wanted_.notify_one();
}

void Looker::set_paused(const std::string& queue, bool paused) {
  const std::lock_guard lock(mutex_);
  actions_.emplace_back(queue, paused);
  wanted_.notify_one();
}

Sight Looker::sight() const {
  const std::lock_guard lock(mutex_);
  return sight_;
}

bool Looker::stop(milliseconds limit) {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  wanted_.notify_one();
  return ended_.wait_for(lock, limit, [this] { return has_ended_; });
}

void Looker::run() {
  std::unique_lock lock(mutex_);
  using Steady = std::chrono::steady_clock;
  // The first look that can tell what is stuck, see finding_of(), does not wait for a longer interval.
  const auto first = Steady::now() + *StuckOptions().look + milliseconds(20);
  while (!stopping_) {
    const auto now = Steady::now();
    const auto next = now < first ? std::min(first, now + interval_) : now + interval_;
    wanted_.wait_until(lock, next, [this] { return stopping_ || wish_is_new_ || !actions_.empty(); });
    if (stopping_) break;
    const auto actions = std::exchange(actions_, {});
    const Wish wish = wish_;
    wish_is_new_ = false;
    lock.unlock();
    try {
      for (const auto& [queue, paused] : actions) act(queue, paused);
      look(wish);
    } catch (const std::exception& error) {
      publish([&](Sight& sight) {
        if (sight.trouble.empty()) sight.trouble_since = std::chrono::steady_clock::now();
        sight.trouble = error.what();
      });
    }
    lock.lock();
  }
  has_ended_ = true;
  ended_.notify_all();
}

void Looker::act(const std::string& queue, bool paused) {
  std::string notice = in_quotes(queue);
  try {
    Inspector& inspector = context_.inspector(queue);
    paused ? inspector.pause(milliseconds{0}, "by dqctl top") : inspector.resume();
    notice += paused ? " is paused: its consumers take nothing until it is resumed" : " goes on";
  } catch (const delayqueue::Error& error) {
    notice += std::string(" could not be ") + (paused ? "paused: " : "resumed: ") + printable(error.what());
  }
  publish([&](Sight& sight) {
    sight.notice = notice;
    ++sight.notices;
  });
}

void Looker::look(const Wish& wish) {
  Sight seen;
  context_.wait_briefly(false);
  if (wish.view == View::queues) {
    for (const std::string& name : names_.empty() ? context_.inspector("queues").queues() : names_) {
      seen.queues.push_back(look_at(name));
      if (seen.queues.back().trouble.empty()) seen.now = seen.queues.back().counts.now;
    }
    const bool away = std::all_of(seen.queues.begin(), seen.queues.end(), [](const auto& one) { return one.away; });
    if (away && !seen.queues.empty()) throw delayqueue::ConnectionError(seen.queues.front().trouble);
  } else {
    seen.queue = look_at(wish.queue);
    seen.now = seen.queue.counts.now;
    Inspector& inspector = context_.inspector(wish.queue);
    if (wish.view == View::messages) {
      delayqueue::ListOptions options;
      options.limit = wish.limit;
      options.cursor = wish.cursor;
      options.payload = 256;
      seen.page = inspector.list(wish.state, options);
    } else {
      const Sight last = sight();
      const bool large = last.wish == wish && last.message && last.message->size.value_or(0) > kOftenFetched;
      seen.message = large ? last.message : inspector.find(wish.id);
    }
  }
  publish([&](Sight& sight) {
    if (wish.view == View::queues) sight.queues = std::move(seen.queues);
    if (wish.view != View::queues) sight.queue = std::move(seen.queue);
    if (wish.view == View::messages) sight.page = std::move(seen.page);
    if (wish.view == View::message) sight.message = std::move(seen.message);
    if (seen.now) sight.now = seen.now;
    sight.wish = wish;
    sight.trouble.clear();
  });
}

// A queue that is refused (a key of a wrong type), or whose server is away, must not hide the others.
QueueLook Looker::look_at(const std::string& name) {
  QueueLook seen;
  seen.name = name;
  try {
    const QueueState state = read_state(context_.inspector(name));
    seen.counts = state.counts;
    seen.oldest = oldest_of(state);
    seen.rates = rates_of(name, seen.counts, seen.history);
    seen.finding = finding_of(name, state);
  } catch (const delayqueue::ConnectionError& error) {
    seen.trouble = error.what();
    seen.away = true;
    context_.wait_briefly(true);
  } catch (const delayqueue::ReplyError& error) {
    seen.trouble = error.what();
  } catch (const std::invalid_argument& error) {  // a name that no queue can have
    seen.trouble = error.what();
  }
  return seen;
}

std::optional<Rates> Looker::rates_of(const std::string& name, const Counts& counts, std::vector<double>& history) {
  const auto [place, is_first] = before_.try_emplace(name);
  Before& before = place->second;
  const auto span = span_between(before.now, counts.now);
  // A key makes us look again at once: too soon for a rate. When Redis' clock was set back, this look is the first.
  if (is_first || span >= interval_ / 2 || span.count() < 0) {
    const auto rate = [&span](std::uint64_t last, std::uint64_t first) {
      return last < first ? 0.0 : static_cast<double>(last - first) * 1000 / static_cast<double>(span.count());
    };
    const auto& then = before.totals;
    const auto& now = counts.totals;
    if (!is_first && span.count() > 0) {
      before.rates = Rates{rate(now.sent, then.sent), rate(now.delivered, then.delivered), rate(now.acked, then.acked),
                           rate(now.nacked, then.nacked)};
      before.history.push_back(before.rates->acked);
      if (before.history.size() > kHistory) before.history.pop_front();
    }
    before.totals = counts.totals;
    before.now = counts.now;
  }
  history.assign(before.history.begin(), before.history.end());
  return before.rates;
}

// Decided as dqctl stuck does. Two looks are compared that are as far apart as its own, or farther.
std::string Looker::finding_of(const std::string& name, const QueueState& now) {
  Before& before = before_[name];
  StuckOptions options;
  const auto apart = before.state ? span_between(before.state->counts.now, now.counts.now) : milliseconds(0);
  if (apart >= *options.look) {
    options.look = apart;
    const std::vector<Trouble> found = find_troubles(evidence_of(*before.state, now), name, options);
    const bool is_stuck = !found.empty() && found.front().level != Level::ok;
    before.finding = is_stuck ? std::string(to_string(found.front().level)) + ": " + found.front().what : "";
  }
  // When Redis' clock was set back, this look is the first.
  if (!before.state || apart >= *options.look || apart.count() < 0) before.state = now;
  return before.finding;
}

void Looker::publish(const std::function<void(Sight&)>& change) {
  bool started = false;
  {
    const std::lock_guard lock(mutex_);
    change(sight_);
    started = started_;
  }
  if (started) changed_();
}

}  // namespace dqctl
