// Checks of options: each throws std::invalid_argument that names the field and its value.
#pragma once

#include "store/store.h"

#include <delayqueue/options.h>
#include <delayqueue/producer.h>

#include <optional>
#include <string>

namespace delayqueue {

// A hundred years: more is a slip, and a steady clock's nanoseconds would overflow.
inline constexpr milliseconds kLongest{100LL * 365 * 24 * 3'600'000};

void check(const std::string& queue, const ConnectionOptions& connection, const QueueOptions& options);
void check(const ProducerOptions& options);
void check(const ConsumerOptions& options);
void check_at_least(const char* field, milliseconds value, milliseconds least);

// The time of a send or reschedule, with its field's name in what is thrown.
store::Due due_of(milliseconds delay, const std::optional<std::chrono::system_clock::time_point>& at);

// Whether a consumer should be woken for it: soon enough that its next poll may be too late. By this machine's clock: a
// wrong guess costs a needless wake, or one poll interval.
bool is_soon(const store::Due& due);

// The id in its usual form.
std::string id_of(const char* field, std::string_view id);

}  // namespace delayqueue
