#include "schedules/cron.h"

#include "support/test.h"

#include <ctime>

namespace delayqueue::schedules {
namespace {

// "2026-11-29 12:00:00" as seconds since 1970, and back. A local time needs no zone.
LocalTime time_of(const std::string& text) {
  std::tm tm{};
  REQUIRE(::strptime(text.c_str(), "%Y-%m-%d %H:%M:%S", &tm) != nullptr);
  return ::timegm(&tm);
}

std::string shown(LocalTime time) {
  if (time == kNever) return "never";
  const std::time_t seconds = time;
  std::tm tm{};
  ::gmtime_r(&seconds, &tm);
  char text[64];
  REQUIRE(std::strftime(text, sizeof text, "%a %Y-%m-%d %H:%M:%S", &tm) > 0);
  return text;
}

struct Row {
  std::string expression;
  std::string from;
  std::vector<std::string> times;  // the first ones at or after `from`
};

void check_times(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    CAPTURE(row.expression);
    const Cron cron(row.expression);
    LocalTime from = time_of(row.from);
    std::vector<std::string> times;
    for (std::size_t i = 0; i < row.times.size(); ++i) {
      const LocalTime time = cron.first(from);
      times.push_back(shown(time));
      if (time == kNever) break;
      from = time + 1;
    }
    CHECK(times == row.times);
  }
}

TEST_CASE("cron R30: values, ranges, lists, steps and names of each field") {
  check_times({
      {"* * * * *", "2026-11-29 12:00:01", {"Sun 2026-11-29 12:01:00", "Sun 2026-11-29 12:02:00"}},
      {"* * * * *", "2026-11-29 12:00:00", {"Sun 2026-11-29 12:00:00", "Sun 2026-11-29 12:01:00"}},
      {"* * * * * *", "2026-12-31 23:59:59", {"Thu 2026-12-31 23:59:59", "Fri 2027-01-01 00:00:00"}},
      {"*/20 * 16-19 * * *", "2026-11-29 16:00:50", {"Sun 2026-11-29 16:01:00", "Sun 2026-11-29 16:01:20"}},
      {"*/20 * 16-19 * * *", "2026-11-29 20:00:00", {"Mon 2026-11-30 16:00:00", "Mon 2026-11-30 16:00:20"}},
      {"5,35 * * * *", "2026-11-29 12:06:00", {"Sun 2026-11-29 12:35:00", "Sun 2026-11-29 13:05:00"}},
      {"35,5 * * * *", "2026-11-29 12:06:00", {"Sun 2026-11-29 12:35:00", "Sun 2026-11-29 13:05:00"}},
      {"10-40/15 * * * *", "2026-11-29 12:11:00", {"Sun 2026-11-29 12:25:00", "Sun 2026-11-29 12:40:00"}},
      {"50/5 * * * *", "2026-11-29 12:51:00", {"Sun 2026-11-29 12:55:00", "Sun 2026-11-29 13:50:00"}},
      {"*/59 * * * *", "2026-11-29 12:51:00", {"Sun 2026-11-29 12:59:00", "Sun 2026-11-29 13:00:00"}},
      {"0 9-17/4 * * *", "2026-11-29 10:00:00", {"Sun 2026-11-29 13:00:00", "Sun 2026-11-29 17:00:00"}},
      {"0 9 * * MON-FRI", "2026-11-29 12:00:00", {"Mon 2026-11-30 09:00:00", "Tue 2026-12-01 09:00:00"}},
      {"0 9 * * 1-5", "2026-11-27 09:00:01", {"Mon 2026-11-30 09:00:00", "Tue 2026-12-01 09:00:00"}},
      {"0 9 1 jan,Jul *", "2026-11-29 12:00:00", {"Fri 2027-01-01 09:00:00", "Thu 2027-07-01 09:00:00"}},
      {"0 9 1 1/6 *", "2026-11-29 12:00:00", {"Fri 2027-01-01 09:00:00", "Thu 2027-07-01 09:00:00"}},
      {"0 0 29 2 *", "2096-03-01 00:00:00", {"Fri 2104-02-29 00:00:00", "Wed 2108-02-29 00:00:00"}},
      {"0 0 31 * *", "2026-11-29 12:00:00", {"Thu 2026-12-31 00:00:00", "Sun 2027-01-31 00:00:00"}},
      {"0 0 ? * ?", "2026-11-29 12:00:00", {"Mon 2026-11-30 00:00:00", "Tue 2026-12-01 00:00:00"}},
      {" \t0  0\t* * *  ", "2026-11-29 12:00:00", {"Mon 2026-11-30 00:00:00", "Tue 2026-12-01 00:00:00"}},
  });
}

TEST_CASE("cron R30: Sunday is 0 and 7, and the end of a range") {
  for (const std::string sunday : {"0", "7", "SUN", "sun", "7-7", "SUN-SUN", "0-0"}) {
    check_times({{"0 0 * * " + sunday, "2026-11-29 12:00:00", {"Sun 2026-12-06 00:00:00", "Sun 2026-12-13 00:00:00"}}});
  }
  for (const std::string weekend : {"SAT,SUN", "SAT-SUN", "6-7", "6-0", "sat-7", "0,6", "7,6"}) {
    check_times(
        {{"0 0 * * " + weekend, "2026-11-29 12:00:00", {"Sat 2026-12-05 00:00:00", "Sun 2026-12-06 00:00:00"}}});
  }
  for (const std::string week : {"*", "0-7", "SUN-SAT", "1-7", "?"}) {
    check_times({{"0 0 * * " + week, "2026-11-29 12:00:00", {"Mon 2026-11-30 00:00:00", "Tue 2026-12-01 00:00:00"}}});
  }
  for (const std::string even : {"*/2", "0/2", "7/2", "SUN/2"}) {
    check_times({{"0 0 * * " + even,
                  "2026-12-04 12:00:00",
                  {"Sat 2026-12-05 00:00:00", "Sun 2026-12-06 00:00:00", "Tue 2026-12-08 00:00:00"}}});
  }
  check_times({{"0 0 * * 1/2", "2026-12-04 12:00:00", {"Mon 2026-12-07 00:00:00", "Wed 2026-12-09 00:00:00"}}});
  check_times({{"0 0 * * 1-7/3", "2026-12-04 12:00:00", {"Sun 2026-12-06 00:00:00", "Mon 2026-12-07 00:00:00"}}});
}

TEST_CASE("cron R30: last days, workdays, and numbered weekdays of a month") {
  check_times({
      {"0 0 L * *", "2027-01-31 00:00:01", {"Sun 2027-02-28 00:00:00", "Wed 2027-03-31 00:00:00"}},
      {"0 0 l 2 *", "2027-03-01 00:00:00", {"Tue 2028-02-29 00:00:00", "Wed 2029-02-28 00:00:00"}},
      {"0 0 L-3 * *", "2027-01-31 00:00:01", {"Thu 2027-02-25 00:00:00", "Sun 2027-03-28 00:00:00"}},
      {"0 0 L-30 * *", "2027-01-31 00:00:01", {"Mon 2027-03-01 00:00:00", "Sat 2027-05-01 00:00:00"}},
      {"0 0 LW * *", "2027-01-30 00:00:00", {"Fri 2027-02-26 00:00:00", "Wed 2027-03-31 00:00:00"}},
      {"0 0 lw 8,10 *", "2027-01-30 00:00:00", {"Tue 2027-08-31 00:00:00", "Fri 2027-10-29 00:00:00"}},
      {"0 0 15W * *", "2027-04-16 00:00:00", {"Fri 2027-05-14 00:00:00", "Tue 2027-06-15 00:00:00"}},
      {"0 0 1W * *", "2027-04-16 00:00:00", {"Mon 2027-05-03 00:00:00", "Tue 2027-06-01 00:00:00"}},
      {"0 0 31W * *", "2027-09-01 00:00:00", {"Fri 2027-10-29 00:00:00", "Fri 2027-12-31 00:00:00"}},
      {"0 0 30W * *", "2027-01-31 00:00:00", {"Tue 2027-03-30 00:00:00", "Fri 2027-04-30 00:00:00"}},
      {"0 0 L-3W 2 *", "2027-01-31 00:00:00", {"Thu 2027-02-25 00:00:00", "Fri 2028-02-25 00:00:00"}},
      {"0 0 L-30W 5 *", "2027-01-31 00:00:00", {"Mon 2027-05-03 00:00:00", "Mon 2028-05-01 00:00:00"}},
      {"0 0 * * MON#1", "2026-11-29 12:00:00", {"Mon 2026-12-07 00:00:00", "Mon 2027-01-04 00:00:00"}},
      {"0 0 * * 7#5", "2026-11-29 12:00:00", {"Sun 2027-01-31 00:00:00", "Sun 2027-05-30 00:00:00"}},
      {"0 0 * 2 MON#5", "2026-11-29 12:00:00", {"Mon 2044-02-29 00:00:00", "Mon 2072-02-29 00:00:00"}},
      {"0 0 * * FRIL", "2026-11-29 12:00:00", {"Fri 2026-12-25 00:00:00", "Fri 2027-01-29 00:00:00"}},
      {"0 0 * * 0l", "2026-11-29 12:00:00", {"Sun 2026-12-27 00:00:00", "Sun 2027-01-31 00:00:00"}},
  });
}

TEST_CASE("cron R30: with days in both day fields one must match; with '*' in one of them both") {
  check_times({
      {"0 0 13 * FRI", "2026-11-12 12:00:00", {"Fri 2026-11-13 00:00:00", "Fri 2026-11-20 00:00:00"}},
      {"0 0 13 * FRI", "2026-12-12 12:00:00", {"Sun 2026-12-13 00:00:00", "Fri 2026-12-18 00:00:00"}},
      {"0 0 L * MON#1", "2026-11-29 12:00:00", {"Mon 2026-11-30 00:00:00", "Mon 2026-12-07 00:00:00"}},
      {"0 0 1-31 * FRI", "2026-11-29 12:00:00", {"Mon 2026-11-30 00:00:00", "Tue 2026-12-01 00:00:00"}},
      {"0 0 */2 * *", "2026-11-30 12:00:00", {"Tue 2026-12-01 00:00:00", "Thu 2026-12-03 00:00:00"}},
      {"0 0 */30 * ?", "2026-11-30 12:00:00", {"Tue 2026-12-01 00:00:00", "Thu 2026-12-31 00:00:00"}},
      {"0 0 * * */3", "2026-11-30 12:00:00", {"Wed 2026-12-02 00:00:00", "Sat 2026-12-05 00:00:00"}},
      {"0 0 13 * *", "2026-11-30 12:00:00", {"Sun 2026-12-13 00:00:00", "Wed 2027-01-13 00:00:00"}},
  });
}

TEST_CASE("cron R30: the names that begin with @") {
  check_times({
      {"@hourly", "2026-11-29 12:00:01", {"Sun 2026-11-29 13:00:00", "Sun 2026-11-29 14:00:00"}},
      {"@daily", "2026-11-29 12:00:01", {"Mon 2026-11-30 00:00:00", "Tue 2026-12-01 00:00:00"}},
      {"@midnight", "2026-11-29 12:00:01", {"Mon 2026-11-30 00:00:00", "Tue 2026-12-01 00:00:00"}},
      {" @Weekly ", "2026-11-29 12:00:01", {"Sun 2026-12-06 00:00:00", "Sun 2026-12-13 00:00:00"}},
      {"@MONTHLY", "2026-11-29 12:00:01", {"Tue 2026-12-01 00:00:00", "Fri 2027-01-01 00:00:00"}},
      {"@yearly", "2026-11-29 12:00:01", {"Fri 2027-01-01 00:00:00", "Sat 2028-01-01 00:00:00"}},
      {"@annually", "2026-11-29 12:00:01", {"Fri 2027-01-01 00:00:00", "Sat 2028-01-01 00:00:00"}},
  });
}

TEST_CASE("cron R30: times are from 1970 to 2199; zones need a few hours before and after") {
  check_times({
      {"0 12 * * *", "1900-01-01 00:00:00", {"Wed 1969-12-31 12:00:00", "Thu 1970-01-01 12:00:00"}},
      {"0 0 1 1 *", "1969-12-31 00:00:00", {"Thu 1970-01-01 00:00:00", "Fri 1971-01-01 00:00:00"}},
      {"0 0 1 1 *", "2198-12-31 00:00:00", {"Tue 2199-01-01 00:00:00", "Wed 2200-01-01 00:00:00", "never"}},
      {"59 59 23 31 12 *", "2199-12-31 23:59:59", {"Tue 2199-12-31 23:59:59", "Wed 2200-12-31 23:59:59", "never"}},
  });
  const Cron cron("* * * * * *");
  CHECK(cron.first(std::numeric_limits<LocalTime>::min()) == -24 * 60 * 60);
  CHECK(cron.first(std::numeric_limits<LocalTime>::max() / 4) == kNever);
}

TEST_CASE("cron R31: which expressions are intervals, and which are for every hour") {
  const auto kind = [](const char* expression) {
    const Cron cron(expression);
    return std::string(cron.is_interval() ? "interval" : "time") + (cron.is_every_hour() ? ", every hour" : "");
  };
  CHECK(kind("0 9 * * *") == "time");
  CHECK(kind("0,30 0-22 * * *") == "time");
  CHECK(kind("30 0-23 * * *") == "interval, every hour");
  CHECK(kind("30 * * * *") == "interval, every hour");
  CHECK(kind("0 */2 * * *") == "interval");
  CHECK(kind("*/15 2 * * *") == "interval");
  CHECK(kind("*/20 0 2 * * *") == "interval");
  CHECK(kind("0,*/15 2 * * *") == "time");
  CHECK(kind("@hourly") == "interval, every hour");
  CHECK(kind("@daily") == "time");
}

// An expression, and the error behind the expression.
const std::vector<std::pair<std::string, std::string>> refused = {
    {"", "0 fields; expected 5, or 6 with the second first, or a name such as @daily"},
    {"  ", "0 fields; expected 5, or 6 with the second first, or a name such as @daily"},
    {"0 9 * *", "4 fields; expected 5, or 6 with the second first, or a name such as @daily"},
    {"0 0 9 * * * 2027", "7 fields; expected 5, or 6 with the second first, or a name such as @daily"},
    {"0 9 31 2 *", "at character 5: no such date: it never occurs"},
    {"0 9 30,31 FEB ?", "at character 5: no such date: it never occurs"},
    {"0 0 9 31 4,6,9,11 *", "at character 7: no such date: it never occurs"},
    {"0 9 L-30 4 *", "at character 5: no such date: it never occurs"},
    {"0 9 31W 6 *", "at character 5: no such date: it never occurs"},
    {"60 * * * *", "at character 1: expected a minute from 0 to 59"},
    {"60 * * * * *", "at character 1: expected a second from 0 to 59"},
    {"0 24 * * *", "at character 3: expected an hour from 0 to 23"},
    {"0 0 0 * *", "at character 5: expected a day of the month from 1 to 31"},
    {"0 0 32 * *", "at character 5: expected a day of the month from 1 to 31"},
    {"0 0 1 13 *", "at character 7: expected a month from 1 to 12, or a name such as JAN"},
    {"0 0 1 0 *", "at character 7: expected a month from 1 to 12, or a name such as JAN"},
    {"0 0 * * 8", "at character 9: expected a day of the week from 0 to 7, or a name such as SUN"},
    {"0 0 * * DAY", "at character 9: expected a day of the week from 0 to 7, or a name such as SUN"},
    {"0 0 * * MONDAY", "at character 12: expected ',', '-', '/' or a blank"},
    {"007 * * * *", "at character 1: expected a minute from 0 to 59"},
    {"99999999999999999999 * * * *", "at character 1: expected a minute from 0 to 59"},
    {"-1 * * * *", "at character 1: expected a minute from 0 to 59"},
    {"1, * * * *", "at character 3: expected a minute from 0 to 59"},
    {",1 * * * *", "at character 1: expected a minute from 0 to 59"},
    {"1- * * * *", "at character 3: expected a minute from 0 to 59"},
    {"1-2-3 * * * *", "at character 4: expected ',', '-', '/' or a blank"},
    {"1.5 * * * *", "at character 2: expected ',', '-', '/' or a blank"},
    {"? * * * *", "at character 1: expected a minute from 0 to 59"},
    {"0 0 ?/2 * *", "at character 5: expected a day of the month from 1 to 31"},
    {"0 22-2 * * *", "at character 6: the range ends before it begins; write two ranges, such as 22-23,0-2"},
    {"0 0 * OCT-MAR *", "at character 11: the range ends before it begins; write two ranges, such as 22-23,0-2"},
    {"0 0 * * FRI-MON", "at character 13: the range ends before it begins; write two ranges, such as 22-23,0-2"},
    {"*/0 * * * *", "at character 3: expected a step from 1 to 59; for longer intervals use `every`"},
    {"*/90 * * * *", "at character 3: expected a step from 1 to 59; for longer intervals use `every`"},
    {"0 */24 * * *", "at character 5: expected a step from 1 to 23; for longer intervals use `every`"},
    {"0 0 * * */7", "at character 11: expected a step from 1 to 6; for longer intervals use `every`"},
    {"*/ * * * *", "at character 3: expected a step from 1 to 59; for longer intervals use `every`"},
    {"*/5/5 * * * *", "at character 4: expected ',', '-', '/' or a blank"},
    {"*,5 * * * *", "at character 1: a '*' without a step must be all of the field"},
    {"5,* * * * *", "at character 3: a '*' without a step must be all of the field"},
    {"** * * * *", "at character 1: a '*' without a step must be all of the field"},
    {"0 0 */2 * MON",
     "at character 5: a '*' with a step, and days in the other day field; list the days, or let the other field be "
     "'*'"},
    {"0 0 1 * 5,*/2",
     "at character 9: a '*' with a step, and days in the other day field; list the days, or let the other field be "
     "'*'"},
    {"0 0 */2 * */2",
     "at character 5: a '*' with a step, and days in the other day field; list the days, or let the other field be "
     "'*'"},
    {"0 0 L,15 * *", "at character 6: expected L, L-n, LW or L-nW alone in the field"},
    {"0 0 L-31 * *", "at character 7: expected a number of days from 1 to 30"},
    {"0 0 L-0W * *", "at character 7: expected a number of days from 1 to 30"},
    {"0 0 1,15W * *", "at character 6: expected nW, such as 15W, alone in the field"},
    {"0 0 32W * *", "at character 5: expected a day of the month from 1 to 31"},
    {"0 0 W * *", "at character 5: expected a day of the month from 1 to 31"},
    {"0 0 15WX * *", "at character 7: expected ',', '-', '/' or a blank"},
    {"0 0 * * L", "at character 9: expected a day of the week from 0 to 7, or a name such as SUN"},
    {"0 0 * * MON#6", "at character 13: expected a number of a week from 1 to 5"},
    {"0 0 * * MON#0", "at character 13: expected a number of a week from 1 to 5"},
    {"0 0 * * MON,TUE#2", "at character 12: expected d#n or dL, such as MON#2 or FRIL, alone in the field"},
    {"0 0 * * MON#2,TUE", "at character 14: expected d#n or dL, such as MON#2 or FRIL, alone in the field"},
    {"0 0 * * MON-FRIL", "at character 12: expected d#n or dL, such as MON#2 or FRIL, alone in the field"},
    {"@reboot", "at character 1: expected @hourly, @daily, @midnight, @weekly, @monthly, @yearly or @annually"},
    {" @", "at character 2: expected @hourly, @daily, @midnight, @weekly, @monthly, @yearly or @annually"},
    {"@daily 5", "2 fields; expected 5, or 6 with the second first, or a name such as @daily"},
};

TEST_CASE("cron R30: what is refused, with the character and the reason") {
  for (const auto& [expression, reason] : refused) {
    const std::string text = expression;
    CAPTURE(text);
    CHECK(thrown([&] { Cron{text}; }) == "invalid_argument: cron \"" + text + "\": " + reason);
  }
}

TEST_CASE("cron R30: hostile texts are refused, and shown escaped and cut") {
  CHECK(thrown([] { Cron("0\n9 * * *"); }) ==
        "invalid_argument: cron \"0\\x0a9 * * *\": 4 fields; expected 5, or 6 with the second first, or a name such as "
        "@daily");
  CHECK(thrown([] { Cron(std::string_view("0 9 * * *\0", 10)); }) ==
        "invalid_argument: cron \"0 9 * * *\\x00\": at character 9: a '*' without a step must be all of the field");
  CHECK(thrown([] { Cron("0 9 \xc3\xbc * *"); }) ==
        "invalid_argument: cron \"0 9 \\xc3\\xbc * *\": at character 5: expected a day of the month from 1 to 31");
  const std::string long_list = "0 0 1" + std::string(246, ' ') + "* *  ";
  REQUIRE(long_list.size() == 256);
  CHECK(Cron(long_list).first(0) == 0);
  CHECK(thrown([&] { Cron(long_list + ' '); }) ==
        "invalid_argument: cron \"0 0 1" + std::string(59, ' ') + "...\": 257 bytes; expected at most 256");
  CHECK(has(thrown([] { Cron(std::string(10'000'000, '*')); }), "10000000 bytes; expected at most 256"));
}

}  // namespace
}  // namespace delayqueue::schedules
