// A trace that goes on from the sender to the handler: W3C trace context in the headers of messages, with the API of
// OpenTelemetry.   trace_context [URL]
//
// The API has only headers, and does nothing by itself: without an SDK there are no spans, and this program shows that
// the context of the caller arrives. To export spans, link the SDK and call SetTracerProvider() at the start of main().

#include "command_line.h"

#include <delayqueue/delayqueue.h>

#include <opentelemetry/common/attribute_value.h>
#include <opentelemetry/context/runtime_context.h>
#include <opentelemetry/trace/context.h>
#include <opentelemetry/trace/default_span.h>
#include <opentelemetry/trace/propagation/http_trace_context.h>
#include <opentelemetry/trace/provider.h>
#include <opentelemetry/trace/scope.h>
#include <opentelemetry/trace/tracer.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <future>
#include <iostream>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using delayqueue::Message;
using delayqueue::Verdict;
using opentelemetry::context::Context;
using opentelemetry::context::RuntimeContext;
using opentelemetry::context::propagation::TextMapCarrier;
using opentelemetry::nostd::string_view;
using opentelemetry::trace::Span;
using opentelemetry::trace::SpanContext;
using opentelemetry::trace::propagation::HttpTraceContext;
using Attributes = std::vector<std::pair<string_view, opentelemetry::common::AttributeValue>>;
using SpanPtr = opentelemetry::nostd::shared_ptr<Span>;

constexpr char kQueue[] = "trace-context";

opentelemetry::nostd::shared_ptr<opentelemetry::trace::Tracer> tracer() {
  return opentelemetry::trace::Provider::GetTracerProvider()->GetTracer("delayqueue");
}

// Attributes with the names of OpenTelemetry's conventions for messaging. They refer to the strings.
Attributes attributes(const char* operation, string_view queue) {
  return {{"messaging.system", "delayqueue"},
          {"messaging.destination.name", queue},
          {"messaging.operation.type", operation},
          {"messaging.operation.name", operation}};
}

// Writes the headers of a message that is sent.
class HeaderWriter : public TextMapCarrier {
 public:
  explicit HeaderWriter(delayqueue::Headers& headers) : headers_(headers) {}

  string_view Get(string_view /*name*/) const noexcept override { return {}; }
  void Set(string_view name, string_view value) noexcept override {
    try {
      headers_.set({name.data(), name.size()}, {value.data(), value.size()});
    } catch (const std::exception&) {  // no room among the headers: better a message without a trace than none
    }
  }

 private:
  delayqueue::Headers& headers_;
};

// Reads the headers of a message that was delivered.
class HeaderReader : public TextMapCarrier {
 public:
  explicit HeaderReader(const delayqueue::Headers& headers) : headers_(headers) {}

  string_view Get(string_view name) const noexcept override {
    const std::string* value = headers_.find({name.data(), name.size()});
    return value == nullptr ? string_view() : string_view(value->data(), value->size());
  }
  void Set(string_view /*name*/, string_view /*value*/) noexcept override {}

 private:
  const delayqueue::Headers& headers_;
};

// ProducerOptions::before_send: the message carries the context of a new span, or without an SDK that of the
// caller. A repeated send replaces it.
void inject(delayqueue::OutgoingMessage& message) {
  opentelemetry::trace::StartSpanOptions options;
  options.kind = opentelemetry::trace::SpanKind::kProducer;
  const SpanPtr span = tracer()->StartSpan(std::string("create ") + kQueue, attributes("create", kQueue), options);
  Context current = RuntimeContext::GetCurrent();
  HeaderWriter writer(message.options.headers);
  HttpTraceContext().Inject(writer,
                            span->GetContext().IsValid() ? opentelemetry::trace::SetSpan(current, span) : current);
  span->End();
}

// The span in which the message was created; not valid if it carries none.
SpanContext creator_of(const Message& message) {
  Context none;
  return opentelemetry::trace::GetSpanContext(HttpTraceContext().Extract(HeaderReader(message.headers()), none));
}

// ConsumerOptions::middleware: a span for each call of the handler. It links to the creator, and is not its child: a
// message may be handled hours later, and more than once. The span is active in the handler, so that those of its calls
// are its children.
std::optional<Verdict> trace_handler(const Message& message, const delayqueue::NextHandler& next) {
  Attributes of_span = attributes("process", message.queue());
  of_span.emplace_back("messaging.message.id", string_view(message.id()));
  of_span.emplace_back("delayqueue.attempt", message.attempt());
  std::vector<std::pair<SpanContext, Attributes>> links;
  if (const SpanContext creator = creator_of(message); creator.IsValid()) links.push_back({creator, {}});
  opentelemetry::trace::StartSpanOptions options;
  options.kind = opentelemetry::trace::SpanKind::kConsumer;
  const SpanPtr span = tracer()->StartSpan("process " + message.queue(), of_span, links, options);
  const opentelemetry::trace::Scope active(span);
  try {
    std::optional<Verdict> verdict = next();
    const bool failed = verdict && (verdict->kind() == Verdict::Kind::nack || verdict->kind() == Verdict::Kind::reject);
    if (failed) span->SetStatus(opentelemetry::trace::StatusCode::kError, verdict->reason());
    span->End();
    return verdict;
  } catch (const std::exception& e) {
    span->SetStatus(opentelemetry::trace::StatusCode::kError, e.what());
    throw;  // the destructor of the span ends it
  }
}

std::string trace_id_of(const SpanContext& context) {
  char digits[2 * opentelemetry::trace::TraceId::kSize];
  context.trace_id().ToLowerBase16(digits);
  return {digits, sizeof digits};
}

// Stands for the span of a request that a server handles, and in which it sends a message.
SpanPtr request_span() {
  std::random_device random;
  const auto fill = [&](std::uint8_t& byte) { byte = static_cast<std::uint8_t>(random()); };
  std::uint8_t trace[opentelemetry::trace::TraceId::kSize], span[opentelemetry::trace::SpanId::kSize];
  for (std::uint8_t& byte : trace) fill(byte);
  for (std::uint8_t& byte : span) fill(byte);
  const SpanContext context(opentelemetry::trace::TraceId(trace), opentelemetry::trace::SpanId(span),
                            opentelemetry::trace::TraceFlags(opentelemetry::trace::TraceFlags::kIsSampled), false);
  return SpanPtr(new opentelemetry::trace::DefaultSpan(context));
}

}  // namespace

int main(int argc, char** argv) {
  const CommandLine line = read_command_line(argc, argv, "embedded:");
  if (!line.words.empty()) {
    std::cerr << "usage: trace_context [URL]\n  URL: as for send; default: embedded:\n";
    return 2;
  }

  return run_main("trace_context", [&] {
    std::promise<SpanContext> arrives;
    auto arrived = arrives.get_future();
    std::string sent_id;
    {
      const SpanPtr request = request_span();
      const opentelemetry::trace::Scope active(request);
      sent_id = trace_id_of(request->GetContext());
      delayqueue::Producer(line.url, kQueue, {.before_send = inject}).send("order 42");
    }
    std::cout << "sent in the trace      " << sent_id << '\n';

    delayqueue::Consumer worker(line.url, kQueue,
                                [&](const Message& message) {
                                  arrives.set_value(creator_of(message));
                                  return delayqueue::ack();
                                },
                                {.concurrency = 1, .middleware = trace_handler});
    worker.start();
    if (arrived.wait_for(60s) != std::future_status::ready) return 1;
    const std::string arrived_id = trace_id_of(arrived.get());
    std::cout << "handled, linked to it: " << arrived_id << '\n';
    return worker.stop(20s) && arrived_id == sent_id ? 0 : 1;
  });
}
