#include "schedules/definition.h"

#include "redis/escaped.h"
#include "schedules/schedule.h"
#include "store/record.h"
#include "store/schedules.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace delayqueue::schedules {
namespace {

using std::chrono::system_clock;

constexpr std::string_view kPayload = "payload=";  // begins the last line: all that follows is the payload

bool is_plain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 32 && byte != 127 && c != '%';
}

// Bytes that would end a line, or that an operator could not read, as %XX.
std::string encoded(std::string_view value) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string text;
  for (const char c : value) {
    if (is_plain(c)) {
      text += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      text.append({'%', kDigits[byte / 16], kDigits[byte % 16]});
    }
  }
  return text;
}

[[noreturn]] void refuse_definition(const std::string& what) {
  throw std::invalid_argument("the stored definition: " + what + "; it may be of a later version");
}

std::string decoded(std::string_view value) {
  std::string text;
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (value[i] != '%') {
      if (!is_plain(value[i])) refuse_definition("a control character");
      text += value[i];
      continue;
    }
    unsigned byte = 0;
    const char* const begin = value.data() + i + 1;
    if (i + 2 >= value.size() || std::from_chars(begin, begin + 2, byte, 16).ptr != begin + 2)
      refuse_definition("a wrong %XX");
    text += static_cast<char>(byte);
    i += 2;
  }
  return text;
}

// A number as to_string() writes it.
std::int64_t stored_number(const std::string& key, std::string_view value) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size()) {
    refuse_definition(key + "=" + redis::escaped(value.substr(0, 40)) + " is no number");
  }
  return number;
}

template <class Enum, std::size_t kCount>
Enum choice(const std::string& key, std::string_view value, const std::array<Enum, kCount>& all) {
  for (const Enum one : all) {
    if (value == to_string(one)) return one;
  }
  refuse_definition(key + "=" + redis::escaped(value.substr(0, 40)) + " is unknown");
}

void set_field(Schedule& schedule, const std::string& key, std::string_view value) {
  if (key == "cron") {
    schedule.cron = decoded(value);
  } else if (key == "zone") {
    schedule.zone = decoded(value);
  } else if (key == "every") {
    schedule.every = milliseconds(stored_number(key, value));
  } else if (key == "retries") {
    const std::int64_t retries = stored_number(key, value);
    if (retries < 0 || retries > std::numeric_limits<int>::max())
      refuse_definition("retries=" + std::to_string(retries));
    schedule.retries = static_cast<int>(retries);
  } else if (key == "ttl") {
    schedule.ttl = milliseconds(stored_number(key, value));
  } else if (key == "missed") {
    schedule.missed = choice(key, value, std::array{Missed::none, Missed::last, Missed::all});
  } else if (key == "overlap") {
    schedule.overlap = choice(key, value, std::array{Overlap::allow, Overlap::skip});
  } else if (key == "until") {
    const std::int64_t until = stored_number(key, value);
    if (until < 0 || until > store::kLatestUs / 1000) refuse_definition("until=" + std::to_string(until));
    schedule.until = system_clock::time_point(milliseconds(until));
  } else if (key == "header") {
    const std::size_t equals = value.find('=');
    if (equals == std::string_view::npos) refuse_definition("a header without a value");
    const std::string name(value.substr(0, equals));
    if (schedule.headers.find(name) != nullptr) refuse_definition("two headers " + redis::escaped(name));
    schedule.headers.set(name, decoded(value.substr(equals + 1)));
  } else {
    refuse_definition("the key " + redis::escaped(key.substr(0, 40)) + " is unknown");
  }
}

}  // namespace

std::string text_of(const Schedule& schedule) {
  std::string text;
  const auto add = [&](const char* key, const std::string& value) { text += key + ("=" + value) + "\n"; };
  if (!schedule.cron.empty()) {
    add("cron", encoded(schedule.cron));
    add("zone", encoded(schedule.zone));
  } else {
    add("every", std::to_string(schedule.every.count()));
  }
  // Also the defaults, which may be others in a later version.
  add("missed", to_string(schedule.missed));
  add("overlap", to_string(schedule.overlap));
  if (schedule.retries) add("retries", std::to_string(*schedule.retries));
  if (schedule.ttl) add("ttl", std::to_string(schedule.ttl->count()));
  if (schedule.until) {
    const auto until = std::chrono::floor<milliseconds>(schedule.until->time_since_epoch());
    add("until", std::to_string(until.count()));
  }
  for (const auto& [name, value] : schedule.headers) add("header", name + "=" + encoded(value));
  text.append(kPayload).append(schedule.payload);
  return text;
}

Definition definition_of(std::string_view text) {
  if (text.size() > store::kLongestScheduleText) refuse_definition(std::to_string(text.size()) + " bytes");
  Schedule schedule;
  std::set<std::string> seen;
  while (text.substr(0, kPayload.size()) != kPayload) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    const std::size_t equals = line.find('=');
    if (end == std::string_view::npos || equals == std::string_view::npos)
      refuse_definition("a line without \"=\", or no payload");
    const std::string key(line.substr(0, equals));
    if (key != "header" && !seen.insert(key).second)
      refuse_definition("two lines " + redis::escaped(key.substr(0, 40)));
    set_field(schedule, key, line.substr(equals + 1));
    text.remove_prefix(end + 1);
  }
  schedule.payload = text.substr(kPayload.size());
  Slots slots = checked(schedule);
  return {std::move(schedule), std::move(slots)};
}

}  // namespace delayqueue::schedules
