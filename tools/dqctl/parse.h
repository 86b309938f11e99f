// Parses the values of arguments. Every error is a Usage that names the argument, its value, and an example.
#pragma once

#include <delayqueue/message.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "output/text.h"

namespace dqctl {

// A duration: 250ms, 10s, 5m, 2h, 3d, 1w, 1h30m; units from large to small, each at most once; at most 100 years.
milliseconds parse_duration(const std::string& name, std::string_view text);

// A point in time: absolute, or relative to now by Redis' clock.
struct When {
  std::optional<Time> at{};
  milliseconds delay{0};
};

// From 1970 to 2199: 2026-11-21T19:36:45Z, also with a fraction of a second, or with an offset (+01:00) instead of Z;
// or relative: +10m.
When parse_when(const std::string& name, std::string_view text);

// A rate: 100/s, 6000/m, 10/h; 100 alone is 100/s. Returns events per second, above 0.
double parse_rate(const std::string& name, std::string_view text);

// A size in bytes: 512, 64k, 10M, 1G (multiples of 1024; also KiB, MiB, GiB).
std::uint64_t parse_size(const std::string& name, std::string_view text);

std::uint64_t parse_number(const std::string& name, std::string_view text, std::uint64_t least, std::uint64_t most);

// pending, ready, unack, retry or dead.
delayqueue::State parse_state(const std::string& name, std::string_view text);

// Whether the pattern matches the whole text: * any bytes, ? one byte, \ makes the next byte literal. Needs at most
// time proportional to the product of the lengths.
bool matches_glob(std::string_view pattern, std::string_view text);

}  // namespace dqctl
