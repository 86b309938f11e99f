#include "consumer/upkeep.h"

#include "os/host.h"
#include "redis/escaped.h"

#include <delayqueue/error.h>
#include <delayqueue/version.h>

#include <unistd.h>

namespace delayqueue {
namespace {

constexpr milliseconds kSoonest{10'000};    // between two writes of an entry
constexpr milliseconds kLatest{3'600'000};  // the same

constexpr int kPollsToLayout = 10;  // the layout is read once in so many polls of partition 0

}  // namespace

// ---- Maintenance ----------------------------------------------------------------------------------------------------

bool Maintenance::add(RoundTrip& round_trip, const store::Moves& moves, bool stopping, bool paced) {
  add_persisting(round_trip, moves);
  const Clock::time_point now = Clock::now();
  if (stopping || now < due()) return false;
  const bool frees = now >= places_due_ && !places_.empty();
  if (!garbage_.empty()) moves.gc(round_trip.pipeline(), std::exchange(garbage_, {}));
  if (now >= garbage_due_) {
    garbage_due_ = now + rules_.interval;
    sample_garbage(round_trip, moves);
    if (rules_.dead_limit > 0) trim(round_trip, moves, std::nullopt, rules_.dead_limit);
  }
  if (now >= trim_due_) {
    trim_due_ = now + rules_.seldom;
    trim(round_trip, moves, rules_.dead_retention, 0);
  }
  if (now >= places_due_) {
    places_due_ = paced ? now + rules_.seldom : Clock::time_point::max();
    correct_places(round_trip, moves);
  }
  if (now >= metadata_due_) {
    metadata_due_ = now + rules_.seldom;
    clean_metadata(round_trip, moves);
  }
  return frees;
}

void Maintenance::add_persisting(RoundTrip& round_trip, const store::Moves& moves) {
  const std::size_t count = std::min(to_persist_.size(), store::kBatch);
  if (count == 0) return;
  const auto some = to_persist_.begin() + static_cast<std::ptrdiff_t>(count);
  const auto answer = moves.persist(round_trip.pipeline(), {to_persist_.begin(), some});
  round_trip.expect(answer, [this, count](const auto& persisted) {
    persisted.get();
    to_persist_.erase(to_persist_.begin(), to_persist_.begin() + static_cast<std::ptrdiff_t>(count));
  });
}

void Maintenance::sample_garbage(RoundTrip& round_trip, const store::Moves& moves) {
  const auto answer = moves.sample_garbage(round_trip.pipeline());
  round_trip.expect(answer, [this](const auto& ids) {
    garbage_ = ids.get();
    if (garbage_.size() == store::kBatch) garbage_due_ = Clock::time_point();  // there may be more
  });
}

void Maintenance::trim(RoundTrip& round_trip, const store::Moves& moves, std::optional<milliseconds> older_than,
                       std::int64_t leave) {
  const auto answer = moves.purge_zset(round_trip.pipeline(), moves.keys().dead, store::kBatch, older_than, leave);
  round_trip.expect(answer, [this](const auto& trimmed) {
    const store::Purged purged = trimmed.get();
    if (purged.removed == store::kBatch) garbage_due_ = trim_due_ = Clock::time_point();  // there may be more
    if (purged.purged > 0) trimmed_(purged.purged);
  });
}

void Maintenance::correct_places(RoundTrip& round_trip, const store::Moves& moves) {
  if (places_.empty()) {
    round_trip.expect(moves.places_from(round_trip.pipeline(), place_), [this](const auto& ids) {
      try {
        places_ = ids.get();
        const bool last = places_.size() < store::kPlaces;
        place_ = last ? 0 : place_ + store::kPlaces;
        if (!places_.empty()) places_due_ = {};
        if (places_.empty()) end_walk();
      } catch (const ReplyError&) {  // the next sample tries again; no message depends on it
      }
    });
    return;
  }
  const auto sampled = std::exchange(places_, {});
  const auto answer = moves.correct_places(round_trip.pipeline(), sampled);
  // As clean_metadata(): the samples must keep pace with programs that settle without freeing places.
  round_trip.expect(answer, [this, examined = sampled.size()](const auto& removed) {
    try {
      const std::size_t gone = removed.get();
      gone_places_ += gone;
      if (place_ == 0) {
        end_walk();
      } else {
        place_ -= std::min(place_, gone);
      }
      if (walks_places_ || 2 * gone >= examined) places_due_ = {};
    } catch (const ReplyError&) {
    }
  });
}

void Maintenance::end_walk() {
  walks_places_ = walks_places_ && gone_places_ > 0;
  if (walks_places_) places_due_ = {};
  gone_places_ = 0;
}

void Maintenance::clean_metadata(RoundTrip& round_trip, const store::Moves& moves) {
  if (metadata_.empty() && key_names_.empty()) {
    sample_metadata(round_trip, moves, moves.keys().attempts);
    sample_metadata(round_trip, moves, moves.keys().reason);
    sample_metadata(round_trip, moves, moves.keys().headers);
    sample_metadata(round_trip, moves, moves.keys().keys);
    round_trip.expect(moves.sample_keys(round_trip.pipeline()), [this](const auto& sampled) {
      try {
        key_names_ = sampled.get();
        if (!key_names_.empty()) metadata_due_ = Clock::time_point();
      } catch (const ReplyError&) {  // another program has written the key
      }
    });
    return;
  }
  if (!key_names_.empty()) clean_keys(round_trip, moves);
  if (metadata_.empty()) return;
  const auto some = static_cast<std::ptrdiff_t>(std::min(metadata_.size(), store::kBatch));
  const auto answer =
      moves.delete_orphaned_metadata(round_trip.pipeline(), {metadata_.begin(), metadata_.begin() + some});
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

void Maintenance::clean_keys(RoundTrip& round_trip, const store::Moves& moves) {
  const std::vector<std::string> some = std::exchange(key_names_, {});
  const auto answer = moves.delete_orphaned_keys(round_trip.pipeline(), some);
  round_trip.expect(answer, [this, examined = some.size()](const auto& deleted) {
    try {
      if (2 * deleted.get() >= examined) metadata_due_ = Clock::time_point();
    } catch (const ReplyError&) {  // the next sample tries again; no message depends on it
    }
  });
}

void Maintenance::sample_metadata(RoundTrip& round_trip, const store::Moves& moves, const std::string& key) {
  const auto answer = moves.sample_metadata(round_trip.pipeline(), key);
  round_trip.expect(answer, [this, is_hint = key == moves.keys().keys](const auto& sampled) {
    try {
      const std::vector<std::string> ids = sampled.get();
      metadata_.insert(metadata_.end(), ids.begin(), ids.end());
      if (!metadata_.empty()) metadata_due_ = Clock::time_point();
    } catch (const ReplyError&) {  // another program has written the key: messages without keys do not need it
      if (!is_hint) throw;
    }
  });
}

// ---- RegistryEntry --------------------------------------------------------------------------------------------------

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

milliseconds registry_interval(milliseconds poll_interval, std::size_t queues) {
  return std::min(stretched(std::clamp(poll_interval, kSoonest, kLatest), queues), kLatest);
}

store::ConsumerEntry profile_of(const ConsumerOptions& options, const std::deque<ServedQueue>& queues) {
  store::ConsumerEntry profile;
  if (!options.tuning.register_consumer) return profile;
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
bool RegistryEntry::is_due(const RoundTrip& round_trip) const {
  if (partition_.number != 0 || partition_.queue.profile.concurrency == 0) return false;
  const Clock::time_point now = Clock::now();
  return now >= due_ && (!round_trip.empty() || now - due_ >= interval_);
}

void RegistryEntry::add(RoundTrip& round_trip, const ConsumerActivity& activity) {
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

void RegistryEntry::finish(const store::Answer<bool>& written, const std::string& where) {
  try {
    if (!written.get()) return failed("there are " + std::to_string(store::kMostConsumers) + " others", where);
    failed_ = false;
  } catch (const ReplyError& e) {
    failed(e.what(), where);
  }
}

void RegistryEntry::failed(const std::string& why, const std::string& where) {
  if (std::exchange(failed_, true)) return;
  partition_.log(Severity::warning,
                 "cannot write what this consumer does into " + redis::escaped(partition_.keys().consumers) +
                     ", so `dqctl workers` does not show it; messages are delivered all the same: " + why,
                 {where, ""});
}

void RegistryEntry::add_removal(RoundTrip& round_trip) {
  store::unregister_consumer(round_trip.pipeline(), partition_.keys(), partition_.queue.consumer);
  written_ = false;
}

// ---- PartitionCopies ------------------------------------------------------------------------------------------------

PartitionCopies::PartitionCopies(ServedPartition& partition) : partition_(partition) {
  const ServedQueue& queue = partition.queue;
  if (partition.number == 0 && queue.layout.may_have_partitions() && !partition.endpoint.is_cluster()) {
    next_keys_ = store::make_keys(queue.name, partition.endpoint.key_options(), 1);
  }
}

void PartitionCopies::learn(const store::Layout& copy) {
  partition_.queue.layout.keeper().remember(partition_.number, copy);
}

void PartitionCopies::learn(store::PauseState copy) {
  if (copy.is_local()) copy.paused = false;
  if (partition_.number == 0) copy.generation = std::max<std::int64_t>(copy.generation, 0);
  pause_.generation = copy.generation;
  partition_.queue.pause.learn(copy);
}

void PartitionCopies::learn(const store::Limits& copy) {
  limits_.generation = copy.generation;
  if (copy.generation > latest_limits()) partition_.queue.limits = copy;
}

void PartitionCopies::leave() {
  may_read_next_ = true;
  pause_.generation = limits_.generation = -1;  // perhaps another server, with other data
}

// A copy that cannot be read counts as absent: the moves report what is wrong.
void PartitionCopies::add_reading(RoundTrip& round_trip, bool layout, milliseconds poll_interval) {
  due_ = std::chrono::steady_clock::now() + kPollsToLayout * poll_interval;
  if (layout) {
    round_trip.expect(store::read_layout(round_trip.pipeline(), partition_.keys()), [this](const auto& answer) {
      try {
        learn(answer.get());
      } catch (const ReplyError&) {
      }
    });
  }
  if (partition_.queue.lanes.size() > 1) {
    read_pause(round_trip);
    return read_limits(round_trip);
  }
  if (!next_keys_ || !may_read_next_) return;
  round_trip.expect(store::read_layout(round_trip.pipeline(), *next_keys_), [this](const auto& answer) {
    try {
      partition_.queue.layout.keeper().remember(1, answer.get());
    } catch (const ReplyError&) {
      may_read_next_ = false;
    }
  });
}

void PartitionCopies::add_updates(RoundTrip& round_trip) {
  LayoutKeeper& layout = partition_.queue.layout.keeper();
  if (layout.is_behind(partition_.number)) {
    const store::Layout known = layout.known();
    layout.remember(partition_.number, known);  // if it fails, the next time that the copy is read shows it
    store::copy_layout(round_trip.pipeline(), partition_.keys(), known);
  }
  if (copies_pause()) copy_pause(round_trip);
  if (copies_limits()) copy_limits(round_trip);
}

void PartitionCopies::read_pause(RoundTrip& round_trip) {
  round_trip.expect(store::read_pause(round_trip.pipeline(), partition_.keys()), [this](const auto& answer) {
    try {
      learn(answer.get());
    } catch (const AccessDenied&) {
      if (partition_.number > 0) throw;  // nothing is taken from there
    }
  });
}

void PartitionCopies::read_limits(RoundTrip& round_trip) {
  round_trip.expect(store::read_limits(round_trip.pipeline(), partition_.keys()), [this](const auto& answer) {
    try {
      learn(answer.get().limits);
    } catch (const AccessDenied&) {
      if (partition_.number > 0) throw;  // nothing is taken from there
    }
  });
}

void PartitionCopies::copy_pause(RoundTrip& round_trip) {
  pause_.under_way = true;
  round_trip.expect(
      store::copy_pause(round_trip.pipeline(), partition_.keys(), partition_.queue.pause.now()),
      [this](const auto& answer) {
        pause_.under_way = false;
        learn(answer.get());
      },
      [this] { pause_.under_way = false; });
}

void PartitionCopies::copy_limits(RoundTrip& round_trip) {
  limits_.under_way = true;
  round_trip.expect(
      store::copy_limits(round_trip.pipeline(), partition_.keys(), partition_.queue.limits, partition_.number),
      [this](const auto& answer) {
        limits_.under_way = false;
        learn(answer.get().limits);
      },
      [this] { limits_.under_way = false; });
}

}  // namespace delayqueue
