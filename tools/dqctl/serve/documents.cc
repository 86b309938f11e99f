#include "serve/documents.h"

#include <vector>

#include "limits_text.h"
#include "pause_text.h"
#include "totals.h"

namespace dqctl {
namespace {

using delayqueue::Counts;
using delayqueue::MessageInfo;

constexpr const char* kQueueNumbers[] = {"pending", "ready", "unack", "retry", "dead", "due", "overdue", "paused"};

std::optional<milliseconds::rep> in_ms(const std::optional<milliseconds>& span) {
  return span ? std::optional(span->count()) : std::nullopt;
}

Object rates_object(const TotalRates& rates) {
  Object object;
  for (std::size_t i = 0; i < kTotals.size(); ++i) object.add(kTotals[i].name, rates[i]);
  return object;
}

std::optional<Time> sent_at(const std::optional<MessageInfo>& message) {
  return message ? message->sent : std::nullopt;
}

}  // namespace

Object redis_object(const RedisName& redis, const Readings& readings) {
  Object object;
  object.add("uri", redis.uri).add("prefix", redis.prefix).add("reachable", !readings.failing_since.has_value());
  object.add("since", readings.failing_since);
  return readings.error.empty() ? object.add_null("error") : object.add("error", printable(readings.error));
}

Object queue_fields(const QueueReading& reading, std::size_t history_minutes) {
  Object object;
  object.add("queue", reading.queue);
  if (!reading.error.empty()) {
    for (const char* name : kQueueNumbers) object.add_null(name);
    for (const char* name : {"limits", "oldest_due", "oldest_lease", "lateness_ms", "oldest_ms", "partitions", "rates",
                             "level", "finding"}) {
      object.add_null(name);
    }
    return object.add("history_minutes", history_minutes).add("error", printable(reading.error));
  }
  const Counts& counts = reading.state.counts;
  object.add("pending", counts.pending).add("ready", counts.ready).add("unack", counts.unack);
  object.add("retry", counts.retry).add("dead", counts.dead).add("due", counts.due).add("overdue", counts.overdue);
  object.add("paused", counts.paused);
  if (reading.state.pause) add_pause(object, *reading.state.pause);
  add_limits_of(object, counts);
  object.add("oldest_due", counts.oldest_due).add("oldest_lease", counts.oldest_lease);
  object.add("lateness_ms", in_ms(reading.oldest)).add("oldest_ms", in_ms(reading.oldest));
  object.add("partitions", counts.partitions);
  reading.rates ? object.add("rates", rates_object(*reading.rates)) : object.add_null("rates");
  if (reading.worst) {
    object.add("level", to_string(reading.worst->level));
  } else {
    object.add_null("level");
  }
  const bool has_text = reading.worst && !reading.worst->what.empty();
  has_text ? object.add("finding", reading.worst->what) : object.add_null("finding");
  return object.add("history_minutes", history_minutes).add_null("error");
}

Object stats_fields(const QueueReading& reading, const std::optional<MessageInfo>& first_unack,
                    const std::optional<MessageInfo>& first_dead) {
  Object object;
  if (!reading.error.empty()) {
    for (const char* name :
         {"now", "garbage", "oldest_ready_sent", "oldest_unack_sent", "oldest_retry_sent", "oldest_dead", "totals"}) {
      object.add_null(name);
    }
    return object;
  }
  Object totals;
  for (const Total& total : kTotals) totals.add(total.name, reading.state.counts.totals.*total.member);
  object.add("now", reading.state.counts.now).add("garbage", reading.state.counts.garbage);
  object.add("oldest_ready_sent", sent_at(reading.state.first_ready)).add("oldest_unack_sent", sent_at(first_unack));
  object.add("oldest_retry_sent", sent_at(reading.state.first_retry));
  object.add("oldest_dead", first_dead ? first_dead->at : std::nullopt);
  return object.add("totals", totals);
}

Object queues_document(const RedisName& redis, const Readings& readings, const History& history) {
  std::vector<Object> queues;
  queues.reserve(readings.queues.size());
  for (const auto& reading : readings.queues) queues.push_back(queue_fields(*reading, history.size(reading->queue)));
  Object object;
  object.add("queues", queues).add("left_out", readings.left_out).add("read_at", readings.read_at);
  return object.add("redis", redis_object(redis, readings));
}

Object history_document(const WaitingHistory& history) {
  std::vector<std::string> minutes;
  for (const Time minute : history.minutes) minutes.push_back(utc_text(minute));
  std::vector<Object> queues;
  queues.reserve(history.queues.size());
  for (const auto& [queue, numbers] : history.queues) {
    std::string list;
    for (const auto& each : numbers) list += (list.empty() ? "" : ",") + (each ? std::to_string(*each) : "null");
    queues.push_back(Object().add("queue", queue).add_json("waiting", '[' + list + ']'));
  }
  return Object().add("minutes", minutes).add("queues", queues);
}

}  // namespace dqctl
