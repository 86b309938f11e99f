#include "producer/circuit_breaker.h"

#include "os/resources.h"

#include <delayqueue/error.h>

#include <algorithm>
#include <utility>

namespace delayqueue {
namespace {

constexpr milliseconds kShortestPause{50};  // between two probes; it doubles
constexpr milliseconds kLongestPause{1'000};
constexpr milliseconds kRefusedPause{10'000};  // after refused access: retrying soon may lock the account
constexpr std::chrono::minutes kWarnAgain{1};

}  // namespace

CircuitBreaker::CircuitBreaker(Partitions partitions, const EventSink& sink)
    : partitions_(std::move(partitions)), sink_(sink) {}

CircuitBreaker::~CircuitBreaker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  if (interrupt_ != nullptr) interrupt_->raise();
  if (thread_.joinable()) thread_.join();
}

std::string CircuitBreaker::Open::name() const {
  return server.empty() ? "partition " + std::to_string(partition) : "the partitions at " + server;
}

bool CircuitBreaker::allows(unsigned partition) const {
  if (!any_open_) return true;
  const std::string server = partitions_.server(partition);
  const std::lock_guard lock(mutex_);
  return std::none_of(open_.begin(), open_.end(), [&](const Open& circuit) {
    return circuit.server.empty() ? circuit.partition == partition : circuit.server == server;
  });
}

bool CircuitBreaker::server_failed(unsigned partition, const std::string& why) {
  const std::string server = partitions_.server(partition);
  return !server.empty() && open({server, partition, why, milliseconds(0), kLongestPause});
}

void CircuitBreaker::partition_failed(unsigned partition, const std::string& why) {
  open({"", partition, why, kShortestPause, kLongestPause});
}

void CircuitBreaker::access_denied(unsigned partition, const std::string& why) {
  Open circuit{"", partition, why, kRefusedPause, kRefusedPause};
  circuit.warned = circuit.denied = true;
  const std::string line = "no new messages go to " + circuit.name() + ": " + why;
  open(std::move(circuit));
  const auto now = Clock::now();
  std::unique_lock lock(mutex_);
  const bool warns = now >= next_warning_;
  if (warns) next_warning_ = now + kWarnAgain;
  lock.unlock();
  sink_.log(warns ? Severity::warning : Severity::debug, line);
}

// Returns false if the circuit cannot be closed again, because there is no thread for the probes.
bool CircuitBreaker::open(Open circuit) {
  const std::lock_guard lock(mutex_);
  if (find(circuit) != nullptr) return true;
  if (interrupt_ == nullptr) {
    try {
      auto interrupt = std::make_unique<Interrupt>();
      thread_ = start_thread("probes of partitions", [this, &raised = *interrupt] {
        const Interrupt::Scope scope(raised);
        run();
      });
      interrupt_ = std::move(interrupt);
      random_.seed(random_seed());
    } catch (const SetupError&) {  // the next failure tries again
      return false;
    }
  }
  schedule(circuit);
  const auto is_denied = [](const Open& one) { return one.denied; };
  if (circuit.denied && std::any_of(open_.begin(), open_.end(), is_denied)) circuit.next = Clock::time_point::max();
  open_.push_back(std::move(circuit));
  any_open_ = true;
  changed_.notify_one();
  return true;
}

void CircuitBreaker::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto next =
        std::min_element(open_.begin(), open_.end(), [](const Open& a, const Open& b) { return a.next < b.next; });
    if (next == open_.end()) {
      changed_.wait(lock);
    } else if (const auto until = next->next; until > Clock::now()) {
      changed_.wait_until(lock, until);
    } else {
      Open circuit = *next;
      lock.unlock();
      probe(circuit);
      lock.lock();
    }
  }
}

// Only this thread removes circuits from the list.
void CircuitBreaker::probe(const Open& circuit) {
  if (!circuit.server.empty()) {
    const std::string now = partitions_.server(circuit.partition);
    if (!now.empty() && now != circuit.server) return close(circuit);  // another server has the partition by now
  }
  switch (partitions_.probe(circuit.partition)) {
    case Probe::succeeded:
      return close(circuit);
    case Probe::refused:
      if (circuit.server.empty()) return retry(circuit);
      partition_failed(circuit.partition, circuit.why);  // it is not the server
      return close(circuit);
    case Probe::failed:
      return retry(circuit);
  }
}

void CircuitBreaker::close(const Open& circuit) {
  {
    const std::lock_guard lock(mutex_);
    const auto closes = [&](const Open& one) { return one.is_same(circuit) || (one.denied && circuit.denied); };
    open_.erase(std::remove_if(open_.begin(), open_.end(), closes), open_.end());
    any_open_ = !open_.empty();
  }
  if (circuit.warned) {
    sink_.log(Severity::info, "new messages go to " + circuit.name() + " again", {circuit.server, ""});
  }
}

// The first probe that fails is worth a warning: before it, a server may have been slow for a moment.
void CircuitBreaker::retry(const Open& circuit) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;  // the probe was interrupted
    Open& kept = *find(circuit);
    kept.pause = std::min(std::max(2 * kept.pause, kShortestPause), kept.longest);
    kept.warned = true;
    schedule(kept);
  }
  if (!circuit.warned) {
    sink_.log(Severity::warning,
              "no new messages go to " + circuit.name() + " until a request succeeds there: " + circuit.why,
              {circuit.server, ""});
  }
}

// Each pause is shortened by a random part of up to a half, so that processes do not all connect at the same time.
void CircuitBreaker::schedule(Open& circuit) {
  circuit.next =
      Clock::now() + circuit.pause - circuit.pause * std::uniform_int_distribution<int>(0, 50)(random_) / 100;
}

CircuitBreaker::Open* CircuitBreaker::find(const Open& circuit) {
  const auto found = std::find_if(open_.begin(), open_.end(), [&](const Open& one) { return one.is_same(circuit); });
  return found == open_.end() ? nullptr : &*found;
}

}  // namespace delayqueue
