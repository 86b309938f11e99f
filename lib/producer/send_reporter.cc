#include "producer/send_reporter.h"

#include "queue/go_events.h"
#include "queue/server_risks.h"
#include "redis/pipeline.h"

#include <utility>

namespace delayqueue {

ProducerMetrics SendReporter::metrics(Router& router) const {
  return {router.home().endpoint().queue(), sent_, failed_, router.moved(), send_time_.read()};
}

void SendReporter::count(const std::vector<SendRequest>& requests, std::chrono::steady_clock::time_point began) {
  send_time_.record(std::chrono::steady_clock::now() - began);
  for (const SendRequest& request : requests) {
    (request.failure ? failed_ : sent_).fetch_add(request.messages.size(), std::memory_order_relaxed);
  }
}

void SendReporter::sent(Router& router, const std::vector<SendRequest>& requests) {
  std::vector<std::string> created;
  const std::string* any = nullptr;
  for (const SendRequest& request : requests) {
    if (request.failure || request.messages.empty()) continue;
    if (any == nullptr) any = &request.messages.front().id;
    if (!publishes_ && !sink_.wants_events()) break;
    for (const PendingMessage& message : request.messages) {
      if (message.outcome == SendOutcome::created) created.push_back(message.id);
    }
  }
  if (!created.empty()) {
    if (publishes_) publish(router.connection_of(created.front()), created.size());
    sink_.event(EventKind::sent, std::move(created));
  }
  if (any != nullptr) log_risks(router, *any);
}

void SendReporter::publish(SharedConnection& connection, std::size_t created) {
  const auto failure = redis::attempt([&] {
    connection.with_connection([&](redis::Connection& used) {
      redis::Pipeline pipeline(used);
      publish_event(pipeline, connection.moves().keys().channel, EventKind::sent, created);
      pipeline.run();
      pipeline.reply(0);
    });
  });
  // The messages are sent; only the event is missing.
  if (failure) failures_.failed(this, "cannot publish an event: " + failure->text, false);
}

void SendReporter::log_risks(Router& router, const std::string& id) {
  if (!sink_.has_listener() || risks_logged_.exchange(true)) return;
  const auto failure = redis::attempt([&] {
    std::string where;
    const auto risks = router.connection_of(id).with_connection([&](redis::Connection& connection) {
      where = connection.where();
      return find_risks(connection);
    });
    RiskWatch().log(risks, where, sink_);
  });
  if (failure) sink_.log(Severity::debug, "cannot read the risks of the server: " + failure->text);
}

}  // namespace delayqueue
