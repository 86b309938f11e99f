// Tables of cron expressions with their slots, made by other programs.
#include "schedules/slots.h"
#include "support/paths.h"
#include "support/test.h"

#include <cstdlib>
#include <fstream>

namespace delayqueue::schedules {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// The lines of a table behind its comment.
std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  REQUIRE(file.is_open());
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!lines.empty() || line[0] != '#') lines.push_back(line);
  }
  return lines;
}

// The slots later than `after`, in seconds behind it, such as "60,120"; "refused" if the expression is not valid.
std::string answer(const std::string& cron, const std::string& zone, std::int64_t after, std::size_t count) {
  std::string text;
  try {
    const Slots slots(cron, milliseconds(0), zone);
    auto slot = slots.next(after * 1000);
    for (std::size_t i = 0; i < count; ++i) {
      text += (i == 0 ? "" : ",") + (slot ? std::to_string(*slot / 1000 - after) : "never");
      if (!slot) break;
      slot = slots.next(*slot);
    }
    return text;
  } catch (const std::invalid_argument&) {
    return "refused";
  }
}

// Compares all lines of a table: expression|zone|time+slots time+slots ...|reason. Slots are in seconds behind the
// time. Where ours differ, they follow a '=', and the line has a reason. Returns the number of times.
std::size_t compare(const std::string& path) {
  std::size_t times = 0;
  for (const std::string& line : lines_of(path)) {
    CAPTURE(line);
    const std::vector<std::string> parts = split(line, '|');
    REQUIRE(parts.size() >= 3);
    CHECK((parts.size() == 4) == has(line, "="));
    for (const std::string& time : split(parts[2], ' ')) {
      const std::vector<std::string> answers = split(time.substr(time.find('+') + 1), '=');
      const std::size_t count = split(answers[0], ',').size();
      CHECK(answer(parts[0], parts[1], std::stoll(time), count) == answers.back());
      ++times;
    }
  }
  return times;
}

bool has_zones() {
  return thrown([] { find_zone("Europe/Berlin"); }) == "nothing";  // else built without
}

TEST_CASE("cron R31: random expressions, near all offset changes of 20 zones and elsewhere, as by the definition") {
  if (!has_zones()) return;
  CHECK(compare(test::source_path("test/schedules/oracle.txt")) > 400);
  const char* const other = std::getenv("DELAYQUEUE_CRON_TABLE");
  if (other != nullptr) MESSAGE(std::string(other) << ": " << compare(other) << " times");
}

TEST_CASE("cron R31: the published table of Cronos, with the reason of each difference") {
  if (!has_zones()) return;
  CHECK(compare(test::source_path("test/schedules/cronos.txt")) > 1000);
}

TEST_CASE("cron R30: what Cronos refuses is refused") {
  std::size_t count = 0;
  for (const std::string& expression : lines_of(test::source_path("test/schedules/cronos_refused.txt"))) {
    CAPTURE(expression);
    CHECK(has(thrown([&] { Cron{expression}; }), "invalid_argument: cron \""));
    ++count;
  }
  CHECK(count > 300);
}

TEST_CASE("cron R30: answers of Quartz to expressions with L, W and #, with the reason of each difference") {
  CHECK(compare(test::source_path("test/schedules/quartz.txt")) == 400);
}

}  // namespace
}  // namespace delayqueue::schedules
