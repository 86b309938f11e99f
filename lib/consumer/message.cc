#include <delayqueue/message.h>

#include "consumer/lease.h"

namespace delayqueue {

bool Message::lost() const { return lease != nullptr && lease->lost(); }

Verdict ack() { return {Verdict::Kind::ack, std::nullopt, {}}; }
Verdict nack() { return {Verdict::Kind::nack, std::nullopt, {}}; }
Verdict nack(std::string reason) { return {Verdict::Kind::nack, std::nullopt, std::move(reason)}; }
Verdict nack(std::chrono::milliseconds after, std::string reason) {
  return {Verdict::Kind::nack, after, std::move(reason)};
}
Verdict reject(std::string reason) { return {Verdict::Kind::reject, std::nullopt, std::move(reason)}; }
Verdict snooze(std::chrono::milliseconds after) { return {Verdict::Kind::snooze, after, {}}; }

}  // namespace delayqueue
