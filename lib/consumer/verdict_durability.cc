#include "consumer/verdict_durability.h"

namespace delayqueue {

void VerdictDurability::add(RoundTrip& round_trip, std::size_t verdicts, const std::string& stats) {
  const auto asked = write_concern_.ask_after_write(round_trip.pipeline(), stats, below_);
  if (!asked.confirmed) return;
  round_trip.expect(*asked.confirmed,
                    [this, verdicts, asked](const auto&) { read(write_concern_.missing(asked), verdicts); });
}

// The verdicts are valid. They are forgotten, and the messages delivered again, only if the master is lost now.
void VerdictDurability::read(const std::string& missing, std::size_t verdicts) {
  if (!missing.empty()) reporter_.counters().unconfirmed += verdicts;
  if (missing.empty() == !below_) return;
  below_ = !missing.empty();
  if (below_) {
    reporter_.log(Severity::warning, "verdicts are not as durable as asked for: " + missing);
  } else {
    reporter_.log(Severity::info, "verdicts are as durable as asked for again");
  }
}

}  // namespace delayqueue
