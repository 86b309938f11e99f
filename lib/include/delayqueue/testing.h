// For tests of programs that use this library: no Redis is needed.
#pragma once

#include <delayqueue/message.h>
#include <delayqueue/version.h>

#include <string>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {

struct MessageFields {
  std::string id{};  // a UUID; empty: a new UUIDv7, whose time is now
  std::string queue = "test";
  int attempt = 1;
  int retries_left = 3;
  bool lease_lost = false;  // true: the lease is lost from the start; false: it never ends
  Headers headers{};
};

// A message for a handler under test: `handler(make_message("order 42")).kind() == Verdict::Kind::ack`. Throws
// std::invalid_argument if the id is not a UUID.
[[nodiscard]] DELAYQUEUE_EXPORT Message make_message(std::string payload, const MessageFields& fields = {});

}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
