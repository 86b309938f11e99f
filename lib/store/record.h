// What is stored of a message, and how it is read back: ids, times, deliveries.
//
// Times in Redis are unix seconds as doubles; here and in every script's arguments and answers they are integers of
// microseconds or milliseconds. Only Lua divides them: no locale, no rounding of ours comes near a score.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace delayqueue::store {

using WallClock = std::chrono::system_clock;

// New ids: UUIDv7 (RFC 9562) of now, with the fraction of the millisecond in rand_a and the rest random; within one
// call they ascend. So ids sort by when they were made, and equal due times are delivered in that order.
std::vector<std::string> new_ids(std::size_t count);

// An id in 16 bytes, for those who keep many.
using IdBytes = std::array<unsigned char, 16>;

// Nothing if it is no UUID in its form of 36 characters, in lower or upper case.
std::optional<IdBytes> bytes_of(std::string_view id);

// In lower case, as ids are stored.
std::string text_of(const IdBytes& bytes);

// The id in lower case if it is a UUID in its form of 36 characters.
std::optional<std::string> canonical_id(std::string_view id);

// Whether it is an id as they are stored: a UUID in its form of 36 characters, in lower case. In Redis anything may stand
// in the place of one.
bool is_id(std::string_view text);

// When a UUIDv7 was made; nothing for other ids.
std::optional<WallClock::time_point> time_of_id(std::string_view id);

WallClock::time_point from_us(std::int64_t us);  // what the clock cannot hold is its first or last time
std::int64_t to_us(WallClock::time_point time);

// Every time of a message lies from 1970 to the end of 2199, in us of which Lua's numbers keep each one. Others who
// write into Redis may set any score, infinite ones too; read back, it is the first or last of these times.
inline constexpr std::int64_t kLatestUs = 7'258'118'400'000'000 - 1000;

// A score as scripts answer it, in us: digits, or "inf".
std::int64_t time_of_score(std::string_view us);

// Another program may have written the number into a field of Redis: one that is too large is the largest.
int number_at_start(std::string_view text);  // 0 if there is none, or it is negative

// The number of deliveries in a field of attempts: "<deliveries> <end of the last lease in us>"; 0 if it is no number.
int deliveries_of(std::string_view attempts);

// An end of lease in unack: whether a consumer holds the message, or it waits out a backoff. Ends of our leases are
// never whole milliseconds, those of Go workers are whole seconds; ends of our backoffs are whole milliseconds and
// never whole seconds.
bool is_lease(std::int64_t end_us);

}  // namespace delayqueue::store
