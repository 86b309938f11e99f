#include "schedules/cron.h"

#include "redis/escaped.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue::schedules {
namespace {

constexpr std::size_t kLongestExpression = 256;
constexpr std::int64_t kDay = 24 * 60 * 60;
constexpr int kLastYear = 2200;  // where clocks are ahead of UTC, it begins before the year 2199 ends in UTC
constexpr int kSunday = 0;
constexpr int kSaturday = 6;
constexpr int kLastWeek = -1;
constexpr int kNoBit = 64;

std::uint64_t bit(int number) { return std::uint64_t{1} << number; }

std::uint64_t bits(int first, int last) { return bit(last + 1) - bit(first); }

// The lowest bit that is set, from bit `from` on, which is at most 63.
int lowest_bit(std::uint64_t bits, int from) {
  const std::uint64_t rest = bits >> from << from;
  return rest == 0 ? kNoBit : __builtin_ctzll(rest);
}

// ---- Dates. A day is the number of days since 1970-01-01.

std::int64_t first_day_of(int year) {
  const std::int64_t before = year - 1;
  return before * 365 + before / 4 - before / 100 + before / 400 - 719'162;
}

int weekday_of(std::int64_t day) { return static_cast<int>((day + 7004) % 7); }  // 1970-01-01 was a Thursday

struct Month {
  int year;
  int month;
  std::int64_t first_day;

  int length() const {
    if (month == 2) return first_day_of(year + 1) - first_day_of(year) == 366 ? 29 : 28;
    return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
  }

  Month next() const { return {month == 12 ? year + 1 : year, month % 12 + 1, first_day + length()}; }
};

Month month_of(std::int64_t day) {
  int year = 1969 + static_cast<int>(day / 366);  // too early by two years at most
  while (first_day_of(year + 1) <= day) ++year;
  Month month{year, 1, first_day_of(year)};
  while (month.next().first_day <= day) month = month.next();
  return month;
}

// ---- The parser

struct Range {
  const char* what;  // with its article
  int least;
  int most;
  int last;           // of '*', and of a value with a step
  const char* names;  // of three letters each, for the numbers from `least` on; empty: none
};

constexpr Range kSeconds{"a second", 0, 59, 59, ""};
constexpr Range kMinutes{"a minute", 0, 59, 59, ""};
constexpr Range kHours{"an hour", 0, 23, 23, ""};
constexpr Range kDates{"a day of the month", 1, 31, 31, ""};
constexpr Range kMonths{"a month", 1, 12, 12, "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC"};
constexpr Range kWeekdays{"a day of the week", 0, 7, 6, "SUNMONTUEWEDTHUFRISAT"};  // 7 is Sunday, too
constexpr Range kDaysBeforeLast{"a number of days", 1, 30, 30, ""};
constexpr Range kWeeks{"a number of a week", 1, 5, 5, ""};

struct Values {
  std::uint64_t numbers = 0;
  bool all = false;      // '*' or '?'
  bool star = false;     // it begins with '*'
  bool stepped = false;  // it has a '*' with a step
};

bool is_same(char a, char upper) { return a == upper || (upper >= 'A' && upper <= 'Z' && a == upper + ('a' - 'A')); }

bool is_same(std::string_view text, std::string_view upper) {
  return std::equal(text.begin(), text.end(), upper.begin(), upper.end(), [](char a, char b) { return is_same(a, b); });
}

[[noreturn]] void refuse_expression(std::string_view expression, const std::string& reason) {
  const bool is_cut = expression.size() > kLongestExpression;
  const std::string shown = redis::escaped(is_cut ? expression.substr(0, 64) : expression) + (is_cut ? "..." : "");
  throw std::invalid_argument("cron \"" + shown + "\": " + reason);
}

// Reads one field of an expression from left to right.
class Field {
 public:
  Field(std::string_view expression, std::size_t begin, std::size_t end)
      : expression_(expression), begin_(begin), end_(end), next_(begin) {}

  std::string_view text() const { return expression_.substr(begin_, end_ - begin_); }

  // A list of values, ranges, steps and '*'.
  Values values(const Range& range) {
    Values values;
    do {
      int first = range.least;
      int last = range.last;
      const std::size_t begin = next_;
      if (take('*')) {
        const bool is_stepped = next_is('/');
        if (!is_stepped && text().size() > 1) refuse(begin, "a '*' without a step must be all of the field");
        values.all = !is_stepped;
        values.star = values.star || begin == begin_;
        values.stepped = values.stepped || is_stepped;
      } else {
        first = value(range);
        if (take('-')) {
          last = range_end(range, first);
        } else if (next_is('/')) {
          first = first > last ? range.least : first;  // Sunday as 7
        } else {
          last = first;
        }
      }
      const int step = take('/') ? this->step(range) : 1;
      for (int number = first; number <= last; number += step) values.numbers |= bit(number);
    } while (take(','));
    if (!ends()) refuse("expected ',', '-', '/' or a blank");
    return values;
  }

  // A number or a name.
  int value(const Range& range) {
    const std::string_view names = range.names;
    for (std::size_t name = 0; name < names.size(); name += 3) {
      if (!is_same(rest().substr(0, 3), names.substr(name, 3))) continue;
      next_ += 3;
      return range.least + static_cast<int>(name / 3);
    }
    const std::size_t begin = next_;
    const int value = number();
    if (value >= range.least && value <= range.most) return value;
    refuse(begin, std::string("expected ") + range.what + " from " + std::to_string(range.least) + " to " +
                      std::to_string(range.most) +
                      (names.empty() ? "" : ", or a name such as " + std::string(names.substr(0, 3))));
  }

  bool ends() const { return next_ == end_; }
  bool next_is(char upper) const { return !ends() && is_same(expression_[next_], upper); }
  bool ends_in(char upper) const { return is_same(expression_[end_ - 1], upper); }

  // Reads this character, if it is the next one.
  bool take(char upper) {
    const bool is_next = next_is(upper);
    if (is_next) ++next_;
    return is_next;
  }

  [[noreturn]] void refuse(const std::string& reason) const { refuse(next_, reason); }

  [[noreturn]] void refuse_all(const std::string& reason) const { refuse(begin_, reason); }

 private:
  std::string_view rest() const { return expression_.substr(next_, end_ - next_); }

  [[noreturn]] void refuse(std::size_t at, const std::string& reason) const {
    refuse_expression(expression_, "at character " + std::to_string(at + 1) + ": " + reason);
  }

  // Negative: there are no digits, or more than two.
  int number() {
    const std::size_t begin = next_;
    int number = 0;
    for (; !ends() && expression_[next_] >= '0' && expression_[next_] <= '9'; ++next_) {
      if (next_ - begin < 2) number = number * 10 + (expression_[next_] - '0');
    }
    return next_ == begin || next_ - begin > 2 ? -1 : number;
  }

  int range_end(const Range& range, int first) {
    const std::size_t begin = next_;
    int last = value(range);
    if (last == range.least && first > last && range.most > range.last) last = range.most;  // FRI-SUN
    if (last >= first) return last;
    refuse(begin, "the range ends before it begins; write two ranges, such as 22-23,0-2");
  }

  int step(const Range& range) {
    const std::size_t begin = next_;
    const int step = number();
    const int most = range.last - range.least;
    if (step >= 1 && step <= most) return step;
    refuse(begin, "expected a step from 1 to " + std::to_string(most) + "; for longer intervals use `every`");
  }

  std::string_view expression_;
  std::size_t begin_;
  std::size_t end_;
  std::size_t next_;
};

std::vector<Field> fields_of(std::string_view expression) {
  constexpr std::string_view kBlanks = " \t";
  std::vector<Field> fields;
  std::size_t begin = expression.find_first_not_of(kBlanks);
  while (begin != std::string_view::npos) {
    const std::size_t end = std::min(expression.find_first_of(kBlanks, begin), expression.size());
    fields.emplace_back(expression, begin, end);
    begin = expression.find_first_not_of(kBlanks, end);
  }
  return fields;
}

std::string_view meaning_of(const Field& name) {
  static constexpr std::pair<std::string_view, std::string_view> kMeanings[] = {
      {"@HOURLY", "0 * * * *"},  {"@DAILY", "0 0 * * *"},  {"@MIDNIGHT", "0 0 * * *"}, {"@WEEKLY", "0 0 * * 0"},
      {"@MONTHLY", "0 0 1 * *"}, {"@YEARLY", "0 0 1 1 *"}, {"@ANNUALLY", "0 0 1 1 *"}};
  for (const auto& [known, meaning] : kMeanings) {
    if (is_same(name.text(), known)) return meaning;
  }
  name.refuse_all("expected @hourly, @daily, @midnight, @weekly, @monthly, @yearly or @annually");
}

// Programs that read cron expressions differ in whether such days must match both fields: Vixie's cron requires it,
// others do not.
void check_days(const Field& date, const Values& dates, const Field& weekday, const Values& weekdays) {
  if (dates.all || weekdays.all || (!dates.stepped && !weekdays.stepped)) return;
  (dates.stepped ? date : weekday)
      .refuse_all("a '*' with a step, and days in the other day field; list the days, or let the other field be '*'");
}

}  // namespace

Cron::Cron(std::string_view expression) {
  if (expression.size() > kLongestExpression) {
    refuse_expression(expression, std::to_string(expression.size()) + " bytes; expected at most " +
                                      std::to_string(kLongestExpression));
  }
  std::vector<Field> fields = fields_of(expression);
  if (fields.size() == 1 && fields[0].next_is('@')) fields = fields_of(meaning_of(fields[0]));
  if (fields.size() != 5 && fields.size() != 6) {
    refuse_expression(expression, std::to_string(fields.size()) +
                                      " fields; expected 5, or 6 with the second first, or a name such as @daily");
  }

  Values seconds{bit(0)};
  if (fields.size() == 6) seconds = fields[0].values(kSeconds);
  Field* const next = &fields[fields.size() - 5];
  const Values minutes = next[0].values(kMinutes);
  const Values hours = next[1].values(kHours);
  seconds_ = seconds.numbers;
  minutes_ = minutes.numbers;
  hours_ = hours.numbers;
  every_hour_ = hours_ == bits(0, 23);
  interval_ = seconds.star || minutes.star || hours.star || every_hour_;

  Field& date = next[2];
  Values dates;
  const Values all{bits(0, 31), true};
  if (date.text() == "?") {
    dates = all;
  } else if (date.take('L')) {
    before_last_ = date.take('-') ? date.value(kDaysBeforeLast) : 0;
    workday_ = date.take('W');
    if (!date.ends()) date.refuse("expected L, L-n, LW or L-nW alone in the field");
  } else if (date.ends_in('W')) {
    date_ = date.value(kDates);
    workday_ = date.take('W');
    if (!workday_ || !date.ends()) date.refuse("expected nW, such as 15W, alone in the field");
  } else {
    dates = date.values(kDates);
  }
  dates_ = dates.numbers;

  months_ = next[3].values(kMonths).numbers;

  Field& weekday = next[4];
  Values weekdays;
  if (weekday.text() == "?") {
    weekdays = all;
  } else if (weekday.ends_in('L') || weekday.text().find('#') != std::string_view::npos) {
    weekdays.numbers = bit(weekday.value(kWeekdays));
    week_ = weekday.take('L') ? kLastWeek : weekday.take('#') ? weekday.value(kWeeks) : 0;
    if (week_ == 0 || !weekday.ends()) weekday.refuse("expected d#n or dL, such as MON#2 or FRIL, alone in the field");
  } else {
    weekdays = weekday.values(kWeekdays);
  }
  weekdays_ = (weekdays.numbers | weekdays.numbers >> 7) & bits(kSunday, kSaturday);

  check_days(date, dates, weekday, weekdays);
  both_days_ = dates.all || weekdays.all;
  if (first(0) == kNever) date.refuse_all("no such date: it never occurs");
}

// ---- The search

LocalTime Cron::first(LocalTime from) const {
  // Where clocks are behind UTC, they show 1969 when the year 1970 begins in UTC.
  from = std::clamp(from, -kDay, first_day_of(kLastYear + 1) * kDay);
  const std::int64_t today = (from + kDay) / kDay - 1;
  const int time = first_time(static_cast<int>(from - today * kDay));
  const std::int64_t earliest = time < 0 ? today + 1 : today;
  for (Month month = month_of(earliest); month.year <= kLastYear; month = month.next()) {
    if ((months_ & bit(month.month)) == 0) continue;
    const auto from_date = static_cast<int>(std::max<std::int64_t>(earliest - month.first_day, 0) + 1);
    const int date = lowest_bit(days_of(month.length(), weekday_of(month.first_day)), from_date);
    if (date == kNoBit) continue;
    const std::int64_t day = month.first_day + date - 1;
    return day * kDay + (day == today ? time : first_time(0));
  }
  return kNever;
}

// The first time of a day that matches, in seconds, at or after `from`; negative: none.
int Cron::first_time(int from) const {
  const int from_hour = from / 3600;
  const int from_minute = from / 60 % 60;
  for (int hour = lowest_bit(hours_, from_hour); hour != kNoBit; hour = lowest_bit(hours_, hour + 1)) {
    const bool is_first = hour == from_hour;
    int minute = lowest_bit(minutes_, is_first ? from_minute : 0);
    for (; minute != kNoBit; minute = lowest_bit(minutes_, minute + 1)) {
      const int second = lowest_bit(seconds_, is_first && minute == from_minute ? from % 60 : 0);
      if (second != kNoBit) return hour * 3600 + minute * 60 + second;
    }
  }
  return -1;
}

std::uint64_t Cron::days_of(int length, int first_weekday) const {
  const std::uint64_t dates = by_date(length, first_weekday);
  const std::uint64_t weekdays = by_weekday(length, first_weekday);
  return (both_days_ ? dates & weekdays : dates | weekdays) & bits(1, length);
}

std::uint64_t Cron::by_date(int length, int first_weekday) const {
  if (before_last_ < 0 && !workday_) return dates_;
  int date = before_last_ < 0 ? date_ : length - before_last_;
  if (date < 1 || date > length) return 0;
  const int weekday = (first_weekday + date - 1) % 7;
  if (workday_ && weekday == kSaturday) date += date == 1 ? 2 : -1;
  if (workday_ && weekday == kSunday) date += date == length ? -2 : 1;
  return bit(date);
}

std::uint64_t Cron::by_weekday(int length, int first_weekday) const {
  const std::uint64_t from_first = (weekdays_ | weekdays_ << 7) >> first_weekday & bits(0, 6);
  std::uint64_t days = 0;
  for (int begin = 1; begin <= length; begin += 7) days |= from_first << begin;
  if (week_ == 0) return days;
  const int begin = week_ == kLastWeek ? length - 6 : 7 * week_ - 6;
  return days & bits(begin, begin + 6);
}

}  // namespace delayqueue::schedules
