// Tables of cron expressions with their slots, made by other programs.
#include "schedules/slots.h"
#include "support/paths.h"
#include "support/test.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace delayqueue::schedules {
namespace {

// The parts of a line between '|'.
std::vector<std::string> parts_of(const std::string& line) {
  std::vector<std::string> parts(1);
  for (const char c : line) {
    if (c == '|') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// The lines of a table that are no comments.
std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  REQUIRE(file.is_open());
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') lines.push_back(line);
  }
  return lines;
}

// See oracle.py. Returns the number of lines.
std::size_t check_oracle(const std::string& path) {
  const std::vector<std::string> lines = lines_of(path);
  for (const std::string& line : lines) {
    const std::vector<std::string> parts = parts_of(line);
    REQUIRE(parts.size() == 4);
    CAPTURE(line);
    const Slots slots(parts[0], milliseconds(0), parts[1]);
    const std::int64_t after = std::stoll(parts[2]);
    std::istringstream expected(parts[3]);
    std::int64_t at = after * 1000;
    for (std::int64_t slot = 0; expected >> slot;) {
      const auto next = slots.next(at);
      REQUIRE(next.has_value());
      CHECK(*next == (after + slot) * 1000);
      at = *next;
    }
  }
  return lines.size();
}

TEST_CASE("cron R31: random expressions, near all offset changes of 20 zones and elsewhere, as by the definition") {
  if (thrown([] { find_zone("Europe/Berlin"); }) != "nothing") return;  // built without zones
  CHECK(check_oracle(test::source_path("test/schedules/oracle.txt")) > 400);
  const char* const other = std::getenv("DELAYQUEUE_CRON_TABLE");
  if (other != nullptr) MESSAGE(std::string(other) << ": " << check_oracle(other) << " lines");
}

}  // namespace
}  // namespace delayqueue::schedules
