#include "store/actions.h"

#include "store/queries.h"

#include <charconv>
#include <string_view>

namespace delayqueue::store {
namespace {

constexpr std::size_t kLongestWord = 32;
constexpr std::size_t kLongestName = 256;
constexpr std::size_t kLongestWhat = 1024;
constexpr std::size_t kMostDigitsOfTime = 16;  // up to the year 2286

// The text as one field: not empty, and without spaces.
std::string as_field(std::string_view text, std::size_t most) {
  std::string field(text.substr(0, most));
  for (char& c : field) {
    if (static_cast<unsigned char>(c) <= ' ') c = '_';
  }
  return field.empty() ? "-" : field;
}

// Removes the first field, and the space behind it. Unset: there is no space.
std::optional<std::string_view> take_field(std::string_view& rest) {
  const std::size_t end = rest.find(' ');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view field = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  return field;
}

template <class Number>
std::optional<Number> as_number(std::string_view text) {
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (text.empty() || error != std::errc() || stop != end || text.front() == '-') return std::nullopt;
  return number;
}

ActionEntry as_action(std::string_view element) {
  ActionEntry entry;
  entry.what = element.substr(0, kLongestWhat);
  std::string_view rest = element;
  const auto time = take_field(rest), messages = take_field(rest), outcome = take_field(rest), who = take_field(rest);
  if (!who || time->size() > kMostDigitsOfTime) return entry;
  const auto at_us = as_number<std::int64_t>(*time);
  const bool counted = is_total(*messages);
  if (!at_us || (!counted && *messages != "-")) return entry;
  entry.at_us = at_us;
  if (counted) entry.messages = as_number<std::uint64_t>(*messages);
  entry.outcome = outcome->substr(0, kLongestWord);
  entry.who = who->substr(0, kLongestName);
  entry.what = rest.substr(0, kLongestWhat);
  return entry;
}

std::vector<ActionEntry> as_actions(redis::Reply reply) {
  std::vector<ActionEntry> entries;
  for (std::size_t i = 0; i < reply.size() && i < kMostActions; ++i) entries.push_back(as_action(reply[i].text()));
  return entries;
}

}  // namespace

Answer<bool> add_action(Pipeline& pipeline, const Keys& keys, const ActionEntry& entry) {
  const std::string messages = entry.messages ? std::to_string(*entry.messages) : "-";
  const std::string element = std::to_string(entry.at_us.value_or(0)) + ' ' + messages + ' ' +
                              as_field(entry.outcome, kLongestWord) + ' ' + as_field(entry.who, kLongestName) + ' ' +
                              entry.what.substr(0, kLongestWhat);
  pipeline.command("LPUSH").key(keys.actions).arg(element);
  const Answer<bool> added{pipeline, [](redis::Reply reply) { return reply.integer() > 0; }};
  pipeline.command("LTRIM").key(keys.actions).arg(0).arg(kMostActions - 1);
  return added;
}

Answer<std::vector<ActionEntry>> read_actions(Pipeline& pipeline, const Keys& keys) {
  pipeline.command("LRANGE").key(keys.actions).arg(0).arg(kMostActions - 1);
  return {pipeline, as_actions};
}

}  // namespace delayqueue::store
