// The Go library's event channel: "<code> <unix seconds> <count>" on dq:<queue>:reportEvents.
#pragma once

#include "redis/pipeline.h"

#include <delayqueue/options.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace delayqueue {

std::string encode_event(EventKind kind, std::chrono::system_clock::time_point at, std::size_t count);

// Nothing if it is no such text, or its code is not one of ours.
std::optional<Event> decode_event(std::string_view text);

// Adds one PUBLISH. Never part of a move: whether anybody listens changes nothing.
void publish_event(redis::Pipeline& pipeline, const std::string& channel, EventKind kind, std::size_t count);

}  // namespace delayqueue
