#include "producer/circuit_breaker.h"

#include "os/resources.h"

#include <algorithm>
#include <utility>

namespace delayqueue {
namespace {

constexpr milliseconds kShortestPause{50};  // between two probes; it doubles
constexpr milliseconds kLongestPause{1'000};
constexpr milliseconds kDeniedPause{10'000};  // after refused access: retrying soon may lock the account

}  // namespace

CircuitBreaker::CircuitBreaker(FailureReporter& failures) : failures_(failures), random_(random_seed()) {}

bool CircuitBreaker::allows(unsigned partition) const {
  if (allows_all()) return true;
  const std::lock_guard lock(mutex_);
  return std::none_of(open_.begin(), open_.end(),
                      [&](const Circuit& circuit) { return circuit.partition == partition; });
}

void CircuitBreaker::partition_failed(unsigned partition, const std::string& why) {
  open({partition, why, kShortestPause, kLongestPause});
}

// Partitions without a right are one source of failures, so they are one warning.
void CircuitBreaker::access_denied(unsigned partition, const std::string& why) {
  const Circuit circuit{partition, why, kDeniedPause, kDeniedPause, true};
  open(circuit);
  failures_.failed(this, "no new messages go to " + circuit.name() + ": " + why, false);
}

void CircuitBreaker::open(Circuit circuit) {
  const std::lock_guard lock(mutex_);
  if (find(circuit.partition) != nullptr) return;
  schedule(circuit);
  const auto is_denied = [](const Circuit& one) { return one.denied; };
  if (circuit.denied && std::any_of(open_.begin(), open_.end(), is_denied)) circuit.next = Clock::time_point::max();
  open_.push_back(std::move(circuit));
  any_open_ = true;
  changed_.notify_one();
}

std::optional<CircuitBreaker::Circuit> CircuitBreaker::wait_for_probe() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto next = std::min_element(open_.begin(), open_.end(),
                                       [](const Circuit& a, const Circuit& b) { return a.next < b.next; });
    if (next == open_.end()) {
      changed_.wait(lock);
    } else if (const auto until = next->next; until > Clock::now()) {
      changed_.wait_until(lock, until);
    } else {
      return *next;
    }
  }
  return std::nullopt;
}

// Only this thread removes circuits from the list.
void CircuitBreaker::probed(const Circuit& circuit, bool succeeded) { succeeded ? close(circuit) : retry(circuit); }

void CircuitBreaker::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  changed_.notify_one();
}

void CircuitBreaker::close(const Circuit& circuit) {
  std::unique_lock lock(mutex_);
  const auto closes = [&](const Circuit& one) {
    return one.partition == circuit.partition || (one.denied && circuit.denied);
  };
  open_.erase(std::remove_if(open_.begin(), open_.end(), closes), open_.end());
  any_open_ = !open_.empty();
  const FailureReporter::Source source = source_of(circuit);
  lock.unlock();
  if (!circuit.warned && !circuit.denied) return;
  failures_.recovered(source, "new messages go to " + circuit.name() + " again");
}

// The first probe that fails is worth a warning: before it, a server may have been slow for a moment.
void CircuitBreaker::retry(const Circuit& circuit) {
  std::unique_lock lock(mutex_);
  if (stopping_) return;  // the probe was interrupted
  Circuit& kept = *find(circuit.partition);
  kept.pause = std::min(std::max(2 * kept.pause, kShortestPause), kept.longest);
  kept.warned = true;
  schedule(kept);
  const FailureReporter::Source source = source_of(circuit);
  lock.unlock();
  if (circuit.warned || circuit.denied) return;
  failures_.failed(source,
                   "no new messages go to " + circuit.name() + " until a request succeeds there: " + circuit.why, true);
}

// With jitter, so that not all Producers probe a server at the same time.
void CircuitBreaker::schedule(Circuit& circuit) {
  circuit.next =
      Clock::now() + circuit.pause - circuit.pause * std::uniform_int_distribution<int>(0, 50)(random_) / 100;
}

CircuitBreaker::Circuit* CircuitBreaker::find(unsigned partition) {
  const auto found =
      std::find_if(open_.begin(), open_.end(), [&](const Circuit& one) { return one.partition == partition; });
  return found == open_.end() ? nullptr : &*found;
}

FailureReporter::Source CircuitBreaker::source_of(const Circuit& circuit) {
  if (circuit.denied) return this;
  return &*sources_.insert(circuit.partition).first;
}

}  // namespace delayqueue
