#include "store/record.h"

#include <uuid/uuid.h>

#include <algorithm>
#include <charconv>
#include <limits>

namespace delayqueue::store {
namespace {

void set_time(IdBytes& bytes, WallClock::time_point now) {
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now.time_since_epoch()).count();
  const std::uint64_t ms = static_cast<std::uint64_t>(ns / 1'000'000);
  const std::uint64_t fraction = static_cast<std::uint64_t>(ns % 1'000'000) * 4096 / 1'000'000;
  for (std::size_t i = 0; i < 6; ++i) bytes[i] = static_cast<unsigned char>(ms >> (40 - 8 * i));
  bytes[6] = static_cast<unsigned char>(0x70 | (fraction >> 8));
  bytes[7] = static_cast<unsigned char>(fraction);
}

void increment(IdBytes& bytes) {
  for (std::size_t i = 15; i > 8 && ++bytes[i] == 0; --i) {
  }
}

}  // namespace

std::vector<std::string> new_ids(std::size_t count) {
  std::vector<std::string> ids;
  ids.reserve(count);
  IdBytes bytes;
  uuid_generate_random(bytes.data());  // from the kernel, so processes forked from one never draw the same
  set_time(bytes, WallClock::now());
  bytes[8] = static_cast<unsigned char>(0x80 | (bytes[8] & 0x3f));
  bytes[9] &= 0x7f;  // so that counting up cannot overflow
  for (std::size_t i = 0; i < count; ++i, increment(bytes)) ids.push_back(text_of(bytes));
  return ids;
}

std::optional<IdBytes> bytes_of(std::string_view id) {
  IdBytes bytes;
  if (id.size() != kIdLength || uuid_parse(std::string(id).c_str(), bytes.data()) != 0) return std::nullopt;
  return bytes;
}

std::string text_of(const IdBytes& bytes) {
  char text[kIdLength + 1];
  uuid_unparse_lower(bytes.data(), text);
  return {text, kIdLength};
}

std::optional<std::string> canonical_id(std::string_view id) {
  const auto bytes = bytes_of(id);
  return bytes ? std::optional(text_of(*bytes)) : std::nullopt;
}

bool is_id(std::string_view text) {
  if (text.size() != kIdLength) return false;
  for (std::size_t i = 0; i < kIdLength; ++i) {
    const char c = text[i];
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? c != '-' : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
  }
  return true;
}

std::optional<WallClock::time_point> time_of_id(std::string_view id) {
  const auto parsed = bytes_of(id);
  if (!parsed || ((*parsed)[6] >> 4) != 7) return std::nullopt;
  const IdBytes& bytes = *parsed;
  std::int64_t ms = 0;
  for (std::size_t i = 0; i < 6; ++i) ms = ms << 8 | bytes[i];
  return from_us(ms * 1000);
}

WallClock::time_point from_us(std::int64_t us) {
  using std::chrono::duration_cast;
  using std::chrono::microseconds;
  constexpr auto kFirst = duration_cast<microseconds>(WallClock::duration::min());
  constexpr auto kLast = duration_cast<microseconds>(WallClock::duration::max());
  return WallClock::time_point(duration_cast<WallClock::duration>(std::clamp(microseconds(us), kFirst, kLast)));
}

std::int64_t to_us(WallClock::time_point time) {
  return std::chrono::floor<std::chrono::microseconds>(time.time_since_epoch()).count();
}

std::int64_t time_of_score(std::string_view us) {
  const bool negative = !us.empty() && us.front() == '-';
  std::int64_t number = 0;
  const std::errc error = std::from_chars(us.data(), us.data() + us.size(), number).ec;
  if (error != std::errc()) number = negative ? 0 : kLatestUs;  // more digits than fit, or "inf"
  return std::clamp<std::int64_t>(number, 0, kLatestUs);
}

int number_at_start(std::string_view text) {
  int number = 0;
  const std::errc error = std::from_chars(text.data(), text.data() + text.size(), number).ec;
  const bool negative = !text.empty() && text.front() == '-';
  if (error == std::errc::result_out_of_range) number = negative ? 0 : std::numeric_limits<int>::max();
  return std::max(number, 0);
}

int deliveries_of(std::string_view attempts) { return number_at_start(attempts); }

bool is_lease(std::int64_t end_us) { return end_us % 1000 != 0 || end_us % 1'000'000 == 0; }

}  // namespace delayqueue::store
