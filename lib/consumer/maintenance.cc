#include "consumer/maintenance.h"

#include <delayqueue/error.h>

namespace delayqueue {

void Maintenance::add(RoundTrip& round_trip, const store::Store& store, bool stopping) {
  add_persisting(round_trip, store);
  const Clock::time_point now = Clock::now();
  if (stopping || now < due()) return;
  if (!garbage_.empty()) store.gc(round_trip.pipeline(), std::exchange(garbage_, {}));
  if (now >= garbage_due_) {
    garbage_due_ = now + rules_.interval;
    sample_garbage(round_trip, store);
    if (rules_.dead_limit > 0) trim(round_trip, store, std::nullopt, rules_.dead_limit);
  }
  if (now >= trim_due_) {
    trim_due_ = now + rules_.seldom;
    trim(round_trip, store, rules_.dead_retention, 0);
  }
  if (now >= metadata_due_) {
    metadata_due_ = now + rules_.seldom;
    clean_metadata(round_trip, store);
  }
}

void Maintenance::add_persisting(RoundTrip& round_trip, const store::Store& store) {
  const std::size_t count = std::min(to_persist_.size(), store::kBatch);
  if (count == 0) return;
  const auto some = to_persist_.begin() + static_cast<std::ptrdiff_t>(count);
  const auto answer = store.persist(round_trip.pipeline(), {to_persist_.begin(), some});
  round_trip.expect(answer, [this, count](const auto& persisted) {
    persisted.get();
    to_persist_.erase(to_persist_.begin(), to_persist_.begin() + static_cast<std::ptrdiff_t>(count));
  });
}

void Maintenance::sample_garbage(RoundTrip& round_trip, const store::Store& store) {
  const auto answer = store.sample_garbage(round_trip.pipeline());
  round_trip.expect(answer, [this](const auto& ids) {
    garbage_ = ids.get();
    if (garbage_.size() == store::kBatch) garbage_due_ = Clock::time_point();  // there may be more
  });
}

void Maintenance::trim(RoundTrip& round_trip, const store::Store& store, std::optional<milliseconds> older_than,
                       std::int64_t leave) {
  const auto answer = store.purge_zset(round_trip.pipeline(), store.keys().dead, store::kBatch, older_than, leave);
  round_trip.expect(answer, [this](const auto& trimmed) {
    const store::Purged purged = trimmed.get();
    if (purged.removed == store::kBatch) garbage_due_ = trim_due_ = Clock::time_point();  // there may be more
    if (purged.purged > 0) trimmed_(purged.purged);
  });
}

void Maintenance::clean_metadata(RoundTrip& round_trip, const store::Store& store) {
  if (metadata_.empty()) {
    sample_metadata(round_trip, store, store.keys().attempts);
    sample_metadata(round_trip, store, store.keys().reason);
    sample_metadata(round_trip, store, store.keys().headers);
    return;
  }
  const auto some = static_cast<std::ptrdiff_t>(std::min(metadata_.size(), store::kBatch));
  const auto answer =
      store.delete_orphaned_metadata(round_trip.pipeline(), {metadata_.begin(), metadata_.begin() + some});
  // Go workers leave the headers of all messages that they acknowledge: the samples must keep pace with them.
  round_trip.expect(answer, [this, examined = static_cast<std::size_t>(some)](const auto& deleted) {
    try {
      if (2 * deleted.get() >= examined) metadata_due_ = Clock::time_point();
    } catch (const ReplyError&) {  // the next sample tries again; no message depends on it
    }
  });
  metadata_.erase(metadata_.begin(), metadata_.begin() + some);
  if (!metadata_.empty()) metadata_due_ = Clock::time_point();
}

void Maintenance::sample_metadata(RoundTrip& round_trip, const store::Store& store, const std::string& key) {
  const auto answer = store.sample_metadata(round_trip.pipeline(), key);
  round_trip.expect(answer, [this](const auto& sampled) {
    const std::vector<std::string> ids = sampled.get();
    metadata_.insert(metadata_.end(), ids.begin(), ids.end());
    if (!metadata_.empty()) metadata_due_ = Clock::time_point();
  });
}

}  // namespace delayqueue
