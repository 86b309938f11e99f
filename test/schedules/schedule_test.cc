#include "support/test.h"

namespace delayqueue {
namespace {

TEST_CASE("schedule: its defaults, and the names of its enumerations") {
  CHECK(to_string(Schedule().missed) == std::string("last"));
  CHECK(to_string(Schedule().overlap) == std::string("skip"));
  CHECK(to_string(Missed::none) == std::string("none"));
  CHECK(to_string(Missed::all) == std::string("all"));
  CHECK(to_string(Overlap::allow) == std::string("allow"));
  CHECK(Schedule().zone == "UTC");
}

}  // namespace
}  // namespace delayqueue
