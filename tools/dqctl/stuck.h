// Finds messages that should have moved and have not, and the likely reason.
#pragma once

#include <delayqueue/inspector.h>

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "holders.h"
#include "output/text.h"

namespace dqctl {

enum class Level { ok, warning, critical };
const char* to_string(Level level);

enum class Trend { shrinks, holds, grows };
const char* to_string(Trend trend);

// How fast a queue is handled. The net rate is that of the messages that are due, in ready, unack or retry: so it
// includes what arrives, and what is delivered again.
struct Pace {
  milliseconds span{};  // between the readings that it is computed from
  Trend trend = Trend::holds;
  double net = 0, arrived = 0, handled = 0;  // messages per second; handled: acknowledged, dead letters, removed
  std::optional<milliseconds> empty_in{};    // only if it shrinks
  std::optional<milliseconds> wait{};        // of a message that arrives now; unset: none was handled

  std::string text() const;  // "it grows by 80/s (150/s arrive, 70/s are handled; over 1m)"
};

// Unset: the readings are not some time apart, or the statistics were set back in between.
std::optional<Pace> pace_between(const delayqueue::Counts& before, const delayqueue::Counts& now);

struct StuckFinding {
  const char* kind = "";  // due, lease_ended, not_taken, slow, backlog, held, silent, paused, hot_retries,
                          // no_body, dead, lost_partitions
  Level level = Level::ok;
  std::uint64_t count = 0;
  std::optional<milliseconds> age{};
  std::optional<Pace> pace{};  // of due and backlog, if consumers run
  std::string what{};
  std::string why{};
  std::string todo{};
  std::string example{};  // id of one of the messages
};

// Counts over the first messages of each state.
struct Sample {
  std::uint64_t hot = 0, no_body = 0, dead = 0;
  std::string hot_id{};
  std::vector<std::string> without_body{};  // ids at the first reading; a consumer may just have finished the message
  std::string no_body_id{};                 // one that still has no body at the second reading
  int most_deliveries = 0;
  std::map<std::string, std::uint64_t> hot_reasons{}, dead_reasons{};
};

// One reading of a queue. first_unack: the message whose lease ended first; unset if no lease has ended.
struct QueueState {
  delayqueue::Counts counts{};
  std::optional<delayqueue::Pause> pause{};
  std::optional<delayqueue::MessageInfo> first_ready{}, first_retry{}, first_unack{};
};
QueueState read_state(delayqueue::Inspector& inspector);

// For how long the oldest message has waited: since it was due, or since its lease or backoff ended. Of ready that is
// known of one message only, so it may be longer (see Counts::oldest_ready). If it is not known, it counts since the
// message was sent. Unset: none waits.
std::optional<milliseconds> oldest_of(const QueueState& state);

// Two readings of a queue, some time apart.
struct Evidence {
  QueueState before{}, now{};
  std::optional<delayqueue::Counts> earlier{};  // the reading that the pace is computed from; unset: `before`
  std::uint64_t held_throughout = 0;            // of the first in unack: held by the same delivery at both readings
  std::string held_id{};                        // one of them
  std::vector<HeldMessage> running{};           // that handlers have been working on for too long; the longest first
  std::vector<delayqueue::Worker> silent{};     // consumers whose entries are overdue
  std::uint64_t living = 0;                     // other registered consumers
  Sample sample{};
};

inline constexpr int kManyDeliveries = 5;

struct StuckOptions {
  std::optional<milliseconds> warn{std::chrono::minutes(1)};
  std::optional<milliseconds> crit{std::chrono::minutes(10)};
  std::optional<milliseconds> interval{std::chrono::seconds(1)};  // between the two readings
  std::optional<milliseconds> held{};                             // unset: as warn
  std::optional<int> hot{};  // deliveries; unset: kManyDeliveries, or the last ones that the retries allow
  std::uint64_t dead = 1000, dead_crit = 100'000;  // dead letters: a warning, critical
  std::uint64_t dead_growth = 1;                   // between the two readings: a warning

  milliseconds least_held() const { return held.value_or(*warn); }
};

// Finds what is stuck, for dqctl stuck and the marks in dqctl top. The worst comes first. Notes have Level::ok.
std::vector<StuckFinding> diagnose(const Evidence& evidence, const std::string& queue, const StuckOptions& options);

// Applies the rules of dqctl stuck to a queue that is read again and again, without samples of its messages.
class FindingWatch {
 public:
  // Adds a reading. It is compared with one that is at least the interval of StuckOptions older.
  void update(const std::string& queue, const QueueState& now);

  // The worst finding of the last comparison; with Level::ok nothing is stuck. Unset: there was no comparison yet.
  const std::optional<StuckFinding>& worst() const { return worst_; }

  // oldest_of() the last reading. Of messages in ready at least for how long one of them had waited that was in ready
  // before: Counts::oldest_ready begins at 0 when its message is taken.
  const std::optional<milliseconds>& oldest() const { return oldest_; }

  // The oldest reading that is known of about the last minute, for a Pace. Unset: there is none.
  std::optional<delayqueue::Counts> a_minute_ago() const;

 private:
  void keep(const delayqueue::Counts& now);
  void update_oldest(const QueueState& now);

  std::optional<QueueState> previous_{};
  std::optional<StuckFinding> worst_{};
  std::optional<milliseconds> oldest_{};
  std::optional<Time> probe_{};              // Counts::oldest_ready of the last reading
  milliseconds probe_waited_{0};             // its age then
  milliseconds last_probe_waited_{0};        // the same of the message before it
  std::deque<delayqueue::Counts> minute_{};  // readings some seconds apart, the oldest first
};

}  // namespace dqctl
