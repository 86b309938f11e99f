#include "parse.h"

#include <array>
#include <charconv>
#include <utility>

#include "exit.h"

namespace dqctl {
namespace {

constexpr long long kDay = 24LL * 3'600'000;
constexpr long long kLongestDuration = 36'525 * kDay;  // 100 years, in ms
constexpr int kFirstYear = 1970, kLastYear = 2199;     // as in the library; its clock would overflow after 2262

[[noreturn]] void wrong(const std::string& name, std::string_view text, const char* expected) {
  throw Usage(name + ": '" + printable(text) + "'; expected " + expected);
}

// Removes a number from the front of the text.
template <class Number>
std::optional<Number> take_number(std::string_view& text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, std::string_view word) {
  if (text.substr(0, word.size()) != word) return false;
  text.remove_prefix(word.size());
  return true;
}

// Removes exactly `count` digits from the front of the text.
std::optional<int> take_digits(std::string_view& text, std::size_t count) {
  if (text.size() < count) return std::nullopt;
  int number = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (text[i] < '0' || text[i] > '9') return std::nullopt;
    number = number * 10 + (text[i] - '0');
  }
  text.remove_prefix(count);
  return number;
}

std::optional<milliseconds> duration_of(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, long long>, 6> kUnits = {
      {{"w", 7 * kDay}, {"d", kDay}, {"h", 3'600'000}, {"ms", 1}, {"m", 60'000}, {"s", 1000}}};
  long long total = 0;
  long long last = kLongestDuration;
  if (text.empty()) return std::nullopt;
  while (!text.empty()) {
    const auto number = take_number<std::uint64_t>(text);
    if (!number) return std::nullopt;
    long long unit = 0;
    for (const auto& [word, ms] : kUnits) {
      if (unit == 0 && take(text, word)) unit = ms;
    }
    if (unit == 0 || unit >= last || *number > static_cast<std::uint64_t>(kLongestDuration / unit)) return std::nullopt;
    total += static_cast<long long>(*number) * unit;
    if (total > kLongestDuration) return std::nullopt;
    last = unit;
  }
  return milliseconds(total);
}

bool is_leap(int year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

long long days_before(int year, int month, int day) {  // since 1970-01-01
  static constexpr std::array<int, 12> kBefore = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
  const int past = year - 1;
  const long long of_years = 365LL * past + past / 4 - past / 100 + past / 400 - 719'162;
  return of_years + kBefore[static_cast<std::size_t>(month - 1)] + (month > 2 && is_leap(year) ? 1 : 0) + day - 1;
}

std::optional<long long> take_date(std::string_view& text) {  // in days
  static constexpr std::array<int, 12> kLengths = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const auto year = take_digits(text, 4);
  if (!year || !take(text, "-")) return std::nullopt;
  const auto month = take_digits(text, 2);
  if (!month || *month < 1 || *month > 12 || !take(text, "-")) return std::nullopt;
  const auto day = take_digits(text, 2);
  const int most = kLengths[static_cast<std::size_t>(*month - 1)] + (*month == 2 && is_leap(*year) ? 1 : 0);
  if (!day || *day < 1 || *day > most || *year < kFirstYear || *year > kLastYear) return std::nullopt;
  return days_before(*year, *month, *day);
}

// Two digits of a clock, less than `end`.
std::optional<int> take_part(std::string_view& text, int end) {
  const auto part = take_digits(text, 2);
  return part && *part < end ? part : std::nullopt;
}

std::optional<long long> take_fraction(std::string_view& text) {  // in microseconds, more digits are dropped
  if (!take(text, ".")) return 0;
  long long us = 0;
  std::size_t digits = 0;
  for (; !text.empty() && text.front() >= '0' && text.front() <= '9'; text.remove_prefix(1), ++digits) {
    if (digits < 6) us = us * 10 + (text.front() - '0');
  }
  if (digits == 0) return std::nullopt;
  for (; digits < 6; ++digits) us *= 10;
  return us;
}

std::optional<long long> take_clock(std::string_view& text) {  // in microseconds; 10:00 is 10:00:00
  const auto hours = take_part(text, 24);
  if (!hours || !take(text, ":")) return std::nullopt;
  const auto minutes = take_part(text, 60);
  if (!minutes) return std::nullopt;
  const long long us = (*hours * 60LL + *minutes) * 60'000'000;
  if (!take(text, ":")) return us;
  const auto seconds = take_part(text, 60);
  if (!seconds) return std::nullopt;
  const auto fraction = take_fraction(text);
  if (!fraction) return std::nullopt;
  return us + *seconds * 1'000'000LL + *fraction;
}

std::optional<long long> take_offset(std::string_view& text) {  // in seconds east of Greenwich
  if (take(text, "Z") || take(text, "z")) return 0;
  const bool west = take(text, "-");
  if (!west && !take(text, "+")) return std::nullopt;
  const auto hours = take_part(text, 24);
  if (!hours) return std::nullopt;
  const auto minutes = take(text, ":") || !text.empty() ? take_part(text, 60) : 0;  // +01:00, +0100 or +01
  if (!minutes) return std::nullopt;
  const long long offset = *hours * 3600LL + *minutes * 60LL;
  return west ? -offset : offset;
}

std::optional<Time> time_of(std::string_view text) {
  const auto days = take_date(text);
  if (!days || !(take(text, "T") || take(text, "t") || take(text, " "))) return std::nullopt;
  const auto clock = take_clock(text);
  if (!clock) return std::nullopt;
  const auto offset = take_offset(text);
  if (!offset || !text.empty()) return std::nullopt;
  const long long utc = *days * 86'400 + *clock / 1'000'000 - *offset;
  // The offset may move it out of range.
  if (utc < 0 || utc >= days_before(kLastYear + 1, 1, 1) * 86'400) return std::nullopt;
  return Time(std::chrono::seconds(utc) + std::chrono::microseconds(*clock % 1'000'000));
}

}  // namespace

milliseconds parse_duration(const std::string& name, std::string_view text) {
  if (const auto duration = duration_of(text)) return *duration;
  wrong(name, text, "a duration such as 250ms, 10s, 5m, 2h, 3d, 1w or 1h30m");
}

When parse_when(const std::string& name, std::string_view text) {
  When when;
  if (!text.empty() && text.front() == '+') {
    if (const auto delay = duration_of(text.substr(1))) {
      when.delay = *delay;
      return when;
    }
  } else if ((when.at = time_of(text))) {
    return when;
  }
  wrong(name, text, "a time from 1970 to 2199 such as 2026-11-21T19:36:45Z, 2026-11-21T20:36:45+01:00 or +10m");
}

double parse_rate(const std::string& name, std::string_view text) {
  std::string_view rest = text;
  const auto number = take_number<double>(rest);
  const double seconds = rest.empty() || rest == "/s" ? 1 : rest == "/m" ? 60 : rest == "/h" ? 3600 : 0;
  if (number && seconds > 0 && *number >= 1e-6 && *number < 1e9) return *number / seconds;
  wrong(name, text, "a rate such as 100/s, 6000/m or 10/h");
}

std::uint64_t parse_size(const std::string& name, std::string_view text) {
  std::string_view rest = text;
  const auto number = take_number<std::uint64_t>(rest);
  int shift = -1;
  static constexpr std::array<std::pair<std::string_view, int>, 11> kUnits = {{{"", 0},
                                                                               {"B", 0},
                                                                               {"k", 10},
                                                                               {"K", 10},
                                                                               {"KiB", 10},
                                                                               {"m", 20},
                                                                               {"M", 20},
                                                                               {"MiB", 20},
                                                                               {"g", 30},
                                                                               {"G", 30},
                                                                               {"GiB", 30}}};
  for (const auto& [word, bits] : kUnits) {
    if (rest == word) shift = bits;
  }
  if (number && shift >= 0 && *number <= (std::uint64_t{1} << 40 >> shift)) return *number << shift;
  wrong(name, text, "a size such as 512, 64k, 10M or 1G");
}

std::uint64_t parse_number(const std::string& name, std::string_view text, std::uint64_t least, std::uint64_t most) {
  std::string_view rest = text;
  const auto number = take_number<std::uint64_t>(rest);
  if (number && rest.empty() && *number >= least && *number <= most) return *number;
  wrong(name, text, ("a number from " + std::to_string(least) + " to " + std::to_string(most)).c_str());
}

delayqueue::State parse_state(const std::string& name, std::string_view text) {
  using delayqueue::State;
  for (const State state : {State::pending, State::ready, State::unack, State::retry, State::dead}) {
    if (text == delayqueue::to_string(state)) return state;
  }
  wrong(name, text, "pending, ready, unack, retry or dead");
}

bool matches_glob(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;  // the last *, and up to where it matches
  std::size_t taken = 0;
  while (t < text.size()) {
    const bool literal = p + 1 < pattern.size() && pattern[p] == '\\';
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = t;
    } else if (p < pattern.size() &&
               (literal ? pattern[p + 1] == text[t] : pattern[p] == '?' || pattern[p] == text[t])) {
      p += literal ? 2 : 1;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace dqctl
