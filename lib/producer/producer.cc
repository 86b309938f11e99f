#include <delayqueue/producer.h>

#include "producer/async.h"
#include "producer/router.h"
#include "producer/send_reporter.h"
#include "queue/option_checks.h"
#include "queue/state.h"

#include <chrono>
#include <deque>
#include <exception>
#include <stdexcept>
#include <utility>

namespace delayqueue {

class Producer::Impl {
 public:
  Impl(const Client& client, const std::string& queue, ProducerOptions options)
      : options_(std::move(options)),
        reporter_(queue, options_, client.keys()),
        router_(client, queue, options_, reporter_.failures()),
        async_(router_, reporter_) {
    validate(options_);
    reporter_.sink().warn(router_.home().endpoint().warning());
  }

  bool has_before_send() const { return static_cast<bool>(options_.before_send); }
  void before_send(OutgoingMessage& message) const { options_.before_send(message); }

  // Without before_send.
  Sent send(std::string_view payload, const SendOptions& options);
  bool send_async(std::string& payload, const SendOptions& options, SendCallback& done, bool may_block);
  bool has_room(std::size_t bytes) { return async_.has_room(bytes); }
  bool flush(milliseconds timeout) { return async_.flush(timeout); }
  std::vector<Sent> send_views(const std::vector<std::string_view>& payloads, const SendOptions& options);
  std::vector<Sent> send_batch(const std::vector<OutgoingMessage>& messages);
  ProducerMetrics metrics() { return reporter_.metrics(router_); }

  // `id`: of Sender::checked().
  State cancel(const MessageRef& message, const std::string& id);
  Outcome reschedule(const MessageRef& message, const std::string& id, const store::Due& due);

 private:
  std::vector<SendRequest> send(std::vector<PendingMessage> messages);
  std::vector<Sent> send_all(std::vector<PendingMessage> messages);

  const ProducerOptions options_;
  SendReporter reporter_;
  Router router_;
  AsyncQueue async_;  // last: its thread uses the members above
};

Sent Producer::Impl::send(std::string_view payload, const SendOptions& options) {
  check_payload(payload, options_);
  const store::SendTerms terms = terms_of(options, options_);
  const std::string headers = packed_headers(options.headers);
  std::vector<PendingMessage> message;
  message.push_back({id_of(options), payload, &terms, headers, options.unique.key});
  return std::move(send(std::move(message)).front().messages.front()).result();
}

bool Producer::Impl::send_async(std::string& payload, const SendOptions& options, SendCallback& done, bool may_block) {
  check_payload(payload, options_);
  AsyncSend send{id_of(options), "", packed_headers(options.headers), terms_of(options, options_), options.unique.key,
                 std::move(done)};
  return async_.enqueue(std::move(send), payload, may_block);
}

std::vector<Sent> Producer::Impl::send_views(const std::vector<std::string_view>& payloads,
                                             const SendOptions& options) {
  const store::SendTerms terms = terms_of(options, options_);
  const std::string headers = packed_headers(options.headers);
  std::vector<PendingMessage> messages;
  messages.reserve(payloads.size());
  for (const std::string_view payload : payloads) {
    check_payload(payload, options_);
    messages.push_back({"", payload, &terms, headers});
  }
  return send_all(std::move(messages));
}

std::vector<Sent> Producer::Impl::send_batch(const std::vector<OutgoingMessage>& outgoing) {
  std::vector<store::SendTerms> terms;
  terms.reserve(outgoing.size());
  std::deque<std::string> headers;  // packed; none for most messages
  std::vector<PendingMessage> messages;
  messages.reserve(outgoing.size());
  for (const OutgoingMessage& message : outgoing) {
    check_payload(message.payload, options_);
    terms.push_back(terms_of(message.options, options_));
    messages.push_back({id_of(message.options), message.payload, &terms.back(), "", message.options.unique.key});
    if (message.options.headers.empty()) continue;
    messages.back().headers = headers.emplace_back(packed_headers(message.options.headers));
  }
  return send_all(std::move(messages));
}

std::vector<Sent> Producer::Impl::send_all(std::vector<PendingMessage> messages) {
  if (messages.empty()) return {};
  std::vector<SendRequest> done = send(std::move(messages));
  std::vector<Sent> sent;
  sent.reserve(done.front().messages.size());
  for (PendingMessage& message : done.front().messages) sent.push_back(std::move(message).result());
  return sent;
}

// Sends one request, and returns it with its results, or throws its error.
std::vector<SendRequest> Producer::Impl::send(std::vector<PendingMessage> messages) {
  std::vector<SendRequest> requests(1);
  SendRequest& request = requests.front();
  request.messages = std::move(messages);
  if (request.messages.size() > 1) {
    std::size_t bytes = 0;
    for (const PendingMessage& message : request.messages) bytes += message.payload.size();
    request.bodies_first = bytes >= store::kStagedBytes;
  }
  const auto began = std::chrono::steady_clock::now();
  router_.send(requests, began);
  reporter_.count(requests, began);
  if (request.failure) std::rethrow_exception(request.error());
  reporter_.sent(router_, requests);
  return requests;
}

State Producer::Impl::cancel(const MessageRef& message, const std::string& id) {
  if (message.key()) return state_of(router_.cancel_by_key(message.key()->str()));
  const State state = state_of(router_.cancel(id));
  reporter_.log_risks(router_, id);
  return state;
}

Outcome Producer::Impl::reschedule(const MessageRef& message, const std::string& id, const store::Due& due) {
  if (message.key()) return rescheduled_of(router_.reschedule_by_key(message.key()->str(), due));
  const Outcome outcome = rescheduled_of(router_.reschedule(id, due));
  reporter_.log_risks(router_, id);
  return outcome;
}

Producer::Producer(const Client& client, const QueueName& queue, ProducerOptions options)
    : impl_("Producer", std::make_unique<Impl>(client, queue.str(), std::move(options))) {}
Producer::~Producer() = default;
Producer::Producer(Producer&&) noexcept = default;
Producer& Producer::operator=(Producer&&) noexcept = default;

Sent Producer::do_send(std::string_view payload, const SendOptions& options) {
  if (!impl_->has_before_send()) return impl_->send(payload, options);
  OutgoingMessage message{std::string(payload), options};
  impl_->before_send(message);
  return impl_->send(message.payload, message.options);
}

// before_send is called for a message that is sent: one that must not block, and has no room, is refused before.
bool Producer::do_send_async(std::string& payload, const SendOptions& options, SendCallback& done, bool may_block) {
  if (!impl_->has_before_send()) return impl_->send_async(payload, options, done, may_block);
  if (!may_block && !impl_->has_room(payload.size())) return false;
  OutgoingMessage message{may_block ? std::move(payload) : payload, options};
  impl_->before_send(message);
  return impl_->send_async(message.payload, message.options, done, may_block);
}

bool Producer::do_flush(milliseconds timeout) { return impl_->flush(timeout); }

std::vector<Sent> Producer::do_send_views(const std::vector<std::string_view>& payloads, const SendOptions& options) {
  if (!impl_->has_before_send()) return impl_->send_views(payloads, options);
  std::vector<OutgoingMessage> messages;
  messages.reserve(payloads.size());
  for (const std::string_view payload : payloads) {
    impl_->before_send(messages.emplace_back(OutgoingMessage{std::string(payload), options}));
  }
  return impl_->send_batch(messages);
}

std::vector<Sent> Producer::do_send_batch(const std::vector<OutgoingMessage>& messages) {
  if (!impl_->has_before_send()) return impl_->send_batch(messages);
  std::vector<OutgoingMessage> changed = messages;
  for (OutgoingMessage& message : changed) impl_->before_send(message);
  return impl_->send_batch(changed);
}

State Producer::do_cancel(const MessageRef& message) { return impl_->cancel(message, checked(message)); }

Outcome Producer::do_reschedule(const MessageRef& message, const RescheduleOptions& when) {
  return impl_->reschedule(message, checked(message), due_of(when.delay, when.at));
}

ProducerMetrics Producer::metrics() const { return impl_->metrics(); }

}  // namespace delayqueue
