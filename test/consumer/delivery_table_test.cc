// The life of a delivery: every event in every stage, and what holds on every way through the table.
#include "support/test.h"

#include "consumer/delivery_table.h"

namespace delayqueue {
namespace {

using ChangeKind = StageChange::Kind;

struct NamedStage {
  Stage stage;
  const char* name;
};

constexpr std::array<NamedStage, kStages> kStageNames{{{Stage::taken, "taken"},
                                                       {Stage::taken_lost, "taken_lost"},
                                                       {Stage::released, "released"},
                                                       {Stage::running, "running"},
                                                       {Stage::running_lost, "running_lost"},
                                                       {Stage::running_replaced, "running_replaced"},
                                                       {Stage::settled, "settled"},
                                                       {Stage::settled_lost, "settled_lost"},
                                                       {Stage::settled_replaced, "settled_replaced"},
                                                       {Stage::outstanding, "outstanding"},
                                                       {Stage::outstanding_lost, "outstanding_lost"},
                                                       {Stage::finished, "finished"},
                                                       {Stage::finished_lost, "finished_lost"},
                                                       {Stage::returned_last, "returned_last"},
                                                       {Stage::settled_last, "settled_last"},
                                                       {Stage::ended_lost, "ended_lost"}}};

constexpr StageEvent kStageEventsInOrder[] = {StageEvent::begin,  StageEvent::settle,     StageEvent::finish,
                                              StageEvent::leave,  StageEvent::lose_place, StageEvent::replace_worker,
                                              StageEvent::release};

bool has_ended(Stage stage) {
  const StageFacts facts = facts_of(stage);
  return facts.has_verdict && !facts.handler_runs;
}

// The next stage, with V: its verdict counts, P: the place is free, W: the worker ends; "-": late; "!": impossible.
std::string cell(Stage stage, StageEvent event) {
  const StageChange change = change_of(stage, event);
  if (change.kind == ChangeKind::impossible) return "!";
  if (change.kind == ChangeKind::late) return "-";
  std::string text = kStageNames[static_cast<std::size_t>(change.next)].name;
  if (change.takes_verdict) text += " V";
  if (change.frees_place) text += " P";
  if (!change.frees_worker) text += " W";
  return text;
}

TEST_CASE("delivery: each event in each stage is a transition, is late, or is impossible") {
  using Row = std::array<const char*, kStageEvents>;
  // begin, settle, finish, leave, lose_place, replace_worker, release
  const std::array<Row, kStages> expected{{
      {"running", "!", "!", "!", "taken_lost", "-", "released V P"},
      {"-", "!", "!", "!", "-", "-", "released V P"},
      {"!", "!", "!", "!", "-", "-", "!"},
      {"!", "settled V", "finished V P", "outstanding", "running_lost P", "-", "!"},
      {"!", "settled_lost V", "finished_lost V", "outstanding_lost", "-", "running_replaced", "!"},
      {"!", "settled_replaced V", "finished_lost V W", "outstanding_lost W", "-", "-", "!"},
      {"!", "-", "returned_last P", "returned_last P", "settled_lost P", "-", "!"},
      {"!", "-", "ended_lost", "ended_lost", "-", "settled_replaced", "!"},
      {"!", "-", "ended_lost W", "ended_lost W", "-", "-", "!"},
      {"!", "settled_last V P", "!", "!", "outstanding_lost P", "-", "!"},
      {"!", "ended_lost V", "!", "!", "-", "-", "!"},
      {"!", "-", "!", "!", "-", "-", "!"},
      {"!", "-", "!", "!", "-", "-", "!"},
      {"!", "-", "!", "!", "-", "-", "!"},
      {"!", "-", "!", "!", "-", "-", "!"},
      {"!", "-", "!", "!", "-", "-", "!"},
  }};
  for (const auto& row : kStageNames) {
    const Stage stage = row.stage;
    CHECK(&kStageNames[static_cast<std::size_t>(stage)] == &row);
    for (const StageEvent event : kStageEventsInOrder) {
      CAPTURE(row.name);
      CAPTURE(static_cast<int>(event));
      CHECK(cell(stage, event) == expected[static_cast<std::size_t>(stage)][static_cast<std::size_t>(event)]);
    }
  }
}

TEST_CASE("delivery: an event that is late or impossible changes nothing") {
  for (const auto& row : kStageNames) {
    const Stage stage = row.stage;
    for (const StageEvent event : kStageEventsInOrder) {
      const StageChange change = change_of(stage, event);
      if (change.kind == ChangeKind::made) continue;
      CAPTURE(row.name);
      CHECK(change.next == stage);
      CHECK_FALSE(change.takes_verdict);
      CHECK_FALSE(change.frees_place);
      CHECK(change.frees_worker);
    }
  }
}

// A way through the table: how often a place, a verdict and a worker were given.
struct Way {
  Stage stage = Stage::taken;
  int places = 0, verdicts = 0, returns = 0, ended_workers = 0, replaced = 0;
  bool begun = false;

  bool operator<(const Way& other) const { return key() < other.key(); }
  std::tuple<Stage, int, int, int, int, int, bool> key() const {
    return {stage, places, verdicts, returns, ended_workers, replaced, begun};
  }
};

TEST_CASE("delivery: on every way it has one verdict, frees its place once, and each worker ends or goes on") {
  std::set<Way> seen{Way()};
  std::vector<Way> next{Way()};
  std::set<Stage> reached;
  while (!next.empty()) {
    const Way way = next.back();
    next.pop_back();
    reached.insert(way.stage);
    const StageFacts facts = facts_of(way.stage);
    CAPTURE(kStageNames[static_cast<std::size_t>(way.stage)].name);
    CHECK(facts.has_begun == way.begun);
    CHECK(facts.handler_runs == (way.begun && way.returns == 0));
    CHECK(facts.has_verdict == (way.verdicts == 1));
    CHECK(way.verdicts <= 1);
    CHECK(way.places <= 1);
    CHECK(way.replaced <= 1);
    if (way.begun && way.places == 1) CHECK((facts.has_lost_place || has_ended(way.stage)));
    if (has_ended(way.stage)) {
      CHECK(way.places == 1);
      CHECK(way.verdicts == 1);
      CHECK(way.ended_workers == way.replaced);
    }
    bool goes_on = false;
    for (const StageEvent event : kStageEventsInOrder) {
      const StageChange change = change_of(way.stage, event);
      if (change.kind != ChangeKind::made) continue;
      goes_on = true;
      Way after = way;
      after.stage = change.next;
      after.places += change.frees_place;
      after.verdicts += change.takes_verdict;
      after.returns += event == StageEvent::finish || event == StageEvent::leave;
      after.ended_workers += !change.frees_worker;
      after.replaced += event == StageEvent::replace_worker;
      after.begun = after.begun || event == StageEvent::begin;
      if (seen.insert(after).second) next.push_back(after);
    }
    CHECK(goes_on != has_ended(way.stage));
  }
  CHECK(reached.size() == kStages);
}

TEST_CASE("settling: each event in each state") {
  const std::array<std::string, kSettlings> names{"held", "waiting",    "refused", "unanswered", "unanswered_refused",
                                                  "sent", "sent_again", "settled", "stale",      "in_doubt"};
  using Row = std::array<const char*, kSettlingEvents>;
  // decide, send, lose_answer, refuse, confirm, find_gone, find_moved, find_taken; "!": impossible
  const Row end{"!", "!", "!", "!", "!", "!", "!", "!"};
  const std::array<Row, kSettlings> expected{{
      {"waiting", "!", "!", "!", "!", "!", "!", "!"},
      {"!", "sent", "!", "!", "!", "!", "!", "!"},
      {"!", "sent", "!", "!", "!", "!", "!", "!"},
      {"!", "sent_again", "!", "!", "!", "!", "!", "!"},
      {"!", "sent_again", "!", "!", "!", "!", "!", "!"},
      {"!", "!", "unanswered", "refused", "settled", "stale", "stale", "stale"},
      {"!", "!", "unanswered", "unanswered_refused", "settled", "settled", "in_doubt", "stale"},
      end,
      end,
      end,
  }};
  for (std::size_t state = 0; state < kSettlings; ++state) {
    for (std::size_t event = 0; event < kSettlingEvents; ++event) {
      CAPTURE(names[state]);
      CAPTURE(event);
      const auto next = settling_after(static_cast<Settling>(state), static_cast<SettlingEvent>(event));
      CHECK((next ? names[static_cast<std::size_t>(*next)] : "!") == expected[state][event]);
    }
  }
}

// A model of Redis: a request settles the message unless an earlier one has, or its lease has ended.
TEST_CASE("settling: after any answers it is never settled without a request that Redis has executed") {
  struct Sent {
    Settling state;
    bool executed, ended;  // a request; the lease
  };
  for (const bool ack : {true, false}) {
    std::vector<Sent> next{{Settling::waiting, false, false}};
    std::set<std::tuple<Settling, bool, bool>> seen;
    const auto go = [&](const Sent& way) {
      if (seen.insert({way.state, way.executed, way.ended}).second) next.push_back(way);
    };
    while (!next.empty()) {
      Sent way = next.back();
      next.pop_back();
      if (way.state == Settling::settled) CHECK(way.executed);
      if (way.state == Settling::stale) CHECK_FALSE(way.executed);
      const auto after = [&](SettlingEvent event, bool executed) {
        const auto state = settling_after(way.state, event);
        REQUIRE(state.has_value());
        go({*state, executed, way.ended});
      };
      if (!way.ended && !way.executed) go({way.state, way.executed, true});
      if (settling_after(way.state, SettlingEvent::send)) after(SettlingEvent::send, way.executed);
      if (!settling_after(way.state, SettlingEvent::confirm)) continue;
      const bool executes = !way.executed && !way.ended;
      after(SettlingEvent::lose_answer, way.executed);  // before Redis has read it
      after(SettlingEvent::lose_answer, way.executed || executes);
      after(SettlingEvent::refuse, way.executed);
      if (executes) {
        after(SettlingEvent::confirm, true);
      } else if (!ack) {
        after(SettlingEvent::find_moved, way.executed);
      } else {
        after(way.executed ? SettlingEvent::find_gone : SettlingEvent::find_taken, way.executed);
      }
    }
    CHECK(seen.count({Settling::settled, true, false}) == 1);
    CHECK(seen.count({Settling::stale, false, true}) == 1);
  }
}

}  // namespace
}  // namespace delayqueue
