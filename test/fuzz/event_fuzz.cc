// decode_event accepts or rejects any text. An accepted event is encoded again as it was read.
#include "queue/go_events.h"
#include "require.h"

#include <string>

using delayqueue::decode_event;
using delayqueue::encode_event;

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const auto event = decode_event({reinterpret_cast<const char*>(data), size});
  if (!event) return 0;
  const int code = static_cast<int>(event->kind);
  REQUIRE(code >= 1 && code <= 7);
  REQUIRE(event->at.time_since_epoch().count() >= 0);
  REQUIRE(event->ids.empty());
  const std::string text = encode_event(event->kind, event->at, event->count);
  REQUIRE(text.size() <= size);  // leading zeros are lost
  const auto again = decode_event(text);
  REQUIRE(again);
  REQUIRE(again->kind == event->kind && again->at == event->at && again->count == event->count);
  return 0;
}
