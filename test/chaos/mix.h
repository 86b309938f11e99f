// The messages of a run: their options, and what the handler does with them.
#pragma once

#include "support/standard.h"

namespace chaos {

inline constexpr char kQueue[] = "chaos";  // of all processes of a run

// The behaviour of the handler. Kinds with ends_acked() have more retries than any run can spend.
enum class Kind {
  ok,          // ack at once
  few,         // ack at once, with few retries: crashes alone can make it a dead letter
  slow,        // ack after `number` ms, up to several leases
  hang,        // the first delivery exceeds processing_timeout
  nack_once,   // the first delivery nacks
  throw_once,  // the first delivery throws
  crash_once,  // the first delivery kills the process
  snooze,      // snooze until `number`, ms since 1970
  nack,        // nack always: becomes a dead letter
  reject,      // becomes a dead letter
  poison,      // kills the process always: becomes a dead letter
};

const char* to_string(Kind kind);
bool ends_acked(Kind kind);
bool ends_dead(Kind kind);

// The payload. The token identifies the message before its id is known, because the library chooses some ids.
struct Task {
  std::string token{};
  Kind kind = Kind::ok;
  std::int64_t number = 0;
};

// The payload of a task. Half of the payloads are large, so that they are staged.
std::string payload_of(const Task& task);
Task task_of(const std::string& payload);

// The headers of the message with this token: none for half of the messages, and none at all if the run uses no
// headers.
delayqueue::Headers headers_of(const std::string& token, bool used);

// A message to send, and the calls that follow.
struct Order {
  Task task{};
  std::int64_t delay_ms = 0;
  bool absolute = false;  // due at a time; otherwise after a delay
  int retries = 0;
  std::int64_t ttl_ms = 0;  // 0: none
  bool own_id = true;       // the id is the token
  std::string key{};        // unique; empty: none
  std::optional<std::int64_t> cancel_after_ms{};
  std::optional<std::int64_t> reschedule_after_ms{};
  std::int64_t reschedule_by_ms = 0;
};

inline constexpr int kPlenty = 1000;  // more retries than any run can spend

using Random = std::mt19937_64;

std::int64_t between(Random& random, std::int64_t least, std::int64_t most);
bool one_in(Random& random, std::int64_t many);
std::string new_token(Random& random);

// Draws a message. Without `crashes` no message kills its process.
Order draw(Random& random, std::int64_t now_ms, std::int64_t lease_ms, bool crashes);

}  // namespace chaos
