#include "schedules/advancer.h"

#include "store/record.h"

#include <algorithm>
#include <exception>

namespace delayqueue::schedules {
namespace {

constexpr std::int64_t kFarAheadMs = 25LL * 3'600'000;  // hosts with other zone data disagree by less
constexpr std::size_t kMostBytesInCall = 256 * 1024;    // of payloads in one call
constexpr std::size_t kMostMadeUp = 100;                // of all missed ones

std::int64_t until_of(const Schedule& schedule) {
  if (!schedule.until) return store::kLatestUs / 1000;
  return std::chrono::floor<milliseconds>(schedule.until->time_since_epoch()).count();
}

// The slots after `slot` that have passed and are to be made up for, the earliest first. `any`: whether one has passed.
std::vector<std::int64_t> made_up(const Definition& definition, std::int64_t slot, std::int64_t now, bool& any) {
  const Schedule& schedule = definition.schedule;
  const std::int64_t end = std::min(now, until_of(schedule));
  const std::size_t most = schedule.missed == Missed::all ? kMostMadeUp : 1;
  std::vector<std::int64_t> slots = definition.slots.last(slot, end, most);
  any = !slots.empty();
  if (schedule.missed == Missed::none) return {};
  // One whose TTL is over would only be removed.
  if (schedule.ttl) {
    const auto is_over = [&](std::int64_t one) { return one + schedule.ttl->count() <= now; };
    slots.erase(std::remove_if(slots.begin(), slots.end(), is_over), slots.end());
  }
  return slots;
}

void fill(PlannedAdvance& planned, std::optional<std::int64_t> slot, std::int64_t now) {
  store::Advance& call = planned.call;
  bool any_missed = false;
  if (slot) call.occurrences.slots_ms = made_up(planned.definition, *slot, now, any_missed);
  call.takes_back = any_missed && planned.definition.schedule.missed != Missed::all;
  call.stays = any_missed && !call.takes_back;
  std::vector<std::int64_t>& slots = call.occurrences.slots_ms;
  const std::size_t size = std::max<std::size_t>(planned.definition.schedule.payload.size(), 1);
  const std::size_t most = std::clamp<std::size_t>(kMostBytesInCall / size, 1, store::kMostOccurrences - 1);
  planned.is_part = slots.size() > most;
  if (planned.is_part) {
    slots.resize(most);
  } else if (const auto next = next_slot(planned.definition, now)) {
    slots.push_back(*next);
  } else {
    return;  // it has ended
  }
  call.last_ms = slots.back();
}

}  // namespace

store::Occurrences occurrences_of(const Schedule& schedule) {
  store::Occurrences occurrences;
  occurrences.payload = schedule.payload;
  occurrences.headers = &schedule.headers;
  occurrences.retries = schedule.retries.value_or(occurrences.retries);
  occurrences.ttl = schedule.ttl.value_or(milliseconds(0));
  occurrences.skips = schedule.overlap == Overlap::skip;
  return occurrences;
}

std::optional<std::int64_t> next_slot(const Definition& definition, std::int64_t after_ms) {
  const auto next = definition.slots.next(after_ms);
  return next && *next <= until_of(definition.schedule) ? next : std::nullopt;
}

Advancer::Plan Advancer::plan(const store::ReadSchedules& found) {
  const std::int64_t now = found.now_us / 1000;
  Plan plan;
  plan.look_again = found.more;
  for (const store::StoredSchedule& stored : found.schedules) {
    const auto planned = read(stored, "active");
    if (!planned) {
      if (plan.calls.empty()) ++offset_;  // broken ones at the head stay there
      continue;
    }
    fill(*planned, stored.slot_ms, now);
    plan.look_again = plan.look_again || planned->is_part;
    plan.calls.push_back(planned);
  }
  return plan;
}

std::vector<PlannedAdvancePtr> Advancer::repair(const store::ReadSchedules& some) {
  const std::int64_t now = some.now_us / 1000;
  std::vector<PlannedAdvancePtr> calls;
  for (const store::StoredSchedule& stored : some.schedules) {
    if (store::parsed_schedule(stored.text).state != "active") continue;
    const auto planned = read(stored, "active");
    if (!planned) continue;
    if (!stored.slot_ms) {
      fill(*planned, std::nullopt, now);
    } else {
      const auto next = next_slot(planned->definition, now);
      if (!next || *stored.slot_ms <= *next + kFarAheadMs) continue;
      planned->call.is_ahead = true;
      planned->call.occurrences.slots_ms = {*next};
      planned->call.last_ms = next;
    }
    calls.push_back(planned);
  }
  return calls;
}

// Null: it cannot be advanced.
std::shared_ptr<PlannedAdvance> Advancer::read(const store::StoredSchedule& stored, std::string_view expected_state) {
  const store::ScheduleText text = store::parsed_schedule(stored.text);
  if (broken_.count({stored.name, text.generation}) > 0) return nullptr;
  if (text.generation == 0) {
    report(stored, 0, "its stored text cannot be read");
    return nullptr;
  }
  if (text.state != expected_state) {
    report(stored, text.generation, "it has a slot, and is not active");
    return nullptr;
  }
  try {
    auto planned = std::make_shared<PlannedAdvance>(stored.name, definition_of(text.definition));
    planned->call.name = planned->name;
    planned->call.generation = text.generation;
    planned->call.slot_ms = stored.slot_ms;
    planned->call.occurrences = occurrences_of(planned->definition.schedule);
    return planned;
  } catch (const std::exception& e) {
    report(stored, text.generation, e.what());
    return nullptr;
  }
}

void Advancer::report(const store::StoredSchedule& stored, std::int64_t generation, const std::string& why) {
  if (broken_.size() == kMostBroken) return;
  broken_.emplace(stored.name, generation);
  warn_(stored.name, why);
}

}  // namespace delayqueue::schedules
