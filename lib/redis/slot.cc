#include "redis/slot.h"

#include <array>

namespace delayqueue::redis {
namespace {

constexpr std::array<std::uint16_t, 256> make_table() {
  std::array<std::uint16_t, 256> table{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    unsigned crc = byte << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 0x8000U) != 0 ? (crc << 1) ^ 0x1021U : crc << 1;
    table[byte] = static_cast<std::uint16_t>(crc);
  }
  return table;
}

constexpr std::array<std::uint16_t, 256> kTable = make_table();

}  // namespace

std::uint16_t crc16(std::string_view bytes, std::uint16_t before) {
  unsigned crc = before;
  for (const char c : bytes) crc = (crc << 8 & 0xffffU) ^ kTable[crc >> 8 ^ static_cast<unsigned char>(c)];
  return static_cast<std::uint16_t>(crc);
}

}  // namespace delayqueue::redis
