#include "consumer/delivery.h"

#include "queue/option_checks.h"
#include "store/record.h"
#include "store/schedules.h"

#include <delayqueue/testing.h>

#include <stdexcept>
#include <utility>

namespace delayqueue {

// ---- Message and Verdict --------------------------------------------------------------------------------------------

std::optional<std::chrono::system_clock::time_point> Message::sent_at() const { return store::time_of_id(id_); }

std::optional<Occurrence> Message::occurrence() const {
  auto names = store::occurrence_of(headers_);
  if (!names) return std::nullopt;
  return Occurrence{std::move(names->schedule), store::from_us(names->slot_ms * 1000)};
}

bool Message::lease_lost() const { return lease_->lost(); }

Verdict DELAYQUEUE_ABI::ack() { return {Verdict::Kind::ack, std::nullopt, {}}; }
Verdict DELAYQUEUE_ABI::nack() { return {Verdict::Kind::nack, std::nullopt, {}}; }
Verdict DELAYQUEUE_ABI::nack(std::string reason) { return {Verdict::Kind::nack, std::nullopt, std::move(reason)}; }
Verdict DELAYQUEUE_ABI::nack(std::chrono::milliseconds after, std::string reason) {
  return {Verdict::Kind::nack, after, std::move(reason)};
}
Verdict DELAYQUEUE_ABI::reject(std::string reason) { return {Verdict::Kind::reject, std::nullopt, std::move(reason)}; }
Verdict DELAYQUEUE_ABI::snooze(std::chrono::milliseconds after) { return {Verdict::Kind::snooze, after, {}}; }
Verdict DELAYQUEUE_ABI::pause_queue(std::chrono::milliseconds after, std::string reason) {
  if (after < milliseconds(0) || after > kLongest) {
    throw std::invalid_argument("after: " + std::to_string(after.count()) + " ms; expected 0 to a hundred years");
  }
  return {Verdict::Kind::pause_queue, after, std::move(reason)};
}

Message DELAYQUEUE_ABI::make_message(std::string payload, const MessageFields& fields) {
  Message message =
      MessageContents::make(fields.id.empty() ? store::new_ids(1).front() : id_of("id", fields.id),
                            std::make_shared<const std::string>(fields.queue), fields.attempt, fields.retries_left,
                            std::make_shared<const Lease>(fields.lease_lost ? Lease::Clock::time_point::min()
                                                                            : Lease::Clock::time_point::max()));
  MessageContents::set_payload(message, std::move(payload));
  MessageContents::set_headers(message, fields.headers);
  return message;
}

// ---- Handler --------------------------------------------------------------------------------------------------------

void Handler::check_function(bool given) {
  if (!given) throw std::invalid_argument("handler: none; expected a function");
}

// ---- Delivery -------------------------------------------------------------------------------------------------------

Delivery& Delivery::operator=(Delivery&& other) noexcept {
  Delivery moved(std::move(other));  // drops the one that it is swapped with
  message_.swap(moved.message_);
  inbox_.swap(moved.inbox_);
  return *this;
}

Delivery::~Delivery() { drop(); }

// While its handler runs in this thread, the worker settles it: see HandlerScope.
void Delivery::drop() noexcept {
  if (message_ == nullptr || HandlerScope::keep_dropped(*message_) || !message_->settle()) return;
  message_->verdict.reset();
  inbox_->push(message_);
}

const Message& Delivery::message() const {
  if (message_ == nullptr) throw std::logic_error("Delivery: used after it was moved from");
  return message_->message;
}

bool Delivery::settle(Verdict verdict, SettlementCallback on_settled) && {
  if (message_ == nullptr || !message_->settle()) return false;
  message_->verdict = std::move(verdict);
  message_->on_settled = std::move(on_settled);
  if (inbox_->push(message_)) return true;
  message_->on_settled = nullptr;
  return false;
}

bool Delivery::ack() && { return std::move(*this).settle(delayqueue::ack()); }
bool Delivery::nack() && { return std::move(*this).settle(delayqueue::nack()); }
bool Delivery::nack(std::string reason) && { return std::move(*this).settle(delayqueue::nack(std::move(reason))); }
bool Delivery::nack(std::chrono::milliseconds after, std::string reason) && {
  return std::move(*this).settle(delayqueue::nack(after, std::move(reason)));
}
bool Delivery::reject(std::string reason) && { return std::move(*this).settle(delayqueue::reject(std::move(reason))); }
bool Delivery::snooze(std::chrono::milliseconds after) && { return std::move(*this).settle(delayqueue::snooze(after)); }
bool Delivery::pause_queue(std::chrono::milliseconds after, std::string reason) && {
  return std::move(*this).settle(delayqueue::pause_queue(after, std::move(reason)));
}

std::shared_ptr<Delivery> Delivery::share() && { return std::make_shared<Delivery>(std::move(*this)); }

}  // namespace delayqueue
