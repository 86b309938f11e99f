#include <delayqueue/producer.h>

#include "channel.h"
#include "check.h"
#include "report.h"
#include "risks.h"
#include "session.h"
#include "state.h"

#include <atomic>
#include <stdexcept>

namespace delayqueue {
namespace {

// A step is one script call: all or nothing. Steps are pipelined, so many at a time.
constexpr std::size_t kStepBytes = 256 * 1024;
constexpr std::size_t kPipelineBytes = 4 * kStepBytes;

struct Outgoing {
  std::string id;
  std::string_view payload;
  store::SendTerms terms;
};

bool same_terms(const store::SendTerms& a, const store::SendTerms& b) {
  return a.due.delay == b.due.delay && a.due.at_ms == b.due.at_ms && a.retries == b.retries && a.ttl == b.ttl &&
         a.fresh == b.fresh;
}

std::vector<std::string> ids_of(const std::vector<Outgoing>& messages) {
  std::vector<std::string> ids;
  ids.reserve(messages.size());
  for (const Outgoing& message : messages) ids.push_back(message.id);
  return ids;
}

}  // namespace

class Producer::Impl {
 public:
  Impl(const std::string& url, const std::string& queue, ProducerOptions options)
      : session_(url, queue, options.connection, options.queue, options.durability),
        options_(std::move(options)),
        report_(options_.logger, options_.on_event, false) {
    check(options_);
  }

  std::vector<Sent> send(const std::vector<Outgoing>& messages);
  store::SendTerms terms_of(const SendOptions& options) const;
  void check_payload(std::string_view payload) const;
  Session& session() { return session_; }

  // Once, after the first call that got through.
  void warn_of_risks();

 private:
  std::size_t step_end(const std::vector<Outgoing>& messages, std::size_t begin, std::size_t& bytes) const;
  std::size_t send_some(redis::Connection& connection, const std::vector<Outgoing>& messages, std::vector<Sent>& sent);
  void tell(const std::vector<Sent>& sent);
  void publish(std::size_t created);

  Session session_;
  const ProducerOptions options_;
  Report report_;
  std::atomic<bool> warned_{false};
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

std::vector<Sent> Producer::Impl::send(const std::vector<Outgoing>& messages) {
  if (messages.empty()) return {};
  std::vector<Sent> sent;
  sent.reserve(messages.size());
  try {
    session_.with_connection([&](redis::Connection& connection) {
      while (sent.size() < messages.size()) send_some(connection, messages, sent);
    });
  } catch (const ConnectionError& e) {
    throw ConnectionError(e.what(), ids_of(messages));
  }
  tell(sent);
  warn_of_risks();
  return sent;
}

// The end of the step that begins at `begin`: alike in terms, and within the bounds of one script call.
std::size_t Producer::Impl::step_end(const std::vector<Outgoing>& messages, std::size_t begin,
                                     std::size_t& bytes) const {
  std::size_t end = begin;
  std::size_t size = 0;
  while (end < messages.size() && end - begin < store::kBatch &&
         same_terms(messages[end].terms, messages[begin].terms)) {
    if (end > begin && size + messages[end].payload.size() > kStepBytes) break;
    size += messages[end++].payload.size();
  }
  bytes += size;
  return end;
}

std::size_t Producer::Impl::send_some(redis::Connection& connection, const std::vector<Outgoing>& messages,
                                      std::vector<Sent>& sent) {
  redis::Pipeline pipeline(connection);
  std::vector<redis::Answer<store::Outcomes>> answers;
  std::vector<std::size_t> sizes;
  std::size_t next = sent.size();
  bool soon = false;
  for (std::size_t bytes = 0; next < messages.size() && bytes < kPipelineBytes && answers.size() < 16;) {
    const std::size_t end = step_end(messages, next, bytes);
    std::vector<store::NewMessage> step;
    step.reserve(end - next);
    for (std::size_t i = next; i < end; ++i) step.push_back({messages[i].id, messages[i].payload});
    answers.push_back(session_.store().send(pipeline, step, messages[next].terms));
    soon = soon || is_soon(messages[next].terms.due);
    sizes.push_back(step.size());
    next = end;
  }
  if (soon) session_.store().wake(pipeline);
  const auto durable = session_.durable().ask(pipeline);
  pipeline.run();
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const store::Outcomes outcomes = answers[i].get();
    if (outcomes.size() != sizes[i]) throw ReplyError("send: the server answered for another number of messages");
    for (const char outcome : outcomes) sent.push_back({messages.at(sent.size()).id, outcome == '1'});
  }
  if (const std::string missing = session_.durable().missing(durable); !missing.empty()) {
    throw ConnectionError("sent to " + connection.where() + ", but " + missing);
  }
  return next;
}

void Producer::Impl::tell(const std::vector<Sent>& sent) {
  if (!options_.report_events && !report_.wants_events()) return;
  std::vector<std::string> created;
  for (const Sent& one : sent) {
    if (one.created) created.push_back(one.id);
  }
  if (created.empty()) return;
  if (options_.report_events) publish(created.size());
  report_.event(EventKind::sent, std::move(created));
}

void Producer::Impl::publish(std::size_t created) {
  try {
    session_.with_connection([&](redis::Connection& connection) {
      redis::Pipeline pipeline(connection);
      publish_event(pipeline, session_.store().keys().channel, EventKind::sent, created);
      pipeline.run();
      pipeline.reply(0);
    });
  } catch (const Error& e) {  // the messages are sent; this changes nothing
    report_.log(Severity::warning, std::string("cannot publish an event: ") + e.what());
  }
}

void Producer::Impl::warn_of_risks() {
  if (!options_.logger || warned_.exchange(true)) return;
  try {
    std::string where;
    const auto risks = session_.with_connection([&](redis::Connection& connection) {
      where = connection.where();
      return find_risks(connection);
    });
    RiskWatch().tell(risks, where, report_);
  } catch (const Error& e) {  // the call has been made; this changes nothing
    report_.log(Severity::debug, std::string("cannot ask for risks: ") + e.what());
  }
}

Producer::Producer(const std::string& url, const std::string& queue, ProducerOptions options)
    : impl_(std::make_unique<Impl>(url, queue, std::move(options))) {}
Producer::~Producer() = default;
Producer::Producer(Producer&&) noexcept = default;
Producer& Producer::operator=(Producer&&) noexcept = default;

Sent Producer::send(std::string_view payload, const SendOptions& options) {
  impl_->check_payload(payload);
  const store::SendTerms terms = impl_->terms_of(options);
  const std::string id = options.id.empty() ? store::new_ids(1).front() : id_of("id", options.id);
  return impl_->send({{id, payload, terms}}).front();
}

std::vector<Sent> Producer::send_batch(const std::vector<std::string>& payloads, const SendOptions& options) {
  if (!options.id.empty())
    throw std::invalid_argument("id: " + options.id + "; every message of a batch needs its own");
  const store::SendTerms terms = impl_->terms_of(options);
  std::vector<std::string> ids = store::new_ids(payloads.size());
  std::vector<Outgoing> messages;
  messages.reserve(payloads.size());
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    impl_->check_payload(payloads[i]);
    messages.push_back({std::move(ids[i]), payloads[i], terms});
  }
  return impl_->send(messages);
}

std::vector<Sent> Producer::send_batch(std::initializer_list<std::string_view> payloads, const SendOptions& options) {
  return send_batch(std::vector<std::string>(payloads.begin(), payloads.end()), options);
}

std::vector<Sent> Producer::send_batch(const std::vector<Draft>& drafts) {
  std::vector<std::string> ids = store::new_ids(drafts.size());
  std::vector<Outgoing> messages;
  messages.reserve(drafts.size());
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    const Draft& draft = drafts[i];
    impl_->check_payload(draft.payload);
    if (!draft.options.id.empty()) ids[i] = id_of("id", draft.options.id);
    messages.push_back({std::move(ids[i]), draft.payload, impl_->terms_of(draft.options)});
  }
  return impl_->send(messages);
}

State Producer::cancel(std::string_view id) {
  const std::string canonical = id_of("id", id);
  const std::string state = impl_->session().ask(
      [&](redis::Pipeline& pipeline) { return impl_->session().store().cancel(pipeline, canonical); });
  impl_->warn_of_risks();
  return state_of(state);
}

Moved Producer::reschedule(std::string_view id, const RescheduleOptions& when) {
  const std::string canonical = id_of("id", id);
  const store::Due due = due_of(when.delay, when.at);
  const std::string outcome = impl_->session().ask([&](redis::Pipeline& pipeline) {
    const auto answer = impl_->session().store().reschedule(pipeline, canonical, due);
    if (is_soon(due)) impl_->session().store().wake(pipeline);
    return answer;
  });
  impl_->warn_of_risks();
  if (outcome == "moved") return Moved::moved;
  return outcome == "refused" ? Moved::refused : Moved::unknown;
}

}  // namespace delayqueue
