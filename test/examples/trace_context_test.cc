// The example trace_context with a tracer that records its spans, made with the API of OpenTelemetry alone. A separate
// program, because it needs C++20; skipped where opentelemetry-cpp was not found.
#include <doctest/doctest.h>

#define main trace_context_main
#include "examples/trace_context.cc"
#undef main

#include <delayqueue/server.h>
#include <delayqueue/testing.h>

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>

namespace {

namespace trace = opentelemetry::trace;
using opentelemetry::common::AttributeValue;
using opentelemetry::common::KeyValueIterable;

struct SpanRecord {
  std::string name{};
  trace::SpanKind kind{};
  SpanContext context = SpanContext::GetInvalid();
  SpanContext parent = SpanContext::GetInvalid();
  std::vector<SpanContext> links{};
  std::map<std::string, std::string> attributes{};
  trace::StatusCode status = trace::StatusCode::kUnset;
  std::string description{};
  bool ended = false;
};
using RecordPtr = std::shared_ptr<SpanRecord>;

class RecordedSpan : public trace::DefaultSpan {
 public:
  explicit RecordedSpan(RecordPtr record) : DefaultSpan(record->context), record_(std::move(record)) {}
  ~RecordedSpan() noexcept override { record_->ended = true; }

  bool IsRecording() const noexcept override { return true; }
  void SetStatus(trace::StatusCode status, string_view description) noexcept override {
    record_->status = status;
    record_->description = std::string(description.data(), description.size());
  }
  void End(const trace::EndSpanOptions& /*options*/) noexcept override { record_->ended = true; }

 private:
  const RecordPtr record_;
};

struct AsText {
  std::string operator()(const char* text) const { return text; }
  std::string operator()(string_view text) const { return {text.data(), text.size()}; }
  std::string operator()(std::int32_t number) const { return std::to_string(number); }
  template <class T>
  std::string operator()(const T& /*other*/) const {
    return "of another type";
  }
};

// As the SDK: the parent is the one that the options name, else the active span; a span without parent begins a trace.
class RecordingTracer : public trace::Tracer {
 public:
  SpanPtr StartSpan(string_view name, const KeyValueIterable& attributes,
                    const trace::SpanContextKeyValueIterable& links,
                    const trace::StartSpanOptions& options) noexcept override {
    auto record = std::make_shared<SpanRecord>();
    record->name = std::string(name.data(), name.size());
    record->kind = options.kind;
    const auto* named = opentelemetry::nostd::get_if<SpanContext>(&options.parent);
    record->parent = named != nullptr && named->IsValid() ? *named : GetCurrentSpan()->GetContext();
    attributes.ForEachKeyValue([&](string_view key, AttributeValue value) noexcept {
      record->attributes[{key.data(), key.size()}] = opentelemetry::nostd::visit(AsText(), value);
      return true;
    });
    links.ForEachKeyValue([&](const SpanContext& link, const KeyValueIterable& /*attributes*/) noexcept {
      record->links.push_back(link);
      return true;
    });
    const std::lock_guard lock(mutex_);
    spans_.push_back(record);
    const auto number = static_cast<std::uint8_t>(spans_.size());
    const std::uint8_t trace_id[trace::TraceId::kSize] = {number};
    const std::uint8_t span_id[trace::SpanId::kSize] = {number};
    record->context =
        SpanContext(record->parent.IsValid() ? record->parent.trace_id() : trace::TraceId(trace_id),
                    trace::SpanId(span_id), trace::TraceFlags(trace::TraceFlags::kIsSampled), /*is_remote=*/false);
    return SpanPtr(new RecordedSpan(record));
  }
#if OPENTELEMETRY_ABI_VERSION_NO == 1
  void ForceFlushWithMicroseconds(std::uint64_t /*timeout*/) noexcept override {}
  void CloseWithMicroseconds(std::uint64_t /*timeout*/) noexcept override {}
#endif

  std::vector<RecordPtr> spans() const {
    const std::lock_guard lock(mutex_);
    return spans_;
  }

 private:
  mutable std::mutex mutex_;  // guards spans_
  std::vector<RecordPtr> spans_;
};

class OneTracer : public trace::TracerProvider {
 public:
  using TracerPtr = opentelemetry::nostd::shared_ptr<trace::Tracer>;

  explicit OneTracer(TracerPtr tracer) : tracer_(std::move(tracer)) {}

#if OPENTELEMETRY_ABI_VERSION_NO == 1
  TracerPtr GetTracer(string_view /*name*/, string_view /*version*/, string_view /*schema_url*/) noexcept override {
    return tracer_;
  }
#else
  TracerPtr GetTracer(string_view /*name*/, string_view /*version*/, string_view /*schema_url*/,
                      const KeyValueIterable* /*attributes*/) noexcept override {
    return tracer_;
  }
#endif

 private:
  const TracerPtr tracer_;
};

// Records the spans of the process while it exists.
class Recording {
 public:
  Recording() : tracer_(new RecordingTracer), as_tracer_(tracer_) {
    trace::Provider::SetTracerProvider(
        opentelemetry::nostd::shared_ptr<trace::TracerProvider>(new OneTracer(as_tracer_)));
  }
  ~Recording() { trace::Provider::SetTracerProvider({}); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // The only one with this name.
  SpanRecord span(const std::string& name) const {
    const auto all = tracer_->spans();
    const auto has_name = [&](const RecordPtr& one) { return one->name == name; };
    REQUIRE(std::count_if(all.begin(), all.end(), has_name) == 1);
    return **std::find_if(all.begin(), all.end(), has_name);
  }
  std::size_t size() const { return tracer_->spans().size(); }

 private:
  RecordingTracer* const tracer_;
  const OneTracer::TracerPtr as_tracer_;
};

const std::string kCreate = "create trace-context";
const std::string kProcess = "process trace-context";

TEST_CASE("the span of a handler links to the span that created the message, a child of the sender's active span") {
  const Recording recording;
  const delayqueue::PrivateServer server;
  std::string id;
  {
    const SpanPtr request = tracer()->StartSpan("request");
    const trace::Scope active(request);
    id = delayqueue::Producer(server.url(), kQueue, {.before_send = inject}).send("order 42").id;
  }
  std::promise<std::string> handled;
  const auto handler = [&](const Message& message) {
    tracer()->StartSpan("query");
    handled.set_value(*message.headers().find("traceparent"));
    return delayqueue::ack();
  };
  delayqueue::Consumer worker(server.url(), kQueue, handler, {.concurrency = 1, .middleware = trace_handler});
  worker.start();
  auto traceparent = handled.get_future();
  REQUIRE(traceparent.wait_for(60s) == std::future_status::ready);
  REQUIRE(worker.stop(20s));

  const SpanRecord request = recording.span("request");
  const SpanRecord create = recording.span(kCreate);
  const SpanRecord process = recording.span(kProcess);
  CHECK(traceparent.get() == "00-" + trace_id_of(request.context) + "-0200000000000000-01");
  CHECK(create.parent == request.context);
  CHECK(create.kind == trace::SpanKind::kProducer);
  CHECK(create.ended);
  REQUIRE(process.links.size() == 1);
  CHECK(process.links[0] == create.context);
  CHECK_FALSE(process.parent.IsValid());
  CHECK(trace_id_of(process.context) != trace_id_of(request.context));
  CHECK(process.kind == trace::SpanKind::kConsumer);
  CHECK(process.status == trace::StatusCode::kUnset);
  CHECK(process.ended);
  CHECK(recording.span("query").parent == process.context);
  CHECK(recording.size() == 4);

  CHECK(process.attributes == std::map<std::string, std::string>{{"messaging.system", "delayqueue"},
                                                                 {"messaging.destination.name", kQueue},
                                                                 {"messaging.operation.type", "process"},
                                                                 {"messaging.operation.name", "process"},
                                                                 {"messaging.message.id", id},
                                                                 {"delayqueue.attempt", "1"}});
  CHECK(create.attributes.at("messaging.operation.type") == "create");
}

TEST_CASE("the example ends well with a tracer") {
  const Recording recording;
  std::string program = "trace_context", url = "embedded:";
  std::array<char*, 3> words{program.data(), url.data(), nullptr};
  CHECK(trace_context_main(2, words.data()) == 0);
  CHECK(recording.span(kProcess).links.at(0) == recording.span(kCreate).context);
}

TEST_CASE("a message that carries no trace context is handled in a span without a link") {
  const Recording recording;
  trace_handler(delayqueue::make_message("x", {.queue = kQueue}), [] { return delayqueue::ack(); });
  trace_handler(delayqueue::make_message("x", {.queue = "other", .headers = {{"traceparent", "00-zz"}}}),
                [] { return delayqueue::ack(); });
  CHECK(recording.span(kProcess).links.empty());
  CHECK(recording.span("process other").links.empty());
}

TEST_CASE("a handler that fails sets the status of its span") {
  const Recording recording;
  const auto message = [](const char* queue) { return delayqueue::make_message("x", {.queue = queue}); };
  trace_handler(message("nacks"), [] { return delayqueue::nack(1s, "no stock"); });
  CHECK_THROWS_AS(trace_handler(message("throws"), []() -> Verdict { throw std::runtime_error("no disk"); }),
                  std::runtime_error);
  const std::map<std::string, std::string> reasons{{"process nacks", "no stock"}, {"process throws", "no disk"}};
  for (const auto& [name, reason] : reasons) {
    const SpanRecord span = recording.span(name);
    CHECK(span.status == trace::StatusCode::kError);
    CHECK(span.description == reason);
    CHECK(span.ended);
  }
}

TEST_CASE("a message whose headers are full is sent without a trace context") {
  const Recording recording;
  delayqueue::OutgoingMessage message;
  for (std::size_t i = 0; i < delayqueue::Headers::kMost; ++i) message.options.headers.set(std::to_string(i), "");
  const delayqueue::Headers before = message.options.headers;
  inject(message);
  CHECK(message.options.headers == before);
  CHECK(recording.span(kCreate).ended);
}

}  // namespace
