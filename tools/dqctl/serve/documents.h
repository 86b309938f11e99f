// The JSON documents of dqctl serve about queues. Their form is in openapi.json.
#pragma once

#include <delayqueue/inspector.h>

#include <cstddef>
#include <string>

#include "output/json.h"
#include "serve/queue_poller.h"

namespace dqctl {

// Which Redis the server reads.
struct RedisName {
  std::string uri{};  // without a password
  std::string prefix{};
};

Object redis_object(const RedisName& redis, const Readings& readings);

// The fields of one queue, and those that dqctl stats shows in addition.
Object queue_fields(const QueueReading& reading, std::size_t history_minutes);
Object stats_fields(const QueueReading& reading, const std::optional<delayqueue::MessageInfo>& first_unack,
                    const std::optional<delayqueue::MessageInfo>& first_dead);

Object queues_document(const RedisName& redis, const Readings& readings, const History& history);

Object history_document(const WaitingHistory& history);

}  // namespace dqctl
