// Schedules: the recurring messages of a queue. Schedule: when one is due, and what it holds; next_times().
#pragma once

#include <delayqueue/client.h>
#include <delayqueue/detail/owned.h>
#include <delayqueue/message.h>
#include <delayqueue/version.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {

// Which occurrences are made up for when several have become due before any consumer looked: after an outage, or a
// pause of the queue. An occurrence that is late by less than a period is not missed, but delivered late.
//   none  none of them
//   last  the newest one
//   all   all of them, the oldest first; the newest 100 at most
enum class Missed { none, last, all };
DELAYQUEUE_EXPORT const char* to_string(Missed missed);

// What happens when an occurrence is due while an earlier one is not finished: while that is held by a consumer, in a
// backoff, or waits for another delivery. A dead letter is finished.
//   allow  both may be handled at the same time
//   skip   the new one is left out. After a failover that lost data one of them may be handled nevertheless
enum class Overlap { allow, skip };
DELAYQUEUE_EXPORT const char* to_string(Overlap overlap);

// A message that is due again and again. Its times are the slots of `cron` or of `every`: set one of them. They are
// from 1970 to the end of 2199, and the same on every host with the same time zone data.
struct Schedule {
  // 5 fields (minute, hour, day of month, month, day of week), or 6 with the second first, such as "0 9 * * MON-FRI";
  // or a name such as "@daily"; at most 256 bytes. docs/recurring.md has the syntax, and what happens when clocks
  // change.
  std::string cron{};
  milliseconds every{0};     // at the multiples of this since 1970, in UTC; at least 1 s
  std::string zone = "UTC";  // of `cron`: a name of the time zone database, such as "Europe/Berlin"

  std::string payload{};         // any bytes, at most 64 KiB
  Headers headers{};             // at most 60, of at most 7 KiB: the message gets others, whose names begin with "dq-"
  std::optional<int> retries{};  // as SendOptions::retries; unset: 3
  std::optional<milliseconds> ttl{};  // as SendOptions::ttl: each message expires this long after its due time
  Missed missed = Missed::last;
  Overlap overlap = Overlap::skip;
  // No slot is later than this, which is from 1970 to the end of 2199; unset: no end.
  std::optional<std::chrono::system_clock::time_point> until{};
};

// The first times of a schedule that are later than `after`: `count` of them, at most 10,000; fewer if it ends. It
// needs no server. Several threads may call it at the same time.
//
// Throws std::invalid_argument with the member, its value and the reason if the schedule is not valid, such as
//   cron "0 9 31 2 *": at character 5: no such date: it never occurs
// Throws SetupError if `zone` is not UTC, and this machine has no time zone data or the library was built without. The
// data of a zone is read when a process first needs it: a process that runs does not notice newer data.
DELAYQUEUE_EXPORT std::vector<std::chrono::system_clock::time_point> next_times(
    const Schedule& schedule, std::chrono::system_clock::time_point after, std::size_t count);

enum class ScheduleState {
  active,
  paused,  // it has no message that is to come
  ended,   // its last slot has passed; it is kept until it is removed
};
DELAYQUEUE_EXPORT const char* to_string(ScheduleState state);

struct ScheduleInfo {
  std::string name{};
  Schedule schedule{};
  ScheduleState state = ScheduleState::active;
  // The slot of the newest message that was stored, and its id; unset: not active. If it is past, consumers have not
  // stored the next one since: for `behind`, by Redis' clock, which is 0 otherwise.
  std::optional<std::chrono::system_clock::time_point> next{};
  std::string next_id{};
  milliseconds behind{0};
  // Why `schedule` is empty: what is stored cannot be read by this version, or on this machine. Consumers of this
  // version leave it as it is.
  std::string problem{};
};

enum class SetResult { created, changed, unchanged };
DELAYQUEUE_EXPORT const char* to_string(SetResult result);

// The schedules of a queue, which its consumers keep going: each stores the next message when one is due. Workers of
// the Go library and earlier versions only handle the messages; then call advance() regularly, or run
// `dqctl schedule run`.
//
// A queue has at most 10,000 schedules. A name has 1 to 128 bytes of valid UTF-8 without control characters, and does
// not begin with "-". The messages are like others, in partition 0: one can be cancelled, for example, and the
// schedule goes on. They count to QueueLimits, but a full queue keeps none of them out.
//
// Threads, errors and fork(): as for QueueAdmin. A call may be repeated. Changes are made by compare-and-set: of two
// callers the later one counts. After 10 attempts a call throws ConnectionError.
class DELAYQUEUE_EXPORT Schedules {
 public:
  Schedules(const Client& client, const QueueName& queue);
  ~Schedules();
  Schedules(Schedules&&) noexcept;
  Schedules& operator=(Schedules&&) noexcept;

  // Creates or changes a schedule: a service may call it at each start. An equal one that is there stays as it is, also
  // if it is paused or has ended. Otherwise the first slot after now is next. The message that waits for a later time
  // is taken back; one that is due, or was delivered, stays. A paused schedule stays paused. If `until` is past, it has
  // ended. Throws std::invalid_argument and SetupError as next_times() does.
  SetResult set(const std::string& name, const Schedule& schedule);

  // False: there is no such schedule. The message that waits for a later time is taken back; one that is due stays.
  [[nodiscard]] bool remove(const std::string& name);
  [[nodiscard]] bool pause(const std::string& name);
  // The first slot after now is next: nothing is made up for. Throws std::invalid_argument if what is stored cannot be
  // read: see ScheduleInfo::problem.
  [[nodiscard]] bool resume(const std::string& name);

  [[nodiscard]] std::optional<ScheduleInfo> find(const std::string& name);
  [[nodiscard]] std::vector<ScheduleInfo> list();  // sorted by name

  // What consumers do: stores the next messages of the schedules that are due. Returns how many it has stored.
  std::size_t advance();

 private:
  class DELAYQUEUE_HIDDEN Impl;
  internal::Owned<Impl> impl_;
};

}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
