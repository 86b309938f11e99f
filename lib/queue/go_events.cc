#include "queue/go_events.h"

#include <charconv>
#include <limits>

namespace delayqueue {
namespace {

using std::chrono::seconds;
using std::chrono::system_clock;

std::optional<std::int64_t> take_number(std::string_view& text, char end) {
  std::int64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  if (end == '\0') return text.empty() ? std::optional(number) : std::nullopt;
  if (text.empty() || text.front() != end) return std::nullopt;
  text.remove_prefix(1);
  return number;
}

}  // namespace

std::string encode_event(EventKind kind, system_clock::time_point at, std::size_t count) {
  const auto unix_seconds = std::chrono::duration_cast<seconds>(at.time_since_epoch()).count();
  return std::to_string(static_cast<int>(kind)) + ' ' + std::to_string(unix_seconds) + ' ' + std::to_string(count);
}

std::optional<Event> decode_event(std::string_view text) {
  constexpr std::int64_t kLatest = std::chrono::duration_cast<seconds>(system_clock::duration::max()).count();
  const auto code = take_number(text, ' ');
  const auto at = code ? take_number(text, ' ') : std::nullopt;
  const auto count = at ? take_number(text, '\0') : std::nullopt;
  if (!count || *code < 1 || *code > 7 || *at > kLatest) return std::nullopt;
  return Event{
      static_cast<EventKind>(*code), system_clock::time_point(seconds(*at)), static_cast<std::size_t>(*count), {}};
}

void publish_event(redis::Pipeline& pipeline, const std::string& channel, EventKind kind, std::size_t count) {
  pipeline.command("PUBLISH").key(channel).arg(encode_event(kind, system_clock::now(), count));
}

}  // namespace delayqueue
