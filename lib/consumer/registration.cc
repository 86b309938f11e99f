#include "consumer/registration.h"

#include "consumer/polling.h"
#include "os/host.h"
#include "redis/escaped.h"

#include <delayqueue/error.h>
#include <delayqueue/version.h>

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace delayqueue {
namespace {

constexpr milliseconds kSoonest{10'000};    // between two writes of an entry
constexpr milliseconds kLatest{3'600'000};  // the same

}  // namespace

// A consumer may hold a million deliveries, so none is copied or sorted.
void ConsumerActivity::add(const InFlightMessage& delivery) {
  ++in_flight_;
  const StageFacts facts = delivery.facts();
  if (facts.has_begun && facts.has_verdict) return;
  const auto since = facts.has_begun ? delivery.began() : delivery.lone_since;
  if (!since || (longest_.size() == store::kMostRunning && *since >= longest_.back().first)) return;
  const auto later =
      std::find_if(longest_.begin(), longest_.end(), [&](const auto& one) { return *since < one.first; });
  longest_.insert(later, {*since, &delivery});
  if (longest_.size() > store::kMostRunning) longest_.pop_back();
}

void ConsumerActivity::write_to(store::ConsumerEntry& entry) const {
  entry.busy = busy_;
  entry.in_flight = in_flight_;
  const auto now = Lease::Clock::now();
  for (const auto& [since, delivery] : longest_) {
    auto& one = entry.running.emplace_back();
    one.id = delivery->message.id();
    one.running = std::chrono::duration_cast<milliseconds>(now - since);
    if (!delivery->facts().has_begun) one.fetching = delivery->size.value_or(0);
  }
}

milliseconds registration_interval(milliseconds poll_interval, std::size_t queues) {
  return std::min(stretched(std::clamp(poll_interval, kSoonest, kLatest), queues), kLatest);
}

store::ConsumerEntry profile_of(const ConsumerOptions& options, const std::deque<ServedQueue>& queues) {
  store::ConsumerEntry profile;
  if (!options.register_consumer) return profile;
  profile.name = options.name;
  profile.host = host_name();
  profile.pid = static_cast<std::uint64_t>(::getpid());
  profile.version = version();
  profile.concurrency = options.concurrency;
  profile.queue_count = queues.size();
  for (std::size_t i = 0; i < std::min(queues.size(), store::kMostQueues); ++i) {
    profile.queues.push_back(queues[i].name);
  }
  return profile;
}

// Other requests make a round trip soon, unless poll_interval is long.
bool Registration::is_due(const RoundTrip& round_trip) const {
  if (partition_.number != 0 || partition_.queue.profile.concurrency == 0) return false;
  const Clock::time_point now = Clock::now();
  return now >= due_ && (!round_trip.empty() || now - due_ >= interval_);
}

void Registration::add(RoundTrip& round_trip, const ConsumerActivity& activity) {
  store::ConsumerEntry entry = partition_.queue.profile;
  activity.write_to(entry);
  const auto answer =
      store::register_consumer(round_trip.pipeline(), partition_.keys(), partition_.queue.consumer,
                               store::lines_of(entry), store::kMissedWrites * interval_ + store::kRegistryGrace);
  round_trip.expect(answer,
                    [this, where = round_trip.pipeline().where()](const auto& written) { finish(written, where); });
  due_ = Clock::now() + interval_;
  written_ = true;
}

void Registration::finish(const store::Answer<bool>& written, const std::string& where) {
  try {
    if (!written.get()) return failed("there are " + std::to_string(store::kMostConsumers) + " others", where);
    failed_ = false;
  } catch (const ReplyError& e) {
    failed(e.what(), where);
  }
}

void Registration::failed(const std::string& why, const std::string& where) {
  if (std::exchange(failed_, true)) return;
  partition_.log(Severity::warning,
                 "cannot write what this consumer does into " + redis::escaped(partition_.keys().consumers) +
                     ", so `dqctl workers` does not show it; messages are delivered all the same: " + why,
                 {where, ""});
}

void Registration::add_removal(RoundTrip& round_trip) {
  store::unregister_consumer(round_trip.pipeline(), partition_.keys(), partition_.queue.consumer);
  written_ = false;
}

}  // namespace delayqueue
