#include "producer/send_batch.h"

#include <delayqueue/error.h>

#include <algorithm>
#include <cstdint>

namespace delayqueue {
namespace {

constexpr std::size_t kCallBytes = 256 * 1024;
// Limits of a batch, which is one write and one read: short for the waiting threads, long enough to repay a round trip.
constexpr std::size_t kBatchBytes = 4 * kCallBytes;
constexpr std::size_t kBatchMessages = 4 * store::kBatch;
constexpr std::size_t kBatchCalls = 32;

bool same_terms(const store::SendTerms& a, const store::SendTerms& b) {
  return &a == &b || (a.due.delay == b.due.delay && a.due.at_ms == b.due.at_ms && a.retries == b.retries &&
                      a.ttl == b.ttl && a.fresh == b.fresh);
}

const store::SendTerms& terms_of(const SendStep& step) { return *step.request->messages[step.begin].terms; }

}  // namespace

void SendStep::clear_ids() const {
  for (std::size_t i = begin; i < end; ++i) request->sent[i].id.clear();
}

SendStep next_step(SendRequest& request) {
  SendStep step{&request, request.loaded, request.loaded, 0};
  const store::SendTerms& terms = terms_of(step);
  for (; step.end < request.messages.size() && step.messages() < store::kBatch; ++step.end) {
    const PendingMessage& message = request.messages[step.end];
    const std::size_t size = message.size();
    if (step.end > step.begin && (step.bytes + size > kCallBytes || !same_terms(*message.terms, terms))) break;
    step.bytes += size;
  }
  return step;
}

std::vector<std::string> ScriptCall::ids() const {
  std::vector<std::string> all;
  for (const SendStep& step : steps) {
    for (std::size_t i = step.begin; i < step.end; ++i) all.push_back(step.request->sent[i].id);
  }
  return all;
}

bool ScriptCall::fits(const SendStep& step) const {
  return same_terms(*terms, terms_of(step)) && bodies_first == step.request->bodies_first &&
         messages + step.messages() <= store::kBatch && bytes + step.bytes <= kCallBytes;
}

void ScriptCall::add(const SendStep& step) {
  steps.push_back(step);
  messages += step.messages();
  bytes += step.bytes;
}

store::Outcomes ScriptCall::outcomes() const {
  store::Outcomes outcomes = answer->get();
  if (outcomes.size() != messages) {
    throw ReplyError("send: the server answered for " + std::to_string(outcomes.size()) + " messages; expected " +
                     std::to_string(messages));
  }
  return outcomes;
}

std::optional<std::size_t> SendBatch::add(const SendStep& step, std::size_t first_call) {
  if (!calls.empty()) {
    if (step.bytes > kCallBytes || calls.front().bytes > kCallBytes) return std::nullopt;
    if (bytes + step.bytes > kBatchBytes || messages + step.messages() > kBatchMessages) return std::nullopt;
  }
  const auto first = calls.begin() + static_cast<std::ptrdiff_t>(first_call);
  auto call = std::find_if(first, calls.end(), [&](const ScriptCall& one) { return one.fits(step); });
  if (call == calls.end()) {
    if (calls.size() == kBatchCalls) return std::nullopt;
    calls.push_back({&terms_of(step)});
    call = calls.end() - 1;
    call->bodies_first = step.request->bodies_first;
  }
  call->add(step);
  messages += step.messages();
  bytes += step.bytes;
  return static_cast<std::size_t>(call - calls.begin());
}

bool SendBatch::has_only_new() const {
  return std::all_of(calls.begin(), calls.end(), [](const ScriptCall& call) { return call.terms->fresh; });
}

void SendBatch::add_requests(const store::Store& store) {
  std::vector<store::NewMessage> together;
  for (ScriptCall& call : calls) {
    together.clear();
    for (const SendStep& step : call.steps) {
      for (std::size_t i = step.begin; i < step.end; ++i) {
        const PendingMessage& message = step.request->messages[i];
        together.push_back({step.request->sent[i].id, message.payload, message.headers});
      }
    }
    store::SendTerms terms = *call.terms;
    terms.bodies_first = call.bodies_first;
    call.stores_bodies_first = store.stores_bodies_first(together, terms);
    call.answer = store.send(*pipeline, together, terms);
    call.is_first = store::Store::is_first(*pipeline);
  }
}

}  // namespace delayqueue
