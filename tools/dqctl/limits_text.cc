#include "limits_text.h"

#include "output/text.h"

#include <optional>

namespace dqctl {

std::string rate_limit_text(const delayqueue::Rate& rate) {
  const std::string messages = std::to_string(rate.messages);
  return rate.per == milliseconds(1000) ? messages + "/s" : messages + " each " + span_text(rate.per);
}

std::string limits_text(const delayqueue::Counts& counts) {
  std::string text;
  if (counts.limits.rate) {
    const std::string rate = rate_limit_text(*counts.limits.rate);
    const auto wait = std::chrono::ceil<milliseconds>(counts.next_delivery);
    const bool waits = counts.next_delivery.count() > 0 && counts.ready + counts.retry > 0;
    text = waits ? "held back by its rate of " + rate + ", next in " + std::to_string(wait.count()) + " ms"
                 : "rate " + rate;
  }
  if (counts.limits.running) {
    text += text.empty() ? "" : "; ";
    text += count_text(counts.in_flight) + " of " + count_text(*counts.limits.running) + " running";
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
