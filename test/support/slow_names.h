// Host names whose look-up takes long: the tests that call these functions have a getaddrinfo() for them. In another
// program slow_names_library() does the same when it is preloaded.
//
//   hangs.test       no address, after 12 s
//   <n>.late.test    127.0.0.1, after n milliseconds
#pragma once

#include <string>

namespace test {

inline const std::string kHangingName = "hangs.test";
std::string late_name(int ms);

// How many look-ups of such a name have begun in this process, and have not ended; or have begun at all.
int look_ups_under_way(const std::string& name);
int look_ups_begun(const std::string& name);

}  // namespace test
