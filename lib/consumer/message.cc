#include "consumer/message_contents.h"

#include "queue/option_checks.h"
#include "store/record.h"

#include <delayqueue/testing.h>

namespace delayqueue {

std::optional<std::chrono::system_clock::time_point> Message::sent_at() const { return store::time_of_id(id_); }

bool Message::lease_lost() const { return lease_->lost(); }

Verdict ack() { return {Verdict::Kind::ack, std::nullopt, {}}; }
Verdict nack() { return {Verdict::Kind::nack, std::nullopt, {}}; }
Verdict nack(std::string reason) { return {Verdict::Kind::nack, std::nullopt, std::move(reason)}; }
Verdict nack(std::chrono::milliseconds after, std::string reason) {
  return {Verdict::Kind::nack, after, std::move(reason)};
}
Verdict reject(std::string reason) { return {Verdict::Kind::reject, std::nullopt, std::move(reason)}; }
Verdict snooze(std::chrono::milliseconds after) { return {Verdict::Kind::snooze, after, {}}; }

Message make_message(std::string payload, const MessageFields& fields) {
  Message message =
      MessageContents::make(fields.id.empty() ? store::new_ids(1).front() : id_of("id", fields.id),
                            std::make_shared<const std::string>(fields.queue), fields.attempt, fields.retries_left,
                            std::make_shared<const Lease>(fields.lease_lost ? Lease::Clock::time_point::min()
                                                                            : Lease::Clock::time_point::max()));
  MessageContents::set_payload(message, std::move(payload));
  MessageContents::set_headers(message, fields.headers);
  return message;
}

}  // namespace delayqueue
