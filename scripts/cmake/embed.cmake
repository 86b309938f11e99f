# cmake -DFILE=<file> -DOUTPUT=<file.cc> -P embed.cmake
#
# Writes the bytes of clock.so, or none if FILE is empty, into a C++ source: see lib/testing/server_clock.cc.
set(bytes "")
if(FILE)
  file(READ "${FILE}" bytes HEX)
endif()
string(LENGTH "${bytes}" size)
math(EXPR size "${size} / 2")
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
file(WRITE "${OUTPUT}" "#include <delayqueue/version.h>

#include <cstddef>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {
namespace testing {

extern const unsigned char clock_library[];
extern const std::size_t clock_library_size;

const unsigned char clock_library[] = {${bytes}0};
const std::size_t clock_library_size = ${size};

}  // namespace testing
}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
")
