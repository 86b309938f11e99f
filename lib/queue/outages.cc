#include "queue/outages.h"

#include "os/resources.h"
#include "redis/failure.h"

#include <algorithm>
#include <utility>

namespace delayqueue {
namespace {

// Pauses between two probes: an eighth of the length of the outage, so that its end is noticed soon after.
constexpr milliseconds kShortestProbePause{10};
constexpr milliseconds kLongestProbePause{1'000};
constexpr int kPartOfOutage = 8;

// How long the first probe may take until calls give up without its result.
constexpr milliseconds kForFirstProbe{250};

// After a probe has succeeded: a failure later than this begins another outage.
constexpr milliseconds kHealthy{1'000};

std::string length_text(Outages::Clock::duration duration) {
  const auto ms = std::chrono::duration_cast<milliseconds>(duration).count();
  return ms < 10'000 ? std::to_string(ms) + " ms" : std::to_string(ms / 1000) + " s";
}

}  // namespace

Outages::Outages(Probe probe) : probe_(std::move(probe)), random_(random_seed()) {}

Outages::~Outages() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (interrupt_ != nullptr) interrupt_->raise();
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

bool Outages::failed(const std::string& server, int slot, const std::string& why, Clock::time_point since) {
  const std::lock_guard lock(mutex_);
  if (!has_thread()) return false;
  const auto now = Clock::now();
  Outage* outage = find(server);
  if (outage == nullptr) {
    outage = &outages_.emplace_back(Outage{server, slot, since, now});
    outage->next = now;
    any_ = true;
  } else if (outage->probed) {
    if (since <= *outage->probed) return true;  // on a connection from before
    if (now - *outage->probed > kHealthy) outage->since = since, outage->noticed = now, outage->attempts = 0;
    outage->probed.reset();
    schedule(*outage, now);
  }
  outage->since = std::min(outage->since, since);
  outage->slot = slot;
  outage->why = why;
  ++outage->attempts;
  changed_.notify_all();
  return true;
}

void Outages::end(const std::string& server) {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  const auto is_over = [&](const Outage& one) {
    return one.server == server || (one.probed && now - *one.probed > kHealthy);
  };
  for (const Outage& one : outages_) {
    if (is_over(one) && one.told) ended_.push_back(one.server);
  }
  outages_.erase(std::remove_if(outages_.begin(), outages_.end(), is_over), outages_.end());
  any_ = !outages_.empty();
  changed_.notify_all();
}

std::optional<Outages::Away> Outages::away(const std::string& server) const {
  if (!any_) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const Outage* const outage = find_away(server);
  if (outage == nullptr) return std::nullopt;
  const auto first_probe = outage->told ? outage->since : outage->noticed + kForFirstProbe;
  return Away{outage->since, first_probe,
              outage->why + " (away for " + length_text(Clock::now() - outage->since) + ", " +
                  std::to_string(outage->attempts) + (outage->attempts == 1 ? " attempt)" : " attempts)")};
}

bool Outages::wait(const std::vector<std::string>& servers, Clock::time_point until) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, until, [&] {
    return std::any_of(servers.begin(), servers.end(),
                       [&](const std::string& server) { return find_away(server) == nullptr; });
  });
}

// Called with the lock.
bool Outages::has_thread() {
  if (thread_.joinable()) return true;
  const auto failure = redis::attempt([&] {
    interrupt_ = std::make_unique<Interrupt>();
    thread_ = start_thread("probes of a server", [this] { run(); });
  });
  return !failure;
}

void Outages::run() {
  std::unique_lock lock(mutex_);
  const Interrupt::Scope scope(*interrupt_);
  while (!stopping_) {
    const auto next = std::min_element(outages_.begin(), outages_.end(), [](const Outage& a, const Outage& b) {
      return std::pair(a.probed.has_value(), a.next) < std::pair(b.probed.has_value(), b.next);
    });
    if (!ended_.empty()) {
      const std::string server = std::move(ended_.back());
      ended_.pop_back();
      lock.unlock();
      tell(server, "");
      lock.lock();
    } else if (next == outages_.end() || next->probed) {
      changed_.wait(lock);
    } else if (const auto until = next->next; until > Clock::now()) {
      changed_.wait_until(lock, until);
    } else {
      const Outage probed = *next;
      lock.unlock();
      const auto failure = redis::attempt([&] { probe_(probed.slot); });
      lock.lock();
      // A server that refuses the probe answers: the calls get the reason for themselves.
      const bool is_away = failure && failure->is_connection();
      read(probed, is_away ? std::optional(failure->text) : std::nullopt);
      if (!is_away || probed.told || stopping_) continue;
      lock.unlock();
      tell(probed.server, probed.why);
      lock.lock();
    }
  }
}

// Called with the lock.
void Outages::read(const Outage& probed, const std::optional<std::string>& failure) {
  Outage* const outage = find(probed.server);
  if (outage == nullptr || outage->probed || stopping_) return;
  const auto now = Clock::now();
  if (failure) {
    outage->why = *failure;
    outage->told = true;
    ++outage->attempts;
    schedule(*outage, now);
  } else {
    outage->probed = now;
    if (std::exchange(outage->told, false)) ended_.push_back(outage->server);
    changed_.notify_all();
  }
}

void Outages::listen(const void* owner, Listener listener) {
  const std::lock_guard lock(listeners_mutex_);
  listeners_[owner] = std::move(listener);
}

void Outages::ignore(const void* owner) {
  const std::lock_guard lock(listeners_mutex_);
  listeners_.erase(owner);
}

void Outages::tell(const std::string& server, const std::string& why) {
  const std::lock_guard lock(listeners_mutex_);
  const std::map<const void*, Listener> all = listeners_;
  for (const auto& [owner, listener] : all) {
    if (listeners_.count(owner) > 0) listener(server, why);
  }
}

// With jitter, so that not all processes try at the same time.
void Outages::schedule(Outage& outage, Clock::time_point now) {
  const auto age = std::chrono::duration_cast<milliseconds>(now - outage.since);
  const milliseconds pause = std::clamp(age / kPartOfOutage, kShortestProbePause, kLongestProbePause);
  outage.next = now + pause - pause * std::uniform_int_distribution<int>(0, 50)(random_) / 100;
}

Outages::Outage* Outages::find(const std::string& server) {
  const auto found =
      std::find_if(outages_.begin(), outages_.end(), [&](const Outage& one) { return one.server == server; });
  return found == outages_.end() ? nullptr : &*found;
}

const Outages::Outage* Outages::find_away(const std::string& server) const {
  const auto found = std::find_if(outages_.begin(), outages_.end(),
                                  [&](const Outage& one) { return one.server == server && !one.probed; });
  return found == outages_.end() ? nullptr : &*found;
}

}  // namespace delayqueue
