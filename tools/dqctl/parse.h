// Reads what people write in arguments. Every error is a Usage that names the argument, its value, and an example.
#pragma once

#include <delayqueue/producer.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "output/text.h"

namespace dqctl {

// 250ms, 10s, 5m, 2h, 3d, 1h30m; units from large to small, each at most once; at most 100 years.
milliseconds parse_duration(const std::string& name, std::string_view text);

// A point in time: either absolute, or so long from now by Redis' clock.
struct When {
  std::optional<Time> at{};
  milliseconds delay{0};
};

// From 1970 to 2199: 2026-11-21T19:36:45Z, with a fraction of a second, with an offset (+01:00) instead of the Z; or +10m.
When parse_when(const std::string& name, std::string_view text);

// 100/s, 6000/m, 10/h; 100 alone is 100/s. In events per second, above 0.
double parse_rate(const std::string& name, std::string_view text);

// 512, 64k, 10M, 1G (of 1024; KiB, MiB, GiB too).
std::uint64_t parse_size(const std::string& name, std::string_view text);

std::uint64_t parse_number(const std::string& name, std::string_view text, std::uint64_t least, std::uint64_t most);

// pending, ready, unack, retry or dead.
delayqueue::State parse_state(const std::string& name, std::string_view text);

// Whether the whole text is as the pattern says: * any bytes, ? one byte, \ takes the next as it is. Takes no longer
// than the product of the lengths.
bool matches_glob(std::string_view pattern, std::string_view text);

}  // namespace dqctl
