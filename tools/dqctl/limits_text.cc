#include "limits_text.h"

#include "output/text.h"

#include <array>
#include <charconv>
#include <optional>

namespace dqctl {

std::string rate_limit_text(const delayqueue::Rate& rate) {
  const std::string messages = std::to_string(rate.messages);
  return rate.per == milliseconds(1000) ? messages + "/s" : messages + " each " + span_text(rate.per);
}

namespace {

bool waits_for_rate(const delayqueue::Counts& counts) {
  return counts.limits.rate && counts.next_delivery.count() > 0 && counts.ready + counts.retry > 0;
}

std::string rate_text(const delayqueue::Counts& counts) {
  const std::string rate = rate_limit_text(*counts.limits.rate);
  const auto wait = std::chrono::ceil<milliseconds>(counts.next_delivery);
  return waits_for_rate(counts)
             ? "held back by its rate of " + rate + ", next in " + std::to_string(wait.count()) + " ms"
             : "rate " + rate;
}

std::string running_text(const delayqueue::Counts& counts) {
  return count_text(counts.in_flight) + " of " + count_text(*counts.limits.running) + " running";
}

// The first version whose consumers keep limits.
constexpr std::array<int, 3> kFirstWithLimits = {0, 1, 0};

bool keeps_limits(const std::string& version) {
  std::array<int, 3> numbers{};
  const char* at = version.data();
  const char* const end = at + version.size();
  for (int& number : numbers) {
    const auto [rest, error] = std::from_chars(at, end, number);
    if (error != std::errc()) return false;
    at = rest != end ? rest + 1 : rest;
  }
  return numbers >= kFirstWithLimits;
}

// Adds the other limits to the text of the rate.
std::string with_others(std::string text, const delayqueue::Counts& counts) {
  const auto add = [&text](const std::string& more) { text += (text.empty() ? "" : "; ") + more; };
  if (counts.limits.running) add(running_text(counts));
  if (counts.limits.length) add("at most " + counted(*counts.limits.length, "message"));
  return text;
}

}  // namespace

std::string held_back_text(const delayqueue::Counts& counts) {
  if (waits_for_rate(counts)) return rate_text(counts);
  const auto& most = counts.limits.running;
  return most && counts.in_flight >= *most ? "held back by its limit: " + running_text(counts) : "";
}

std::string limits_text(const delayqueue::Counts& counts) {
  std::string text;
  if (counts.limits.rate) text = rate_text(counts);
  return with_others(text, counts);
}

std::string limits_with_burst(const delayqueue::Counts& counts) {
  std::string text;
  if (counts.limits.rate) text = rate_text(counts) + "; at most " + count_text(counts.limits.rate->burst) + " at once";
  return with_others(text, counts);
}

std::vector<std::string> consumers_without_limits(delayqueue::Inspector& inspector) try {
  std::vector<std::string> without;
  for (const delayqueue::Worker& one : inspector.workers()) {
    if (one.damaged || keeps_limits(one.version)) continue;
    without.push_back((one.name.empty() ? "a consumer" : printable(one.name)) + ", pid " + std::to_string(one.pid) +
                      " on " + printable(one.host) + ", " +
                      (one.version.empty() ? "without a version" : "version " + printable(one.version)));
  }
  return without;
} catch (const delayqueue::ReplyError&) {
  return {};
}

void add_limits(Object& object, const delayqueue::QueueLimits& limits) {
  if (limits.rate) {
    const delayqueue::Rate& rate = *limits.rate;
    object.add("rate",
               Object().add("messages", rate.messages).add("per_ms", rate.per.count()).add("burst", rate.burst));
  } else {
    object.add_null("rate");
  }
  object.add("running", limits.running).add("length", limits.length);
}

void add_limits_of(Object& object, const delayqueue::Counts& counts) {
  if (!counts.limits.rate && !counts.limits.running && !counts.limits.length) {
    object.add_null("limits");
    return;
  }
  Object limits;
  add_limits(limits, counts.limits);
  limits.add("in_flight", counts.in_flight).add("next_delivery_us", counts.next_delivery.count());
  const std::string held_back = held_back_text(counts);
  limits.add("text", limits_text(counts));
  limits.add("held_back", held_back.empty() ? std::nullopt : std::optional(held_back));
  object.add("limits", limits);
}

}  // namespace dqctl
