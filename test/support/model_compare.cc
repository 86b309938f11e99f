#include "support/model.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <tuple>

namespace test::model {
namespace {

// TTLs are hours and differ by seconds at most: versions of Redis read their clock for TTLs in different ways.
constexpr std::int64_t kTtlSlack = 5'000'000;

std::int64_t up_to_ms(std::int64_t us) { return (us + 999) / 1000 * 1000; }

std::string show(const std::optional<Span>& time) {
  if (!time) return "nothing";
  const std::string from = std::to_string(time->from);
  return time->from == time->to ? from : from + " to " + std::to_string(time->to);
}

std::string show(const std::optional<std::string>& text) { return text ? '"' + *text + '"' : "nothing"; }

[[noreturn]] void differ(const std::string& where, const std::string& real, const std::string& expected) {
  throw Mismatch(where + ": is " + real + ", should be " + expected);
}

std::optional<std::string> field(const std::map<std::string, std::string>& hash, const std::string& name) {
  const auto found = hash.find(name);
  return found == hash.end() ? std::nullopt : std::optional(found->second);
}

void compare_field(const std::string& where, const std::optional<std::string>& real,
                   const std::optional<std::string>& expected) {
  if (real != expected) differ(where, show(real), show(expected));
}

std::optional<std::string> attempts_of(const Record& record) {
  if (!record.in_attempts()) return std::nullopt;
  const std::string deliveries = std::to_string(record.deliveries);
  return record.last_end ? deliveries + ' ' + std::to_string(*record.last_end) : deliveries;
}

// The right end of a Redis list is delivered next.
void compare_list(const std::string& name, const std::vector<std::string>& real,
                  const std::deque<std::string>& expected) {
  if (std::equal(real.rbegin(), real.rend(), expected.begin(), expected.end())) return;
  const auto text = [](auto begin, auto end) {
    std::string out;
    for (auto id = begin; id != end; ++id) out += (out.empty() ? "" : " ") + id->substr(0, 8);
    return out.empty() ? "empty" : out;
  };
  differ(name, text(real.rbegin(), real.rend()), text(expected.begin(), expected.end()));
}

}  // namespace

Span operator+(Span span, std::int64_t us) { return {span.from + us, span.to + us}; }

Span whole_ms(Span span) { return {up_to_ms(span.from), up_to_ms(span.to)}; }

bool is_over(Span time, Span now) {
  if (time.from > now.from && time.from <= now.to) throw Undecided();
  return time.from <= now.from;
}

bool Record::backs_off() const { return lease && !delayqueue::store::is_lease(lease->from); }

void Record::clear_metadata() {
  deliveries = 0;
  undelivered = false;
  last_end.reset();
  reason.reset();
}

void Record::strip() {
  retries.reset();
  clear_metadata();
}

std::vector<std::string> Model::in_order(Time time) const {
  std::vector<std::tuple<std::int64_t, std::string>> found;
  for (const auto& [id, record] : records_) {
    if (record.*time) found.emplace_back((record.*time)->from, id);
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> ids;
  for (auto& [score, id] : found) ids.push_back(std::move(id));
  return ids;
}

std::optional<Span> Model::first(Time time) const {
  const std::vector<std::string> ids = in_order(time);
  return ids.empty() ? std::nullopt : records_.at(ids.front()).*time;
}

void Model::rewind(std::int64_t us) {
  for (auto& [id, record] : records_) {
    for (const Time time : {&Record::due, &Record::lease, &Record::dead}) {
      if (record.*time) record.*time = *(record.*time) + -us;
    }
    if (record.last_end) *record.last_end -= us;
  }
}

void Model::compare_times(const std::string& name, const std::map<std::string, std::int64_t>& real, Time time) {
  for (const auto& [id, score] : real) records_[id];
  for (auto& [id, record] : records_) {
    const auto found = real.find(id);
    const bool there = found != real.end();
    std::optional<Span>& expected = record.*time;
    const bool same = expected && there && found->second >= expected->from && found->second <= expected->to;
    if (there == expected.has_value() && (same || !there)) {
      if (there) expected = Span{found->second, found->second};
      continue;
    }
    differ(name + " of " + id, there ? std::to_string(found->second) : "nothing", show(expected));
  }
}

void Model::compare_metadata(const Dump& dump) const {
  for (const auto& [id, record] : records_) {
    const auto retries = record.retries ? std::optional(std::to_string(*record.retries)) : std::nullopt;
    compare_field("retry:cnt of " + id, field(dump.count, id), retries);
    compare_field("attempts of " + id, field(dump.attempts, id), attempts_of(record));
    compare_field("reason of " + id, field(dump.reason, id), record.reason);
    if (record.garbage != (dump.garbage.count(id) > 0)) {
      differ("garbage of " + id, record.garbage ? "nothing" : "there", record.garbage ? "there" : "nothing");
    }
  }
  const std::string text[] = {"retry:cnt", "attempts", "reason", "garbage"};
  const std::size_t sizes[] = {dump.count.size(), dump.attempts.size(), dump.reason.size(), dump.garbage.size()};
  std::size_t known[] = {0, 0, 0, 0};
  for (const auto& [id, record] : records_) {
    known[0] += record.retries.has_value();
    known[1] += record.in_attempts();
    known[2] += record.reason.has_value();
    known[3] += record.garbage;
  }
  for (std::size_t i = 0; i < 4; ++i) {
    if (sizes[i] != known[i]) differ("size of " + text[i], std::to_string(sizes[i]), std::to_string(known[i]));
  }
}

void Model::compare_bodies(const Dump& dump) const {
  std::size_t known = 0;
  for (const auto& [id, record] : records_) {
    const auto found = dump.bodies.find(id);
    const bool there = found != dump.bodies.end();
    compare_field("body of " + id, there ? std::optional(found->second.payload) : std::nullopt, record.body);
    if (!there) continue;
    ++known;
    const std::int64_t real = found->second.expires_us.value_or(0);
    const std::int64_t expected = record.expires_us.value_or(0);
    if (std::abs(real - expected) > kTtlSlack) differ("TTL of " + id, std::to_string(real), std::to_string(expected));
  }
  if (known != dump.bodies.size()) throw Mismatch("there are bodies that no move stored");
}

void Model::compare(const Dump& dump) {
  compare_times("pending", dump.pending, &Record::due);
  compare_times("unack", dump.unack, &Record::lease);
  compare_times("dead", dump.dead, &Record::dead);
  compare_list("ready", dump.ready, ready_);
  compare_list("retry", dump.retry, retry_);
  compare_metadata(dump);
  compare_bodies(dump);
  for (const auto& [name, value] : dump.stats) stats_[name];
  for (const auto& [name, value] : stats_) {
    const std::string real = field(dump.stats, name).value_or("0");
    if (real != std::to_string(value)) differ("stats " + name, real, std::to_string(value));
  }
  const std::set<std::string> others = paused_ ? std::set<std::string>{"paused"} : std::set<std::string>{};
  if (dump.others != others) throw Mismatch("there are unexpected keys, or paused is not as it was set");
}

}  // namespace test::model
