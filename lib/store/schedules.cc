#include "store/schedules.h"

#include "store/headers.h"
#include "store/record.h"

#include <algorithm>
#include <charconv>

namespace delayqueue::store {
namespace {

constexpr std::string_view kNameSpace = "9b8c1f0e-52d7-4a64-9a3b-71c40e6f2d15";  // of the ids of occurrences
constexpr std::size_t kVersionAt = 14;                                           // in a UUID

}  // namespace

std::string occurrence_id(const Keys& keys, std::string_view name, std::int64_t slot_ms) {
  std::string_view base = keys.base;
  if (base.size() > 2 && base.front() == '{' && base.back() == '}') base = base.substr(1, base.size() - 2);
  std::string text(base);
  text.append("\n").append(name).append("\n").append(std::to_string(slot_ms));
  return id_of_name(bytes_of(kNameSpace).value(), text);
}

std::string occurrence_headers(const Occurrences& occurrences, std::string_view name, std::int64_t slot_ms) {
  std::vector<std::pair<std::string, std::string>> own{{kScheduleHeader, std::string(name)},
                                                       {kSlotHeader, std::to_string(slot_ms)}};
  if (occurrences.skips) own.emplace_back(kOverlapHeader, "skip");
  return (occurrences.headers != nullptr ? packed(*occurrences.headers) : std::string()) + packed_own(own);
}

std::optional<OccurrenceNames> occurrence_of(const Headers& headers) {
  const std::string* const name = headers.find(kScheduleHeader);
  const std::string* const slot = headers.find(kSlotHeader);
  if (name == nullptr || slot == nullptr || name->empty() || name->size() > kLongestScheduleName) return std::nullopt;
  OccurrenceNames names{*name, -1, false};
  const auto [end, error] = std::from_chars(slot->data(), slot->data() + slot->size(), names.slot_ms);
  const bool is_slot = error == std::errc() && end == slot->data() + slot->size();
  if (!is_slot || names.slot_ms < 0 || names.slot_ms > kLatestUs / 1000) return std::nullopt;
  const std::string* const overlap = headers.find(kOverlapHeader);
  names.skips = overlap != nullptr && *overlap == "skip";
  return names;
}

// As read_schedule of scripts/lua/include/schedules.lua.
ScheduleText parsed_schedule(std::string_view text) {
  constexpr std::size_t kMostDigits = 16, kLongestHead = 40;
  constexpr std::int64_t kEnd = std::int64_t{1} << 53;
  const std::size_t line = text.substr(0, kLongestHead).find('\n');
  const std::size_t space = text.substr(0, kLongestHead).find(' ');
  if (line == std::string_view::npos || space >= line || space > kMostDigits) return {};
  std::int64_t generation = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + space, generation);
  const std::string_view state = text.substr(space + 1, line - space - 1);
  const bool is_state =
      !state.empty() && std::all_of(state.begin(), state.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  if (error != std::errc() || end != text.data() + space || generation < 0 || generation >= kEnd || !is_state)
    return {};
  return {generation, state, text.substr(line + 1)};
}

bool may_be_occurrence(std::string_view id) { return id.size() == kIdLength && id[kVersionAt] == '5'; }

}  // namespace delayqueue::store
