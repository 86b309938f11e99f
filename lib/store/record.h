// Conversion of the stored fields of a message: ids, times, deliveries.
//
// Scores in Redis are unix seconds as doubles. Here, and in the arguments and answers of all scripts, times are
// integers in microseconds or milliseconds. Only Lua converts between the two, so no locale and no rounding in C++
// changes a score.
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

inline constexpr std::size_t kIdLength = 36;  // characters

// The queue and the partition that ids are made for.
struct IdOwner {
  std::uint16_t name_crc = 0;  // of the queue's name: see name_crc() in keys.h
  std::uint8_t partition = 0;
};

// New ids: UUIDv7 (RFC 9562) of the current time, with the fraction of the millisecond in rand_a. Then follow the
// partition and a check of it, by which partition_of() recognizes the id, and random bits.
// For one partition, the ids of one thread ascend, within one call and from call to call, unless the clock is set back.
// So ids sort by creation time, and messages with equal due times are delivered in that order.
//
// Each thread has its own random bytes, and so has each forked process whose process id differs from that of its parent
// (in a new PID namespace it may be the same). Copies of a running virtual machine share the bytes of up to 32 calls of
// each thread: then only the time makes their ids different. Throws SetupError if the system provides no random bytes.
// Early in the boot of a machine it waits for them.
std::vector<std::string> new_ids(std::size_t count, IdOwner owner = {});

// The partition that this id was made for by the library, if it was made for the queue whose name has this CRC; unset
// for other ids. By chance, one in 4096 other UUIDv7 gets a partition, too. A UUID of another version gets none.
std::optional<unsigned> partition_of(std::string_view id, std::uint16_t name_crc);

// The binary form of an id, to keep many in memory.
using IdBytes = std::array<unsigned char, 16>;

// Unset unless `id` is a UUID in its form of 36 characters, in lower or upper case.
std::optional<IdBytes> bytes_of(std::string_view id);

// In lower case, as ids are stored.
std::string text_of(const IdBytes& bytes);

// The UUID of version 5 (RFC 9562) of a name.
std::string id_of_name(const IdBytes& name_space, std::string_view name);

// The id in lower case; unset unless it is a UUID in its form of 36 characters.
std::optional<std::string> canonical_id(std::string_view id);

// Whether it is an id as the library stores it: a UUID in its form of 36 characters, in lower case. Other programs may
// have stored any other text where an id belongs.
bool is_id(std::string_view text);

// The creation time of a UUIDv7; unset for other ids.
std::optional<WallClock::time_point> time_of_id(std::string_view id);

WallClock::time_point from_us(std::int64_t us);  // clamped to the range of the clock
std::optional<WallClock::time_point> from_us(std::optional<std::int64_t> us);
std::int64_t to_us(WallClock::time_point time);

// The latest time of a message, in us: the end of 2199. The earliest is 1970. Lua's numbers keep every microsecond in
// this range. Other programs may write any score, even an infinite one; it is read as the nearest time in the range.
inline constexpr std::int64_t kLatestUs = 7'258'118'400'000'000 - 1000;

// Reads a score as scripts return it: digits in us, or "inf".
std::int64_t time_of_score(std::string_view us);

// The number at the start of a field of Redis, clamped to 0 and the largest int; 0 if there is none.
int number_at_start(std::string_view text);

// The number of deliveries in a field of attempts: "<deliveries> <end of the last lease in us>"; 0 if it is no number.
int deliveries_of(std::string_view attempts);

// Whether a score of unack is the end of a lease, and not the end of a backoff. Leases of this library never end at
// whole milliseconds, and those of Go workers end at whole seconds; backoffs end at whole milliseconds, never at whole
// seconds.
bool is_lease(std::int64_t end_us);

}  // namespace delayqueue::store
