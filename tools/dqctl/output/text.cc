#include "output/text.h"

#include <time.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <utility>

namespace dqctl {
namespace {

// The first UTF-8 character of a text: its length and code point. Length 0: not UTF-8.
struct Character {
  std::size_t length = 0;
  utf8proc_int32_t code = 0;
};

unsigned byte_at(std::string_view bytes, std::size_t i) { return static_cast<unsigned char>(bytes[i]); }

Character front(std::string_view bytes) {
  Character out;
  const auto* begin = reinterpret_cast<const utf8proc_uint8_t*>(bytes.data());
  const auto length = utf8proc_iterate(begin, static_cast<utf8proc_ssize_t>(bytes.size()), &out.code);
  out.length = static_cast<std::size_t>(std::max<utf8proc_ssize_t>(length, 0));
  return out;
}

// Unsafe on a terminal: control characters, line separators, direction marks, invisible characters.
bool is_unsafe(utf8proc_int32_t code) {
  const auto between = [code](utf8proc_int32_t first, utf8proc_int32_t last) { return code >= first && code <= last; };
  if (between(0xFE00, 0xFE0F)) return false;  // they choose between the emoji and the text form of a character
  // Annotations, and places where Unicode has reserved room for invisible characters.
  if (between(0xFFF9, 0xFFFB) || code == 0x2065 || between(0xE0000, 0xE0FFF)) return true;
  const utf8proc_property_t* property = utf8proc_get_property(code);
  return property->ignorable || property->category == UTF8PROC_CATEGORY_CC ||
         property->category == UTF8PROC_CATEGORY_ZL || property->category == UTF8PROC_CATEGORY_ZP;
}

std::size_t width_of(utf8proc_int32_t code) {
  // Terminals give a column to marks such as the vowels of Indian scripts.
  const int width = utf8proc_category(code) == UTF8PROC_CATEGORY_MC ? 1 : utf8proc_charwidth(code);
  return static_cast<std::size_t>(width);
}

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[80];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

std::string escaped(utf8proc_int32_t code) {
  switch (code) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return code < 0x80 ? format("\\x%02x", static_cast<unsigned>(code))
                         : format("\\u%04x", static_cast<unsigned>(code));
  }
}

// In $'...'. Escapes have three octal digits, so a digit after one is not part of it.
std::string dollar_quotes(std::string_view bytes) {
  std::string out = "$'";
  while (!bytes.empty()) {
    const Character next = front(bytes);
    const std::string_view part = bytes.substr(0, std::max<std::size_t>(next.length, 1));
    bytes.remove_prefix(part.size());
    if (part == "'" || part == "\\") {
      out += '\\' + std::string(part);
    } else if (part == "\n" || part == "\r" || part == "\t") {
      out += escaped(next.code);
    } else if (next.length == 0 || is_unsafe(next.code)) {
      for (std::size_t i = 0; i < part.size(); ++i) out += format("\\%03o", byte_at(part, i));
    } else {
      out += part;
    }
  }
  return out + '\'';
}

}  // namespace

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const Character next = front(bytes);
    if (next.length == 0) return false;
    bytes.remove_prefix(next.length);
  }
  return true;
}

std::string printable(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const Character next = front(bytes);
    if (next.length == 0) {
      out += format("\\x%02x", byte_at(bytes, 0));
      bytes.remove_prefix(1);
      continue;
    }
    out += is_unsafe(next.code) ? escaped(next.code) : std::string(bytes.substr(0, next.length));
    bytes.remove_prefix(next.length);
  }
  return out;
}

std::string in_quotes(std::string_view bytes) {
  if (printable(bytes) != bytes) return dollar_quotes(bytes);
  const bool plain = std::all_of(bytes.begin(), bytes.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("_-+=:,./@%").find(c) != std::string_view::npos;
  });
  if (plain && !bytes.empty() && bytes.front() != '=') return std::string(bytes);  // zsh expands =name
  std::string out = "'";
  for (const char c : bytes) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + '\'';
}

bool is_plain_name(std::string_view name) { return !name.empty() && name.front() != '-' && printable(name) == name; }

std::string command_text(const std::string& command, const std::vector<std::string_view>& arguments,
                         const std::string& options) {
  const bool like_options = std::any_of(arguments.begin(), arguments.end(),
                                        [](std::string_view argument) { return argument.substr(0, 1) == "-"; });
  std::string words;
  for (const std::string_view argument : arguments) words += ' ' + in_quotes(argument);
  const std::string spaced = options.empty() ? "" : ' ' + options;
  return "dqctl " + command + (like_options ? spaced + " --" + words : words + spaced);
}

std::string id_text(std::string_view id) {
  constexpr std::size_t kWidest = 64;
  return cut(printable(id), kWidest);
}

std::string json_escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto ascii =
        std::find_if(text.begin(), text.end(), [](char c) { return static_cast<signed char>(c) < 0 || c == 0x7F; });
    out.append(text.begin(), ascii);
    text.remove_prefix(static_cast<std::size_t>(ascii - text.begin()));
    if (text.empty()) break;
    const Character next = front(text);
    if (next.length == 0) {
      out += "\\ufffd";
    } else if (!is_unsafe(next.code)) {
      out += text.substr(0, next.length);
    } else if (next.code > 0xFFFF) {  // as a surrogate pair
      out += escaped(0xD800 + ((next.code - 0x10000) >> 10)) + escaped(0xDC00 + ((next.code - 0x10000) & 0x3FF));
    } else {
      out += format("\\u%04x", static_cast<unsigned>(next.code));
    }
    text.remove_prefix(std::max<std::size_t>(next.length, 1));
  }
  return out;
}

std::size_t width_of(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const Character next = front(text);
    width += next.length == 0 ? 1 : width_of(next.code);
    text.remove_prefix(std::max<std::size_t>(next.length, 1));
  }
  return width;
}

std::string cut(std::string_view text, std::size_t width) {
  // Combining marks take no column, so bytes are limited as well: 100,000 marks on one character would be 200 KB.
  constexpr std::size_t kMostBytes = 16;  // per column
  const bool few = text.size() / kMostBytes <= width;
  if (few && width_of(text) <= width) return std::string(text);
  if (width == 0) return "";
  std::string_view rest = text;
  std::size_t used = 0;
  while (true) {
    const Character next = front(rest);
    const std::size_t more = next.length == 0 ? 1 : width_of(next.code);
    if (used + more > width - 1 || text.size() - rest.size() >= kMostBytes * width) break;
    used += more;
    rest.remove_prefix(std::max<std::size_t>(next.length, 1));
  }
  return std::string(text.substr(0, text.size() - rest.size())) + "…";
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  constexpr std::size_t kMostSteps = 20'000'000;  // about 50 ms; there may be 100,000 queues
  std::string best;
  std::size_t least = word.size() / 3 + 1;
  std::size_t steps = 0;
  if (word.size() > 100) return best;
  for (const std::string& candidate : known) {
    const std::size_t longer = std::max(word.size(), candidate.size()) - std::min(word.size(), candidate.size());
    if (longer >= least) continue;
    steps += word.size() * candidate.size();
    if (steps > kMostSteps) break;
    // Levenshtein's distance, where two swapped neighbours are one mistake. row[j]: the distance between the word so
    // far and the first j characters of the candidate.
    std::vector<std::size_t> before, last(candidate.size() + 1), row(candidate.size() + 1);
    std::iota(last.begin(), last.end(), std::size_t{0});
    for (std::size_t i = 1; i <= word.size(); ++i) {
      row[0] = i;
      for (std::size_t j = 1; j <= candidate.size(); ++j) {
        row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (word[i - 1] == candidate[j - 1] ? 0 : 1)});
        const bool swapped = i > 1 && j > 1 && word[i - 1] == candidate[j - 2] && word[i - 2] == candidate[j - 1];
        if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
      }
      before = last;
      std::swap(last, row);
    }
    if (last.back() >= least) continue;
    least = last.back();
    best = candidate;
  }
  return best;
}

std::string base64(std::string_view bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t there = std::min<std::size_t>(3, bytes.size() - i);
    unsigned group = 0;
    for (std::size_t j = 0; j < 3; ++j) group = group << 8 | (j < there ? byte_at(bytes, i + j) : 0);
    for (std::size_t j = 0; j < 4; ++j) out += j <= there ? kDigits[group >> (18 - 6 * j) & 0x3FU] : '=';
  }
  return out;
}

std::string hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += kDigits[byte >> 4];
    out += kDigits[byte & 0xFU];
  }
  return out;
}

milliseconds span_between(Time from, Time to) {
  return std::chrono::floor<milliseconds>(to.time_since_epoch()) -
         std::chrono::floor<milliseconds>(from.time_since_epoch());
}

milliseconds age_between(Time since, Time now) { return std::max(milliseconds(0), span_between(since, now)); }

std::string span_text(milliseconds span) {
  if (span.count() < 0) return '-' + span_text(-span);
  if (span.count() < 1000) return std::to_string(span.count()) + "ms";
  const std::array<std::pair<long long, const char*>, 4> units = {
      {{24LL * 3'600'000, "d"}, {3'600'000, "h"}, {60'000, "m"}, {1000, "s"}}};
  long long left = span.count();
  std::string out;
  for (std::size_t i = 0, shown = 0; i < units.size() && shown < 2; ++i) {
    const long long count = left / units[i].first;
    left %= units[i].first;
    if (count > 0) out += std::to_string(count) + units[i].second;
    if (count > 0 || shown > 0) ++shown;
  }
  return out;
}

std::string ago_text(Time when, Time now) {
  const milliseconds span = span_between(when, now);
  if (span.count() == 0) return "now";
  return span.count() > 0 ? span_text(span) + " ago" : "in " + span_text(-span);
}

std::string since_text(Time when, Time now) { return ago_text(std::min(when, now), now); }

std::string utc_text(Time when) {
  const auto ms = std::chrono::floor<milliseconds>(when.time_since_epoch()).count();
  const auto rest = static_cast<int>(((ms % 1000) + 1000) % 1000);
  const auto seconds = static_cast<time_t>((ms - rest) / 1000);
  tm parts{};
  if (::gmtime_r(&seconds, &parts) == nullptr) return "?";
  return format("%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                parts.tm_hour, parts.tm_min, parts.tm_sec, rest);
}

std::string local_text(Time when) {
  const auto seconds = static_cast<time_t>(std::chrono::floor<std::chrono::seconds>(when.time_since_epoch()).count());
  tm parts{};
  if (::localtime_r(&seconds, &parts) == nullptr) return "?";
  return format("%04d-%02d-%02d %02d:%02d:%02d", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour,
                parts.tm_min, parts.tm_sec);
}

std::string count_text(std::uint64_t count) {
  std::string digits = std::to_string(count);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string counted(std::uint64_t count, const std::string& noun) {
  return count_text(count) + ' ' + noun + (count == 1 ? "" : "s");
}

std::string counted(std::uint64_t count, const std::string& noun, const std::string& verb_of_one,
                    const std::string& verb_of_many) {
  return counted(count, noun) + ' ' + (count == 1 ? verb_of_one : verb_of_many);
}

std::string size_text(std::uint64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " B";
  const std::uint64_t tenths = bytes < 1024 * 1024 ? bytes * 10 / 1024 : bytes / 1024 * 10 / 1024;
  return std::to_string(tenths / 10) + '.' + std::to_string(tenths % 10) + (bytes < 1024 * 1024 ? " KiB" : " MiB");
}

}  // namespace dqctl
