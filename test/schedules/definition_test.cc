#include "support/test.h"

#include "schedules/definition.h"
#include "schedules/schedule.h"
#include "store/schedules.h"

#include <random>

namespace delayqueue::schedules {
namespace {

Schedule every_minute() {
  Schedule schedule;
  schedule.every = 1min;
  return schedule;
}

std::string refusal_of(const std::string& text) {
  return thrown([&] { definition_of(text); });
}

TEST_CASE("schedules: a definition is read as it was written, with any payload and headers") {
  Schedule schedule;
  schedule.cron = "0 9 * * MON-FRI";
  schedule.zone = "UTC";
  schedule.payload = std::string("payload=\n\0\xff%41\n", 15);
  schedule.headers = {{"a", std::string("\n%=\x7f\0\xc3\xa4", 7)}, {"b", ""}};
  schedule.retries = 0;
  schedule.ttl = 5min;
  schedule.missed = Missed::all;
  schedule.overlap = Overlap::allow;
  schedule.until = std::chrono::system_clock::time_point(milliseconds(1'900'000'000'123));
  const std::string text = text_of(schedule);
  CHECK(text == std::string("cron=0 9 * * MON-FRI\nzone=UTC\nmissed=all\noverlap=allow\nretries=0\nttl=300000\n"
                            "until=1900000000123\nheader=a=%0A%25=%7F%00\xc3\xa4\nheader=b=\npayload=") +
                    schedule.payload);
  const Schedule read = definition_of(text).schedule;
  CHECK(text_of(read) == text);
  CHECK(read.payload == schedule.payload);
  CHECK(*read.headers.find("a") == *schedule.headers.find("a"));
  CHECK(read.until == schedule.until);
  CHECK(read.retries == 0);
  CHECK(definition_of(text).slots.next(0) == 9 * 3'600'000);

  CHECK(text_of(every_minute()) == "every=60000\nmissed=last\noverlap=skip\npayload=");
  CHECK(definition_of(text_of(every_minute())).slots.next(0) == 60'000);
}

TEST_CASE("schedules: the largest definition can be stored and read by the scripts") {
  Schedule schedule = every_minute();
  schedule.payload.assign(kMostPayload, '\0');
  schedule.headers.set("a", std::string(7000, '\0'));
  const std::string text = text_of(schedule);
  CHECK(text.size() + 40 < store::kLongestScheduleText);
  CHECK(definition_of(text).schedule.payload == schedule.payload);
}

TEST_CASE("schedules R11: a definition that this version does not write is refused, with the reason") {
  const std::string good = text_of(every_minute());
  CHECK(refusal_of("").find("no payload") != std::string::npos);
  CHECK(refusal_of("jitter=5\n" + good).find("the key jitter is unknown; it may be of a later version") !=
        std::string::npos);
  CHECK(refusal_of("every=60000\n" + good).find("two lines every") != std::string::npos);
  for (const std::string& line : {std::string("missed=some"),
                                  std::string("overlap="),
                                  std::string("retries=-1"),
                                  std::string("retries=5000000000"),
                                  std::string("retries= 1"),
                                  std::string("ttl=1x"),
                                  std::string("ttl="),
                                  std::string("until=-1"),
                                  std::string("until=7258118400000"),
                                  std::string("header=a"),
                                  std::string("header=a=%4"),
                                  std::string("header=a=%zz"),
                                  std::string("header=a=1\nheader=a=2"),
                                  std::string("header=dq-x=1"),
                                  std::string("header= =1"),
                                  std::string("header=a=\x01"),
                                  std::string("ttl=0"),
                                  std::string("x"),
                                  std::string("zone=Europe/Berlin"),
                                  std::string("cron=* * * * *")}) {
    CAPTURE(line);
    CHECK_FALSE(refusal_of(line + "\nevery=60000\nmissed=last\noverlap=skip\npayload=").empty());
  }
  CHECK_FALSE(refusal_of("every=999\npayload=").empty());
  CHECK_FALSE(refusal_of("cron=* * * *\npayload=").empty());
  CHECK_FALSE(refusal_of("every=60000\npayload=" + std::string(kMostPayload + 1, 'x')).empty());
  CHECK_FALSE(refusal_of(std::string(store::kLongestScheduleText + 1, 'x')).empty());
  CHECK(refusal_of("\x1b[2J=1\npayload=").find('\x1b') == std::string::npos);
}

TEST_CASE("schedules: damaged definitions are read or refused, and nothing else") {
  std::mt19937 random(7);
  Schedule schedule = every_minute();
  schedule.headers = {{"a", "%"}};
  schedule.ttl = 1min;
  const std::string good = text_of(schedule);
  int read = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text = good;
    for (std::size_t n = 1 + random() % 3; n > 0; --n) {
      const std::size_t at = random() % text.size();
      if (random() % 3 == 0) {
        text.erase(at, 1 + random() % 4);
      } else {
        text[at] = static_cast<char>(random() % 256);
      }
      if (text.empty()) break;
    }
    try {
      definition_of(text);
      ++read;
    } catch (const std::invalid_argument&) {
    } catch (const SetupError&) {
    }
  }
  CHECK(read > 0);
}

TEST_CASE("schedules: the head of a stored text") {
  const auto generation = [](std::string_view text) { return store::parsed_schedule(text).generation; };
  const store::ScheduleText text = store::parsed_schedule("17 active\na\nb");
  CHECK(text.generation == 17);
  CHECK(text.state == "active");
  CHECK(text.definition == "a\nb");
  CHECK(generation("9007199254740991 paused\n") == 9'007'199'254'740'991);
  for (const char* bad : {"", "x", "\n", "1\n", "1 \n", " active\n", "1 Active\n", "1 active", "-1 active\nd", "+1 a\n",
                          "9007199254740992 active\n", "00000000000000001 a\n", "1  a\n", "1 a b\n", "1.0 a\n"}) {
    CAPTURE(std::string(bad));
    CHECK(generation(bad) == 0);
  }
}

}  // namespace
}  // namespace delayqueue::schedules
