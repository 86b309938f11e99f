#include "support/test.h"

#include "redis/slot.h"
#include "redis/topology.h"

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

TEST_CASE("slots: that of a key is the slot of its hash tag, if it has one") {
  const auto slot = [](const char* text) { return static_cast<int>(crc16(text) % kSlots); };
  CHECK(slot_of("{dp:orders}:pending") == slot("dp:orders"));
  CHECK(slot_of("dp:orders:pending") == slot("dp:orders:pending"));
  // The examples of the Cluster specification.
  CHECK(slot_of("foo{}{bar}") == slot("foo{}{bar}"));
  CHECK(slot_of("foo{{bar}}zap") == slot("{bar"));
  CHECK(slot_of("foo{bar}{zap}") == slot("bar"));
  CHECK(slot_of("foo}{bar") == slot("foo}{bar"));
}

}  // namespace
}  // namespace delayqueue::redis
