// The Go library's event channel: "<code> <unix seconds> <count>" on dq:<queue>:reportEvents.
#pragma once

#include "redis/pipeline.h"

#include <delayqueue/log.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace delayqueue {

std::string encode_event(EventKind kind, std::chrono::system_clock::time_point at, std::size_t count);

// Unset if the text has another format, or its code is not an EventKind.
std::optional<Event> decode_event(std::string_view text);

// Adds one PUBLISH to the pipeline. It is not part of a move: its result does not affect any.
void publish_event(redis::Pipeline& pipeline, const std::string& channel, EventKind kind, std::size_t count);

}  // namespace delayqueue
