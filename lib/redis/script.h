// A Lua script with the SHA-1 by which EVALSHA calls it.
#pragma once

#include <string_view>

namespace delayqueue::redis {

struct Script {
  std::string_view name;
  std::string_view sha1;  // of body, computed at build time, so that no SCRIPT LOAD is needed
  std::string_view body;
};

}  // namespace delayqueue::redis
