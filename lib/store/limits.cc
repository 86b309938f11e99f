#include "store/limits.h"

#include "store/layout.h"
#include "store/record.h"
#include "store/replies.h"
#include "store/script_calls.h"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace delayqueue::store {
namespace {

using redis::Reply;

std::string limit_text(const std::optional<std::uint64_t>& limit) { return limit ? std::to_string(*limit) : ""; }

StoredLimits as_limits(Reply reply) {
  StoredLimits stored;
  stored.done = reply[0].integer() == 1;
  Limits& limits = stored.limits;
  limits.generation = static_cast<std::int64_t>(limit_of(reply[1].text()).value_or(0));
  const std::uint64_t parts = limit_of(reply[2].text()).value_or(1);
  limits.parts = parts <= kMostPartitions ? static_cast<unsigned>(parts) : 1;
  limits.length = limit_of(reply[3].text());
  limits.running = limit_of(reply[7].text());
  limits.rate = rate_of(reply[4].text(), reply[5].text(), reply[6].text());
  return stored;
}

Answer<StoredLimits> call(Pipeline& pipeline, const Keys& keys, const char* mode, const Limits& limits,
                          unsigned partition) {
  const std::string length = limit_text(limits.length), running = limit_text(limits.running);
  std::string rate, period, burst;
  if (limits.rate) {
    rate = std::to_string(limits.rate->messages);
    period = std::to_string(limits.rate->period.count());
    burst = std::to_string(limits.rate->burst);
  }
  calls::limits(pipeline, keys)
      .args(arg::mode(mode), arg::generation(limits.generation), arg::parts(limits.parts), arg::part(partition),
            arg::length(std::string_view(length)), arg::rate(std::string_view(rate)),
            arg::period(std::string_view(period)), arg::burst(std::string_view(burst)),
            arg::running(std::string_view(running)));
  return {pipeline, as_limits};
}

// The fields that clients write, and whether each is a whole number above 0; the others are hints, or may be 0.
constexpr const char* kFields[] = {"rate", "period", "burst", "running", "parts"};

std::vector<std::string> as_invalid_limits(Reply reply) {
  std::vector<std::string> invalid;
  for (std::size_t i = 0; i < std::min(reply.size(), std::size(kFields)); ++i) {
    if (!reply[i].is_nil() && !limit_of(reply[i].text())) invalid.emplace_back(kFields[i]);
  }
  return invalid;
}

ScannedLeases as_leases(Reply reply) {
  ScannedLeases step{as_text(reply[0]), {}};
  for (std::size_t i = 0; i + 1 < reply[1].size(); i += 2) step.ids.push_back(as_text(reply[1][i]));
  return step;
}

}  // namespace

std::optional<std::uint64_t> limit_of(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size() && text.size() <= 16;
  return whole && value > 0 && value < static_cast<std::uint64_t>(kNoGeneration) ? std::optional(value) : std::nullopt;
}

std::optional<RateLimit> rate_of(std::string_view messages, std::string_view period, std::string_view burst) {
  const auto number = limit_of(messages), us = limit_of(period);
  if (!number || !us) return std::nullopt;
  const std::chrono::microseconds time(static_cast<std::int64_t>(*us));
  return RateLimit{*number, time, limit_of(burst).value_or(1)};
}

Answer<StoredLimits> read_limits(Pipeline& pipeline, const Keys& keys) { return call(pipeline, keys, "read", {}, 0); }

Answer<StoredLimits> set_limits(Pipeline& pipeline, const Keys& keys, const Limits& wanted) {
  return call(pipeline, keys, "set", wanted, 0);
}

Answer<StoredLimits> copy_limits(Pipeline& pipeline, const Keys& keys, const Limits& limits, unsigned partition) {
  return call(pipeline, keys, "copy", limits, partition);
}

Answer<std::vector<std::string>> invalid_limits(Pipeline& pipeline, const Keys& keys) {
  pipeline.command("HMGET").key(keys.limits);
  for (const char* field : kFields) pipeline.arg(field);
  return {pipeline, as_invalid_limits};
}

Answer<ScannedLeases> scan_leases(Pipeline& pipeline, const Keys& keys, const std::string& cursor) {
  pipeline.command("ZSCAN").key(keys.unack).arg(cursor).arg("COUNT").arg(kBatch);
  return {pipeline, as_leases};
}

}  // namespace delayqueue::store
