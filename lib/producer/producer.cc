#include <delayqueue/producer.h>

#include "producer/async_sender.h"
#include "producer/send_counters.h"
#include "producer/spreader.h"
#include "queue/event_sink.h"
#include "queue/failure_log.h"
#include "queue/go_events.h"
#include "queue/option_checks.h"
#include "queue/server_risks.h"
#include "queue/shared_connection.h"
#include "queue/state.h"

#include <atomic>
#include <deque>
#include <mutex>
#include <stdexcept>

namespace delayqueue {
namespace {

// The id of the caller; empty: Spreader makes one.
std::string id_for(const SendOptions& options) { return options.id.empty() ? "" : id_of("id", options.id); }

}  // namespace

class Producer::Impl {
 public:
  Impl(const std::string& url, const std::string& queue, ProducerOptions options)
      : options_(std::move(options)),
        event_sink_({queue, ""}, options_.logger, options_.on_event, false),
        spreader_(url, queue, options_, event_sink_),
        async_sender_(spreader_, counters_, [this](const std::vector<Sent>& sent) { on_sent(sent); }) {
    validate(options_);
    event_sink_.warn(spreader_.home().endpoint().warning());
  }

  bool has_before_send() const { return static_cast<bool>(options_.before_send); }
  void before_send(OutgoingMessage& message) const { options_.before_send(message); }

  // Without before_send.
  Sent send(std::string_view payload, const SendOptions& options);
  std::future<Sent> send_async(std::string payload, const SendOptions& options);
  std::vector<Sent> send_views(const std::vector<std::string_view>& payloads, const SendOptions& options);
  std::vector<Sent> send_batch(const std::vector<OutgoingMessage>& messages);
  ProducerStats stats() const { return {spreader_.moved()}; }
  ProducerMetrics metrics() { return counters_.metrics(spreader_.home().endpoint().queue(), stats()); }

  State cancel(const std::string& id);
  Moved reschedule(const std::string& id, const store::Due& due);

 private:
  // Sends the request and waits for its results. Throws the error of the request.
  std::vector<Sent> send(SendRequest request);
  store::SendTerms terms_of(const SendOptions& options) const;
  void check_payload(std::string_view payload) const;
  void on_sent(const std::vector<Sent>& sent);
  void emit_event(const std::vector<Sent>& sent);
  void publish(SharedConnection& shared_connection, std::size_t created);

  // Logs the risks of the server that has this message, at most once; called when a call of the user has succeeded.
  void log_risks(const std::string& id);

  const ProducerOptions options_;
  EventSink event_sink_;
  std::atomic<bool> risks_logged_{false};
  std::mutex failures_mutex_;  // guards failures_
  FailureLog failures_;
  SendCounters counters_;
  Spreader spreader_;
  AsyncSender async_sender_;  // last: its thread uses all members above
};

store::SendTerms Producer::Impl::terms_of(const SendOptions& options) const {
  store::SendTerms terms;
  terms.due = due_of(options.delay, options.at);
  terms.retries = options.retries.value_or(options_.retries);
  if (terms.retries < 0)
    throw std::invalid_argument("retries: " + std::to_string(terms.retries) + "; expected 0 or more");
  if (options.ttl) check_at_least("ttl", *options.ttl, milliseconds(1));
  terms.ttl = options.ttl.value_or(milliseconds(0));
  terms.fresh = options.id.empty();
  return terms;
}

void Producer::Impl::check_payload(std::string_view payload) const {
  if (payload.size() <= options_.max_payload) return;
  throw std::invalid_argument("payload: " + std::to_string(payload.size()) +
                              " bytes; at most max_payload = " + std::to_string(options_.max_payload) + " are allowed");
}

Sent Producer::Impl::send(std::string_view payload, const SendOptions& options) {
  check_payload(payload);
  const store::SendTerms terms = terms_of(options);
  const std::string headers = packed_headers(options.headers);
  SendRequest request;
  request.messages.push_back({payload, &terms, headers});
  request.sent.push_back({id_for(options), false});
  return std::move(send(std::move(request)).front());
}

std::future<Sent> Producer::Impl::send_async(std::string payload, const SendOptions& options) {
  check_payload(payload);
  std::string headers = packed_headers(options.headers);
  std::string id = options.id.empty() ? spreader_.new_id() : id_for(options);
  return async_sender_.enqueue({std::move(id), std::move(payload), std::move(headers), terms_of(options)});
}

std::vector<Sent> Producer::Impl::send_views(const std::vector<std::string_view>& payloads,
                                             const SendOptions& options) {
  const store::SendTerms terms = terms_of(options);
  const std::string headers = packed_headers(options.headers);
  SendRequest request;
  request.messages.reserve(payloads.size());
  for (const std::string_view payload : payloads) {
    check_payload(payload);
    request.messages.push_back({payload, &terms, headers});
  }
  request.sent.resize(payloads.size());
  return send(std::move(request));
}

std::vector<Sent> Producer::Impl::send_batch(const std::vector<OutgoingMessage>& messages) {
  std::vector<store::SendTerms> terms;
  terms.reserve(messages.size());
  std::deque<std::string> headers;  // packed; none for most messages
  SendRequest request;
  for (const OutgoingMessage& message : messages) {
    check_payload(message.payload);
    request.sent.push_back({id_for(message.options), false});
    terms.push_back(terms_of(message.options));
    request.messages.push_back({message.payload, &terms.back()});
    if (message.options.headers.empty()) continue;
    request.messages.back().headers = headers.emplace_back(packed_headers(message.options.headers));
  }
  return send(std::move(request));
}

std::vector<Sent> Producer::Impl::send(SendRequest request) {
  if (request.messages.empty()) return {};
  if (request.messages.size() > 1) {
    std::size_t bytes = 0;
    for (const PendingMessage& message : request.messages) bytes += message.payload.size();
    request.bodies_first = bytes >= store::kStagedBytes;
  }
  std::vector<Sent> sent;
  {
    SendTimer timer(counters_, request.messages.size());
    std::vector<SendRequest> requests;
    requests.push_back(std::move(request));
    spreader_.send(requests);
    requests.front().check();
    sent = std::move(requests.front().sent);
    timer.succeeded(sent.size());
  }
  on_sent(sent);
  return sent;
}

State Producer::Impl::cancel(const std::string& id) {
  const State state = state_of(spreader_.cancel(id));
  log_risks(id);
  return state;
}

Moved Producer::Impl::reschedule(const std::string& id, const store::Due& due) {
  const Moved moved = moved_of(spreader_.reschedule(id, due));
  log_risks(id);
  return moved;
}

void Producer::Impl::on_sent(const std::vector<Sent>& sent) {
  emit_event(sent);
  if (!sent.empty()) log_risks(sent.front().id);
}

void Producer::Impl::emit_event(const std::vector<Sent>& sent) {
  if (!options_.report_events && !event_sink_.wants_events()) return;
  std::vector<std::string> created;
  for (const Sent& one : sent) {
    if (one.created) created.push_back(one.id);
  }
  if (created.empty()) return;
  if (options_.report_events) publish(spreader_.connection_of(created.front()), created.size());
  event_sink_.event(EventKind::sent, std::move(created));
}

void Producer::Impl::publish(SharedConnection& shared_connection, std::size_t created) {
  try {
    shared_connection.with_connection([&](redis::Connection& connection) {
      redis::Pipeline pipeline(connection);
      publish_event(pipeline, shared_connection.store().keys().channel, EventKind::sent, created);
      pipeline.run();
      pipeline.reply(0);
    });
  } catch (const std::exception& e) {  // the messages are sent; only the event is missing
    const std::string text = std::string("cannot publish an event: ") + e.what();
    std::unique_lock lock(failures_mutex_);
    const bool warns = failures_.warns(this, text, false, FailureLog::Clock::now());
    lock.unlock();
    event_sink_.log(warns ? Severity::warning : Severity::debug, text);
  }
}

void Producer::Impl::log_risks(const std::string& id) {
  if (!event_sink_.has_listener() || risks_logged_.exchange(true)) return;
  try {
    std::string where;
    const auto risks = spreader_.connection_of(id).with_connection([&](redis::Connection& connection) {
      where = connection.where();
      return find_risks(connection);
    });
    RiskWatch().log(risks, where, event_sink_);
  } catch (const std::exception& e) {  // the call of the user has succeeded; not only an Error: of a TLS file
    event_sink_.log(Severity::debug, std::string("cannot read the risks of the server: ") + e.what());
  }
}

Producer::Producer(const std::string& url, const std::string& queue, ProducerOptions options)
    : impl_("Producer", std::make_unique<Impl>(url, queue, std::move(options))) {}
Producer::~Producer() = default;
Producer::Producer(Producer&&) noexcept = default;
Producer& Producer::operator=(Producer&&) noexcept = default;

Sent Producer::send(std::string_view payload, const SendOptions& options) {
  if (!impl_->has_before_send()) return impl_->send(payload, options);
  OutgoingMessage message{std::string(payload), options};
  impl_->before_send(message);
  return impl_->send(message.payload, message.options);
}

std::future<Sent> Producer::send_async(std::string payload, const SendOptions& options) {
  if (!impl_->has_before_send()) return impl_->send_async(std::move(payload), options);
  OutgoingMessage message{std::move(payload), options};
  impl_->before_send(message);
  return impl_->send_async(std::move(message.payload), message.options);
}

std::vector<Sent> Producer::send_views(const std::vector<std::string_view>& payloads, const SendOptions& options) {
  if (!options.id.empty())
    throw std::invalid_argument("id: " + options.id + "; every message of a batch needs its own");
  if (!impl_->has_before_send()) return impl_->send_views(payloads, options);
  std::vector<OutgoingMessage> messages;
  messages.reserve(payloads.size());
  for (const std::string_view payload : payloads) {
    impl_->before_send(messages.emplace_back(OutgoingMessage{std::string(payload), options}));
  }
  return impl_->send_batch(messages);
}

std::vector<Sent> Producer::send_batch(const std::vector<OutgoingMessage>& messages) {
  if (!impl_->has_before_send()) return impl_->send_batch(messages);
  std::vector<OutgoingMessage> changed = messages;
  for (OutgoingMessage& message : changed) impl_->before_send(message);
  return impl_->send_batch(changed);
}

State Producer::cancel(std::string_view id) { return impl_->cancel(id_of("id", id)); }

Moved Producer::reschedule(std::string_view id, const RescheduleOptions& when) {
  const std::string canonical = id_of("id", id);
  return impl_->reschedule(canonical, due_of(when.delay, when.at));
}

ProducerStats Producer::stats() const { return impl_->stats(); }
ProducerMetrics Producer::metrics() const { return impl_->metrics(); }

}  // namespace delayqueue
