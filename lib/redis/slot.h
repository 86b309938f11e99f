// The slots of a Redis Cluster: the CRC of a key's hash tag decides which master owns the key.
#pragma once

#include <cstdint>
#include <string_view>

namespace delayqueue::redis {

// Slots of a Cluster. A key with the hash tag `tag` is in slot crc16(tag) % kSlots.
inline constexpr unsigned kSlots = 16384;

// CRC-16/XMODEM, as Redis computes it. `before`: the CRC of the bytes before these.
std::uint16_t crc16(std::string_view bytes, std::uint16_t before = 0);

}  // namespace delayqueue::redis
