// A Lua script under the name Redis knows it by.
#pragma once

#include <string_view>

namespace delayqueue::redis {

struct Script {
  std::string_view name;
  std::string_view sha1;  // of body, computed when it was built in: EVALSHA needs no loading step
  std::string_view body;
};

}  // namespace delayqueue::redis
