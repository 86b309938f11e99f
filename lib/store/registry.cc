#include "store/registry.h"

#include "store/queries.h"
#include "store/record.h"
#include "store/replies.h"
#include "store/script_calls.h"

#include <algorithm>
#include <charconv>

namespace delayqueue::store {
namespace {

constexpr std::string_view kHexDigits = "0123456789ABCDEF";

// A text in one line: control characters and % become %XX.
void add_line(std::string& lines, const char* key, std::string_view text) {
  lines += key;
  lines += '=';
  for (const char c : cut(text)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7F && c != '%') {
      lines += c;
    } else {
      lines += {'%', kHexDigits[byte / 16], kHexDigits[byte % 16]};
    }
  }
  lines += '\n';
}

void add_line(std::string& lines, const char* key, std::uint64_t number) {
  lines += key + ('=' + std::to_string(number)) + '\n';
}

bool read_name(std::string_view text, std::string& name) {
  name.clear();
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7F) return false;
    if (text[i] != '%') {
      name += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return false;
    const std::size_t high = kHexDigits.find(text[i + 1]), low = kHexDigits.find(text[i + 2]);
    if (high == std::string_view::npos || low == std::string_view::npos) return false;
    name += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return name.size() <= kLongestName;
}

bool read_number(std::string_view text, std::uint64_t& number) {
  return is_total(text) && std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc();
}

// A time of Redis in us.
bool read_time(std::string_view text, std::int64_t& us) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) return false;
  return std::from_chars(text.data(), text.data() + text.size(), us).ec == std::errc() && us <= kLatestUs;
}

// "<id> <ms>"
bool read_running(std::string_view text, std::vector<RunningEntry>& all) {
  std::uint64_t ms = 0;
  if (text.size() <= kIdLength || text[kIdLength] != ' ' || !is_id(text.substr(0, kIdLength)) ||
      !read_number(text.substr(kIdLength + 1), ms) || all.size() == kMostRunning) {
    return false;
  }
  all.push_back({std::string(text.substr(0, kIdLength)), milliseconds(ms)});
  return true;
}

// "<id> <ms> <bytes>"
bool read_fetching(std::string_view text, std::vector<RunningEntry>& all) {
  const std::size_t space = std::min(text.rfind(' '), text.size());
  std::uint64_t bytes = 0;
  if (space == text.size() || !read_number(text.substr(space + 1), bytes)) return false;
  if (!read_running(text.substr(0, space), all)) return false;
  all.back().fetching = bytes;
  return true;
}

bool read_queue(std::string_view text, std::vector<std::string>& all) {
  return all.size() < kMostQueues && read_name(text, all.emplace_back());
}

// Lines of a later version, with other keys, are ignored.
bool read_line(std::string_view line, ConsumerEntry& entry) {
  const std::size_t equals = line.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view key = line.substr(0, equals), value = line.substr(equals + 1);
  if (key == "name") return read_name(value, entry.name);
  if (key == "host") return read_name(value, entry.host);
  if (key == "pid") return read_number(value, entry.pid);
  if (key == "version") return read_name(value, entry.version);
  if (key == "queue") return read_queue(value, entry.queues);
  if (key == "queues") return read_number(value, entry.queue_count);
  if (key == "busy") return read_number(value, entry.busy);
  if (key == "concurrency") return read_number(value, entry.concurrency);
  if (key == "in_flight") return read_number(value, entry.in_flight);
  if (key == "running") return read_running(value, entry.running);
  if (key == "fetching") return read_fetching(value, entry.running);
  return true;
}

// Removes and returns the first line.
std::string_view next_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

Answer<bool> add_call(Pipeline& pipeline, const Keys& keys, std::string_view consumer, std::string_view lines,
                      milliseconds valid) {
  calls::register_consumer call(pipeline, keys);
  call.args(arg::consumer(consumer), arg::lines(lines),
            arg::valid(std::clamp(valid, milliseconds(1), kLongestEntry).count()), arg::most(kMostConsumers));
  return {pipeline, as_done};
}

}  // namespace

std::string_view cut(std::string_view text) {
  if (text.size() <= kLongestName) return text;
  std::size_t end = kLongestName;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end);
}

std::string lines_of(const ConsumerEntry& entry) {
  std::string lines;
  if (!entry.name.empty()) add_line(lines, "name", entry.name);
  add_line(lines, "host", entry.host);
  add_line(lines, "pid", entry.pid);
  add_line(lines, "version", entry.version);
  add_line(lines, "queues", entry.queue_count);
  for (std::size_t i = 0; i < std::min(entry.queues.size(), kMostQueues); ++i) {
    add_line(lines, "queue", entry.queues[i]);
  }
  add_line(lines, "busy", entry.busy);
  add_line(lines, "concurrency", entry.concurrency);
  add_line(lines, "in_flight", entry.in_flight);
  for (std::size_t i = 0; i < std::min(entry.running.size(), kMostRunning); ++i) {
    const RunningEntry& one = entry.running[i];
    std::string text = one.id + ' ' + std::to_string(std::max<milliseconds::rep>(0, one.running.count()));
    if (one.fetching) text += ' ' + std::to_string(*one.fetching);
    add_line(lines, one.fetching ? "fetching" : "running", text);
  }
  return lines;
}

bool is_overdue(const ConsumerEntry& entry, std::int64_t now_us) {
  constexpr std::chrono::microseconds kSlack = std::chrono::seconds(2);
  const std::chrono::microseconds valid(entry.ends_us - entry.seen_us);
  const auto interval = std::max<std::chrono::microseconds>((valid - kRegistryGrace) / kMissedWrites, kSlack);
  return std::chrono::microseconds(now_us - entry.seen_us) > 2 * interval + kSlack;
}

std::optional<ConsumerEntry> entry_of(std::string_view value) {
  if (value.size() > kLongestValue) return std::nullopt;
  ConsumerEntry entry;
  const std::string_view times = next_line(value);
  const std::size_t space = std::min(times.find(' '), times.size());
  if (space == times.size() || !read_time(times.substr(0, space), entry.ends_us) ||
      !read_time(times.substr(space + 1), entry.seen_us)) {
    return std::nullopt;
  }
  while (!value.empty()) {
    if (!read_line(next_line(value), entry)) return std::nullopt;
  }
  if (entry.host.empty() || entry.pid == 0) return std::nullopt;
  return entry;
}

Answer<bool> register_consumer(Pipeline& pipeline, const Keys& keys, std::string_view consumer, std::string_view lines,
                               milliseconds valid) {
  return add_call(pipeline, keys, consumer, lines, valid);
}

Answer<bool> unregister_consumer(Pipeline& pipeline, const Keys& keys, std::string_view consumer) {
  return add_call(pipeline, keys, consumer, {}, kLongestEntry);
}

Answer<std::vector<std::string>> consumer_names(Pipeline& pipeline, const Keys& keys) {
  pipeline.command("HRANDFIELD").key(keys.consumers).arg(kMostConsumers);
  return {pipeline, as_texts};
}

Answer<std::size_t> entry_length(Pipeline& pipeline, const Keys& keys, std::string_view consumer) {
  pipeline.command("HSTRLEN").key(keys.consumers).arg(consumer);
  return {pipeline, as_count};
}

Answer<std::vector<std::optional<std::string>>> entries(Pipeline& pipeline, const Keys& keys,
                                                        const std::vector<std::string>& consumers) {
  pipeline.command("HMGET").key(keys.consumers);
  for (const std::string& consumer : consumers) pipeline.arg(consumer);
  return {pipeline, as_bodies};
}

}  // namespace delayqueue::store
