// Cron expressions: the parser, and the search for the next local date and time. It knows no time zone.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

namespace delayqueue::schedules {

// What a clock in some place shows, as the seconds since it showed 1970-01-01 00:00:00.
using LocalTime = std::int64_t;

// Later than every time of an expression.
inline constexpr LocalTime kNever = std::numeric_limits<LocalTime>::max() / 2;

// The local times of an expression: 5 fields, or 6 with the second first, or a name such as "@daily". See
// docs/recurring.md for the syntax. An immutable value; it does not keep the text.
class Cron {
 public:
  // Throws std::invalid_argument with the expression, the character and the reason, such as
  //   cron "0 9 31 2 *": at character 5: no such date: it never occurs
  // Expressions come from users and from Redis. One of more than 256 bytes is refused before it is read.
  explicit Cron(std::string_view expression);

  // The first of these times at or after `from`, from 1970 to 2200; kNever: there is none. Takes at most as many steps
  // as there are months until then.
  LocalTime first(LocalTime from) const;

  bool is_every_hour() const { return every_hour_; }  // such as "30 * * * *"

  // The expression means a distance, not a time of day: its second, minute or hour begins with '*', or is every hour.
  bool is_interval() const { return interval_; }

 private:
  // Bits 1 to 31: the days that match, of a month of this length whose first day is this weekday (0: Sunday).
  std::uint64_t days_of(int length, int first_weekday) const;
  std::uint64_t by_date(int length, int first_weekday) const;
  std::uint64_t by_weekday(int length, int first_weekday) const;

  int first_time(int from) const;

  // Bit n: the number n matches.
  std::uint64_t seconds_ = 1;
  std::uint64_t minutes_ = 0;
  std::uint64_t hours_ = 0;
  std::uint64_t dates_ = 0;  // days of the month
  std::uint64_t months_ = 0;
  std::uint64_t weekdays_ = 0;

  int before_last_ = -1;  // L and L-n: this many days before the last one of the month
  int date_ = 0;          // nW: n
  bool workday_ = false;  // with W: the nearest day from Monday to Friday of the same month
  int week_ = 0;          // d#n: n; dL: kLastWeek; else 0

  bool both_days_ = false;  // days must match both day fields, because one of them is all days; else one is enough
  bool every_hour_ = false;
  bool interval_ = false;
};

}  // namespace delayqueue::schedules
