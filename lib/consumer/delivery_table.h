// The life of a delivery as two tables of transitions: of its handler and place, and of the request that settles it.
// Pure: no clock, no thread, no I/O.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

namespace delayqueue {

// ---- The handler, the place and the verdict -------------------------------------------------------------------------

// Two things end a delivery that has begun, in any order: its handler returns, and its verdict is there. The second of
// the two frees its place, unless the place was lost before: then another delivery has it.
enum class Stage : unsigned char {
  taken,             // leased; it waits for its body, or for a worker
  taken_lost,        // the same, but its lease is lost: its handler must not begin
  released,          // its handler will not begin: the message goes back, or its body could not be fetched
  running,           // its handler runs, and there is no verdict
  running_lost,      // the same without its place: its lease is lost, or its handler hangs
  running_replaced,  // the same, and its worker ends when the handler returns: another worker has replaced it
  settled,           // its Delivery has a verdict, and its handler still runs
  settled_lost,
  settled_replaced,
  outstanding,  // its handler has returned without a verdict: a Delivery still exists
  outstanding_lost,
  finished,  // the end: the handler returned with the verdict
  finished_lost,
  returned_last,  // the end: the verdict was there when the handler returned
  settled_last,   // the end: the handler had returned before the verdict, whose arrival frees the place
  ended_lost,     // the end, in any of the two orders
};
inline constexpr std::size_t kStages = 16;

enum class StageEvent : unsigned char {
  begin,           // a worker is about to call the handler
  settle,          // a Delivery is settled or destroyed, in any thread
  finish,          // the handler returns with the verdict; or with that of a Delivery that it has destroyed
  leave,           // the handler returns, and the Delivery is somewhere else
  lose_place,      // the lease is lost, or processing_timeout has passed
  replace_worker,  // another worker has been started, because the handler still runs
  release,         // no worker will call the handler
};
inline constexpr std::size_t kStageEvents = 7;

struct StageChange {
  enum class Kind : unsigned char {
    impossible,  // an error of the caller
    late,        // the event changes nothing: another one came before it
    made,
  };

  Kind kind = Kind::impossible;
  Stage next = Stage::taken;
  bool takes_verdict = false;  // the verdict of this event is that of the delivery
  bool frees_place = false;
  bool frees_worker = true;  // of events in a worker: it goes on with other deliveries; false: it ends
};

// What is true in a stage.
struct StageFacts {
  bool has_begun = false;
  bool handler_runs = false;
  bool has_verdict = false;
  bool has_lost_place = false;
};

namespace delivery_table {

struct StageRule {
  Stage stage;
  StageEvent event;
  Stage next;
  bool takes_verdict = false;
  bool frees_place = false;
  bool frees_worker = true;
};

// The events of one owner, in its order, are impossible where there is no rule. Those that come from elsewhere may be
// late there: a Delivery has several owners, and the consumer's thread does not see at once what a worker does.
inline constexpr StageRule kStageRules[] = {
    {Stage::taken, StageEvent::begin, Stage::running},
    {Stage::taken, StageEvent::lose_place, Stage::taken_lost},  // a worker frees the place: see release
    {Stage::taken, StageEvent::release, Stage::released, true, true},
    {Stage::taken_lost, StageEvent::release, Stage::released, true, true},

    {Stage::running, StageEvent::settle, Stage::settled, true},
    {Stage::running, StageEvent::finish, Stage::finished, true, true},
    {Stage::running, StageEvent::leave, Stage::outstanding},
    {Stage::running, StageEvent::lose_place, Stage::running_lost, false, true},
    {Stage::running_lost, StageEvent::settle, Stage::settled_lost, true},
    {Stage::running_lost, StageEvent::finish, Stage::finished_lost, true},
    {Stage::running_lost, StageEvent::leave, Stage::outstanding_lost},
    {Stage::running_lost, StageEvent::replace_worker, Stage::running_replaced},
    {Stage::running_replaced, StageEvent::settle, Stage::settled_replaced, true},
    {Stage::running_replaced, StageEvent::finish, Stage::finished_lost, true, false, false},
    {Stage::running_replaced, StageEvent::leave, Stage::outstanding_lost, false, false, false},

    // `finish` after `settle`: of two owners of a Delivery, one has settled it, and the handler has destroyed it.
    {Stage::settled, StageEvent::finish, Stage::returned_last, false, true},
    {Stage::settled, StageEvent::leave, Stage::returned_last, false, true},
    {Stage::settled, StageEvent::lose_place, Stage::settled_lost, false, true},
    {Stage::settled_lost, StageEvent::finish, Stage::ended_lost},
    {Stage::settled_lost, StageEvent::leave, Stage::ended_lost},
    {Stage::settled_lost, StageEvent::replace_worker, Stage::settled_replaced},
    {Stage::settled_replaced, StageEvent::finish, Stage::ended_lost, false, false, false},
    {Stage::settled_replaced, StageEvent::leave, Stage::ended_lost, false, false, false},

    {Stage::outstanding, StageEvent::settle, Stage::settled_last, true, true},
    {Stage::outstanding, StageEvent::lose_place, Stage::outstanding_lost, false, true},
    {Stage::outstanding_lost, StageEvent::settle, Stage::ended_lost, true},
};

inline constexpr StageFacts facts(Stage stage) {
  switch (stage) {
    case Stage::taken:
      return {};
    case Stage::taken_lost:
      return {false, false, false, true};
    case Stage::released:
      return {false, false, true};
    case Stage::running:
      return {true, true};
    case Stage::running_lost:
    case Stage::running_replaced:
      return {true, true, false, true};
    case Stage::settled:
      return {true, true, true};
    case Stage::settled_lost:
    case Stage::settled_replaced:
      return {true, true, true, true};
    case Stage::outstanding:
      return {true};
    case Stage::outstanding_lost:
      return {true, false, false, true};
    case Stage::finished:
    case Stage::returned_last:
    case Stage::settled_last:
      return {true, false, true};
    case Stage::finished_lost:
    case Stage::ended_lost:
      return {true, false, true, true};
  }
  return {};
}

// What an event without a rule is.
inline constexpr StageChange::Kind without_rule(Stage stage, StageEvent event) {
  const bool settles_none = event == StageEvent::settle && !facts(stage).has_begun;  // there is no Delivery yet
  const bool begins_lost = event == StageEvent::begin && stage == Stage::taken_lost;
  const bool from_elsewhere =
      event == StageEvent::settle || event == StageEvent::lose_place || event == StageEvent::replace_worker;
  return begins_lost || (from_elsewhere && !settles_none) ? StageChange::Kind::late : StageChange::Kind::impossible;
}

using StageTable = std::array<std::array<StageChange, kStageEvents>, kStages>;

inline constexpr StageTable make_stage_table() {
  StageTable table{};
  for (std::size_t stage = 0; stage < kStages; ++stage) {
    for (std::size_t event = 0; event < kStageEvents; ++event) {
      const auto kind = without_rule(static_cast<Stage>(stage), static_cast<StageEvent>(event));
      table[stage][event] = {kind, static_cast<Stage>(stage)};
    }
  }
  for (const StageRule& rule : kStageRules) {
    table[static_cast<std::size_t>(rule.stage)][static_cast<std::size_t>(rule.event)] = {
        StageChange::Kind::made, rule.next, rule.takes_verdict, rule.frees_place, rule.frees_worker};
  }
  return table;
}

inline constexpr StageTable kStageTable = make_stage_table();

}  // namespace delivery_table

constexpr StageChange change_of(Stage stage, StageEvent event) {
  return delivery_table::kStageTable[static_cast<std::size_t>(stage)][static_cast<std::size_t>(event)];
}

constexpr StageFacts facts_of(Stage stage) { return delivery_table::facts(stage); }

// ---- The request that settles it ------------------------------------------------------------------------------------

// Redis executes a request of a receipt at most once, so it is sent until it has an answer. The consumer's thread
// writes it.
enum class Settling : unsigned char {
  held,                // there is no verdict yet
  waiting,             // its request is to be sent
  refused,             // the same, but Redis refused the last request, and executed nothing
  unanswered,          // the same, but an answer never came: Redis has executed that request or not
  unanswered_refused,  // both
  sent,                // its request is under way
  sent_again,          // the same, after one whose answer never came
  settled,             // the end: Redis has executed its request
  stale,               // the end: its request has changed nothing
  in_doubt,            // the end: Redis has executed its request, or the lease had ended before
};
inline constexpr std::size_t kSettlings = 10;

enum class SettlingEvent : unsigned char {
  decide,       // its verdict is there; or it needs none
  send,         // its request is added to a round trip
  lose_answer,  // the answer will not come
  refuse,       // Redis answers with an error
  confirm,      // Redis answers that it has executed the request
  find_gone,    // the message is gone, as an ack leaves it
  find_moved,   // the message has no lease or another one, as a nack or snooze leaves it
  find_taken,   // the message has another lease, which an ack does not leave
};
inline constexpr std::size_t kSettlingEvents = 8;

// The state after an event; nullopt: the event is impossible.
constexpr std::optional<Settling> settling_after(Settling from, SettlingEvent event) {
  const bool again = from == Settling::sent_again;
  switch (from) {
    case Settling::held:
      return event == SettlingEvent::decide ? std::optional(Settling::waiting) : std::nullopt;
    case Settling::waiting:
    case Settling::refused:
      return event == SettlingEvent::send ? std::optional(Settling::sent) : std::nullopt;
    case Settling::unanswered:
    case Settling::unanswered_refused:
      return event == SettlingEvent::send ? std::optional(Settling::sent_again) : std::nullopt;
    case Settling::settled:
    case Settling::stale:
    case Settling::in_doubt:
      return std::nullopt;
    case Settling::sent:
    case Settling::sent_again:
      break;
  }
  switch (event) {
    case SettlingEvent::decide:
    case SettlingEvent::send:
      return std::nullopt;
    case SettlingEvent::lose_answer:
      return Settling::unanswered;
    case SettlingEvent::refuse:
      return again ? Settling::unanswered_refused : Settling::refused;
    case SettlingEvent::confirm:
      return Settling::settled;
    case SettlingEvent::find_gone:
      return again ? Settling::settled : Settling::stale;
    case SettlingEvent::find_moved:  // without the earlier answer it is not told from a lease that ran out
      return again ? Settling::in_doubt : Settling::stale;
    case SettlingEvent::find_taken:
      return Settling::stale;
  }
  return std::nullopt;
}

}  // namespace delayqueue
