#include "redis/slot.h"

#include <doctest/doctest.h>

#include <string>

namespace delayqueue::redis {
namespace {

TEST_CASE("slots: the CRC is that of Redis") {
  CHECK(crc16("123456789") == 0x31c3);  // the example of the Cluster specification
  CHECK(crc16("") == 0);
  CHECK(crc16("foo") % kSlots == 12182);  // CLUSTER KEYSLOT foo
  CHECK(crc16("\xff\x80") == crc16("\x80", crc16("\xff")));
}

TEST_CASE("slots: the CRC of a text can be computed in parts") {
  const std::string text = "{dp:orders#12.345}";
  for (std::size_t i = 0; i <= text.size(); ++i) {
    CHECK(crc16(text.substr(i), crc16(text.substr(0, i))) == crc16(text));
  }
}

}  // namespace
}  // namespace delayqueue::redis
