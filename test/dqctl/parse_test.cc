#include "support/test.h"

#include "exit.h"
#include "parse.h"

using namespace dqctl;

namespace {

template <class Parse>
std::string refusal(Parse parse, const std::string& text) {
  try {
    parse("--x", text);
  } catch (const Usage& usage) {
    return usage.what();
  }
  return "";
}

}  // namespace

TEST_CASE("parse: durations with every unit are accepted, and malformed ones refused") {
  CHECK(parse_duration("--x", "0s") == 0ms);
  CHECK(parse_duration("--x", "250ms") == 250ms);
  CHECK(parse_duration("--x", "10s") == 10s);
  CHECK(parse_duration("--x", "5m") == 5min);
  CHECK(parse_duration("--x", "3d") == 72h);
  CHECK(parse_duration("--x", "1h30m") == 90min);
  CHECK(parse_duration("--x", "1d2h3m4s5ms") == 26h + 3min + 4s + 5ms);
  CHECK(parse_duration("--x", "36525d") == 24h * 36525);
  CHECK(parse_duration("--x", "1w") == 24h * 7);
  CHECK(parse_duration("--x", "2w1d12h") == 24h * 15 + 12h);
  for (const char* text : {"", "10", "s", "-5s", "1.5s", "10 s", "5m1h", "1s1s", "10y", "1d1w", "5218w", "36526d",
                           "99999999999999999999s", "1h ", "+1s"}) {
    CAPTURE(text);
    const std::string error = refusal(parse_duration, text);
    CHECK(error == "--x: '" + std::string(text) + "'; expected a duration such as 250ms, 10s, 5m, 2h, 3d, 1w or 1h30m");
  }
}

TEST_CASE("parse: times are accepted as dates and as offsets, and refused outside of 1970 to 2199") {
  const auto at = [](const char* text) { return utc_text(parse_when("--x", text).at.value()); };
  CHECK(at("2026-11-21T19:36:45Z") == "2026-11-21T19:36:45.000Z");
  CHECK(at("2026-11-21T19:36:45.123456Z") == "2026-11-21T19:36:45.123Z");
  CHECK(at("2026-11-21t19:36:45.5z") == "2026-11-21T19:36:45.500Z");
  CHECK(at("2026-11-21 19:36:45+01:30") == "2026-11-21T18:06:45.000Z");
  CHECK(at("2026-12-31T23:00:00-02:00") == "2027-01-01T01:00:00.000Z");
  CHECK(at("2028-02-29T00:00:00Z") == "2028-02-29T00:00:00.000Z");
  CHECK(at("1970-01-01T00:00:00Z") == "1970-01-01T00:00:00.000Z");
  CHECK(at("2100-03-01T00:00:00Z") == "2100-03-01T00:00:00.000Z");
  CHECK(at("1970-01-01T00:01:00+00:01") == "1970-01-01T00:00:00.000Z");
  CHECK(at("2199-12-31T23:58:59.999-00:01") == "2199-12-31T23:59:59.999Z");
  CHECK(at("2027-03-28T10:00Z") == "2027-03-28T10:00:00.000Z");
  CHECK(at("2027-03-28 10:00+02:00") == "2027-03-28T08:00:00.000Z");
  CHECK(at("2026-11-21T19:36:45+0130") == "2026-11-21T18:06:45.000Z");
  CHECK(at("2026-11-21T19:36:45.25-0100") == "2026-11-21T20:36:45.250Z");
  CHECK(at("2026-11-21T19:36:45+01") == "2026-11-21T18:36:45.000Z");
  CHECK(parse_when("--x", "+10m").delay == 10min);
  CHECK_FALSE(parse_when("--x", "+10m").at);
  for (const char* text : {"",
                           "+",
                           "10m",
                           "2026-11-21",
                           "2026-11-21T19:36:45",
                           "2026-11-21T19Z",
                           "2026-11-21T19:36",
                           "2026-11-21T19:36:Z",
                           "2026-11-21T19:36.5Z",
                           "2026-11-21T19:36:45+01:",
                           "2026-11-21T19:36:45+1",
                           "2026-11-21T19:36:45+010",
                           "2026-11-21T19:36:45+01000",
                           "2026-11-21T19:36:45+0160",
                           "2026-11-21T19:36:45+24",
                           "2027-02-29T00:00:00Z",
                           "2026-13-01T00:00:00Z",
                           "2026-00-01T00:00:00Z",
                           "2026-01-01T24:00:00Z",
                           "2026-01-01T00:60:00Z",
                           "2026-01-01T00:00:00.Z",
                           "2026-01-01T00:00:00Zx",
                           "1969-12-31T00:00:00Z",
                           "2200-01-01T00:00:00Z",
                           "9999-12-31T00:00:00Z",
                           "+-1s",
                           "1970-01-01T00:00:00+23:59",
                           "1970-01-01T00:00:59+00:01",
                           "2199-12-31T23:59:59-00:01",
                           "2199-12-31T23:59:59.999999-23:59"}) {
    CAPTURE(text);
    CHECK(refusal(parse_when, text).find("2026-11-21T19:36:45Z") != std::string::npos);
  }
}

TEST_CASE("parse: rates, sizes, numbers and states are accepted, and malformed ones refused") {
  CHECK(parse_rate("--x", "100/s") == 100);
  CHECK(parse_rate("--x", "100") == 100);
  CHECK(parse_rate("--x", "30/m") == 0.5);
  CHECK(parse_rate("--x", "0.5/s") == 0.5);
  for (const char* text : {"", "0/s", "-1/s", "1/d", "/s", "nan", "inf", "1e99"}) {
    CAPTURE(text);
    CHECK(refusal(parse_rate, text).find("100/s") != std::string::npos);
  }
  CHECK(parse_size("--x", "512") == 512);
  CHECK(parse_size("--x", "64k") == 65536);
  CHECK(parse_size("--x", "1GiB") == 1U << 30);
  for (const char* text : {"", "k", "1T", "-1", "1.5k", "99999999G"}) CHECK(!refusal(parse_size, text).empty());
  CHECK(parse_number("--x", "20", 1, 1000) == 20);
  for (const char* text : {"", "0", "1001", "1x", "-1"}) {
    const auto number = [](const std::string& name, const std::string& value) { parse_number(name, value, 1, 1000); };
    CHECK(refusal(number, text) == "--x: '" + std::string(text) + "'; expected a number from 1 to 1000");
  }
  CHECK(parse_state("--x", "dead") == delayqueue::State::dead);
  CHECK(!refusal(parse_state, "unknown").empty());
  CHECK(!refusal(parse_state, "DEAD").empty());
}

TEST_CASE("parse: errors escape control characters in the value") {
  CHECK(refusal(parse_duration, "\033[31m").find("'\\x1b[31m'") != std::string::npos);
}

TEST_CASE("parse: a glob matches with * and ?") {
  CHECK(matches_glob("*", ""));
  CHECK(matches_glob("", ""));
  CHECK_FALSE(matches_glob("", "a"));
  CHECK(matches_glob("*timeout*", "gateway timeout after 3 s"));
  CHECK_FALSE(matches_glob("timeout", "gateway timeout"));
  CHECK(matches_glob("a?c", "abc"));
  CHECK_FALSE(matches_glob("a?c", "ac"));
  CHECK(matches_glob("*ab*ab", "abxabab"));
  CHECK_FALSE(matches_glob("*ab*abc", "abxabab"));
  CHECK(matches_glob("a\\*c", "a*c"));
  CHECK_FALSE(matches_glob("a\\*c", "abc"));
  CHECK(matches_glob("a\\", "a\\"));
  CHECK(matches_glob("[a]", "[a]"));
  CHECK(matches_glob("*", std::string("\0\xff", 2)));
  const std::string many(20'000, 'a');  // matching takes no exponential time
  CHECK_FALSE(matches_glob("*a*a*a*a*a*a*a*b", many));
}
