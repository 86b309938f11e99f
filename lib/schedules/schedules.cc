#include <delayqueue/schedules.h>

#include "queue/option_checks.h"
#include "queue/shared_connection.h"
#include "queue/utf8.h"
#include "redis/escaped.h"
#include "schedules/advancer.h"
#include "schedules/schedule.h"
#include "store/record.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

namespace delayqueue {
namespace {

using schedules::Advancer;
using schedules::Definition;
using schedules::definition_of;
using schedules::PlannedAdvancePtr;

constexpr int kMostAttempts = 10;
constexpr std::size_t kReadTogether = 10;  // definitions in one answer
constexpr std::size_t kNamesScanned = 100;

void check_schedule_name(const std::string& name) {
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument("name \"" + redis::escaped(name.substr(0, 2 * store::kLongestScheduleName)) +
                                "\": " + why + "; expected 1 to " + std::to_string(store::kLongestScheduleName) +
                                " bytes of UTF-8 without control characters, not beginning with \"-\"");
  };
  if (name.empty() || name.size() > store::kLongestScheduleName) refuse(std::to_string(name.size()) + " bytes");
  if (name.front() == '-') refuse("it begins with \"-\"");
  for (std::string_view rest = name; !rest.empty();) {
    const Character next = first_character(rest);
    if (next.length == 0) refuse("it is no UTF-8");
    if (is_control(next.code)) refuse("it has a control character");
    rest.remove_prefix(next.length);
  }
}

std::optional<ScheduleState> schedule_state_of(std::string_view text) {
  for (const ScheduleState state : {ScheduleState::active, ScheduleState::paused, ScheduleState::ended}) {
    if (text == to_string(state)) return state;
  }
  return std::nullopt;
}

ScheduleInfo schedule_info_of(const store::Keys& keys, const store::StoredSchedule& stored, std::int64_t now_us) {
  ScheduleInfo info;
  info.name = stored.name;
  const store::ScheduleText text = store::parsed_schedule(stored.text);
  const auto state = schedule_state_of(text.state);
  info.state = state.value_or(ScheduleState::active);
  if (text.generation == 0 || !state) {
    info.problem = "the stored text cannot be read; it may be of a later version, or of another program";
  } else {
    try {
      info.schedule = definition_of(text.definition).schedule;
    } catch (const std::exception& e) {
      info.problem = e.what();
    }
  }
  if (stored.slot_ms && info.state == ScheduleState::active) {
    info.next = store::from_us(*stored.slot_ms * 1000);
    info.next_id = store::occurrence_id(keys, stored.name, *stored.slot_ms);
    info.behind = std::max(milliseconds(0), milliseconds(now_us / 1000 - *stored.slot_ms));
  }
  return info;
}

}  // namespace

const char* DELAYQUEUE_ABI::to_string(ScheduleState state) {
  switch (state) {
    case ScheduleState::active:
      return "active";
    case ScheduleState::paused:
      return "paused";
    case ScheduleState::ended:
      return "ended";
  }
  return "unknown";
}

const char* DELAYQUEUE_ABI::to_string(SetResult result) {
  switch (result) {
    case SetResult::created:
      return "created";
    case SetResult::changed:
      return "changed";
    case SetResult::unchanged:
      return "unchanged";
  }
  return "unknown";
}

class Schedules::Impl {
 public:
  Impl(const Client& client, const std::string& queue) : home_(client, queue, {}, RegisterQueue::if_exists) {}

  SharedConnection& home() { return home_; }
  const store::Moves& moves() const { return home_.moves(); }

  store::ReadSchedules read(const std::vector<std::string>& names) {
    return home_.ask([&](redis::Pipeline& pipeline) { return moves().read_schedules(pipeline, names); });
  }

  // Repeats the change until no other caller comes between. `prepare(change, definition, now)` adds what it needs.
  // Returns the outcome, and whether there was such a schedule.
  template <class Prepare>
  std::pair<char, bool> change(const std::string& name, store::ScheduleMode mode, Prepare prepare) {
    check_schedule_name(name);
    for (int i = 0; i < kMostAttempts; ++i) {
      const store::ReadSchedules found = read({name});
      if (found.schedules.empty()) throw ReplyError("unexpected answer: no schedule");
      const store::StoredSchedule& stored = found.schedules.front();
      const store::ScheduleText text = store::parsed_schedule(stored.text);
      store::ScheduleChange wanted;
      wanted.name = name;
      wanted.mode = mode;
      wanted.generation = text.generation;
      wanted.slot_ms = stored.slot_ms;
      prepare(wanted, text, found.now_us / 1000);
      const store::ScheduleChanged changed =
          home_.ask([&](redis::Pipeline& pipeline) { return moves().schedule(pipeline, wanted); });
      if (changed.outcome != 'c') return {changed.outcome, !stored.text.empty()};
    }
    throw ConnectionError("schedule \"" + redis::escaped(name) + "\": other callers have changed it " +
                          std::to_string(kMostAttempts) + " times meanwhile; call again");
  }
  bool change(const std::string& name, store::ScheduleMode mode) {
    return change(name, mode, [](auto&&...) {}).first != 'g';
  }

  std::vector<std::string> names() {
    std::set<std::string> names;
    std::string cursor = "0";
    do {
      home_.with_connection([&](redis::Connection& connection) {
        redis::Pipeline pipeline(connection);
        pipeline.command("HSCAN").key(moves().keys().schedules).arg(cursor).arg("COUNT").arg(kNamesScanned);
        pipeline.run();
        const redis::Reply reply = pipeline.reply(0);
        cursor = reply[0].text();
        for (std::size_t i = 0; i + 1 < reply[1].size(); i += 2) {
          const std::string_view name = reply[1][i].text();
          if (name.size() <= store::kLongestScheduleName) names.emplace(name);
        }
      });
    } while (cursor != "0");
    return {names.begin(), names.end()};
  }

 private:
  SharedConnection home_;
};

Schedules::Schedules(const Client& client, const QueueName& queue)
    : impl_("Schedules", std::make_unique<Impl>(client, queue.str())) {}
Schedules::~Schedules() = default;
Schedules::Schedules(Schedules&&) noexcept = default;
Schedules& Schedules::operator=(Schedules&&) noexcept = default;

SetResult Schedules::set(const std::string& name, const Schedule& schedule) {
  Endpoint& endpoint = impl_->home().endpoint();
  check_new_queue(endpoint.queue(), endpoint.prefix());
  const Definition definition{schedule, schedules::checked(schedule)};
  const std::string text = schedules::text_of(schedule);
  const auto [outcome, existed] =
      impl_->change(name, store::ScheduleMode::set, [&](store::ScheduleChange& wanted, const auto&, std::int64_t now) {
        wanted.definition = text;
        wanted.occurrences = schedules::occurrences_of(definition.schedule);
        if (const auto first = schedules::next_slot(definition, now)) wanted.occurrences.slots_ms = {*first};
      });
  if (outcome == 'f') {
    throw std::invalid_argument("schedule \"" + redis::escaped(name) + "\": the queue has " +
                                std::to_string(store::kMostSchedules) + " schedules already; remove some");
  }
  if (outcome == 's') return SetResult::unchanged;
  impl_->home().with_connection([&](redis::Connection& connection) { endpoint.register_queue(connection); });
  return existed ? SetResult::changed : SetResult::created;
}

bool Schedules::remove(const std::string& name) { return impl_->change(name, store::ScheduleMode::remove); }

bool Schedules::pause(const std::string& name) { return impl_->change(name, store::ScheduleMode::pause); }

bool Schedules::resume(const std::string& name) {
  std::optional<Definition> definition;
  const auto prepare = [&](store::ScheduleChange& wanted, const store::ScheduleText& text, std::int64_t now) {
    if (text.generation == 0) return;
    definition.emplace(definition_of(text.definition));
    wanted.occurrences = schedules::occurrences_of(definition->schedule);
    if (const auto first = schedules::next_slot(*definition, now)) wanted.occurrences.slots_ms = {*first};
  };
  return impl_->change(name, store::ScheduleMode::resume, prepare).first != 'g';
}

std::optional<ScheduleInfo> Schedules::find(const std::string& name) {
  check_schedule_name(name);
  const store::ReadSchedules found = impl_->read({name});
  if (found.schedules.empty() || found.schedules.front().text.empty()) return std::nullopt;
  return schedule_info_of(impl_->moves().keys(), found.schedules.front(), found.now_us);
}

std::vector<ScheduleInfo> Schedules::list() {
  std::vector<ScheduleInfo> all;
  const std::vector<std::string> names = impl_->names();
  for (std::size_t first = 0; first < names.size(); first += kReadTogether) {
    const std::size_t end = std::min(first + kReadTogether, names.size());
    const auto begin = names.begin() + static_cast<std::ptrdiff_t>(first);
    const store::ReadSchedules found = impl_->read({begin, begin + static_cast<std::ptrdiff_t>(end - first)});
    for (const store::StoredSchedule& stored : found.schedules) {
      all.push_back(schedule_info_of(impl_->moves().keys(), stored, found.now_us));
    }
  }
  return all;
}

std::size_t Schedules::advance() {
  Advancer advancer([](const std::string&, const std::string&) {});  // list() shows the problem
  std::size_t stored = 0;
  while (true) {
    const store::ReadSchedules found = impl_->home().ask([&](redis::Pipeline& pipeline) {
      return impl_->moves().due_schedules(pipeline, Advancer::kMostInLook, advancer.offset());
    });
    const Advancer::Plan plan = advancer.plan(found);
    for (const PlannedAdvancePtr& planned : plan.calls) {
      stored += impl_->home()
                    .ask([&](redis::Pipeline& pipeline) { return impl_->moves().advance(pipeline, planned->call); })
                    .stored;
    }
    if (!plan.look_again) return stored;
  }
}

}  // namespace delayqueue
