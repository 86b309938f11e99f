#include "limits_text.h"

#include "output/text.h"

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

}  // namespace

std::string held_back_text(const delayqueue::Counts& counts) {
  if (waits_for_rate(counts)) return rate_text(counts);
  const auto& most = counts.limits.running;
  return most && counts.in_flight >= *most ? "held back by its limit: " + running_text(counts) : "";
}

std::string limits_text(const delayqueue::Counts& counts) {
  std::string text;
  if (counts.limits.rate) text = rate_text(counts);
  if (counts.limits.running) {
    text += text.empty() ? "" : "; ";
    text += running_text(counts);
  }
  return text;
}

void add_limits(Object& object, const delayqueue::QueueLimits& limits) {
  if (limits.rate) {
    const delayqueue::Rate& rate = *limits.rate;
    object.add("rate",
               Object().add("messages", rate.messages).add("per_ms", rate.per.count()).add("burst", rate.burst));
  } else {
    object.add_null("rate");
  }
  object.add("running", limits.running);
}

}  // namespace dqctl
