// The messages of a run: what a producer asks for, and what the handler is to do with it.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>

namespace chaos {

// What becomes of a message: `ends_acked` kinds have retries enough for any run.
enum class Kind {
  ok,          // acked at once
  few,         // acked at once, but has few retries: crashes alone can make it a dead letter
  slow,        // acked after `number` ms, up to some leases
  hang,        // the first delivery outlasts processing_timeout
  nack_once,   // the first delivery nacks
  throw_once,  // the first delivery throws
  crash_once,  // the first delivery kills the process
  snooze,      // snoozed until `number`, ms since 1970
  nack,        // nacked always: ends dead
  reject,      // ends dead
  poison,      // kills the process always: ends dead
};

const char* to_string(Kind kind);
bool ends_acked(Kind kind);
bool ends_dead(Kind kind);

// As it travels in the payload. The token is known before the id is: some ids are chosen by the library.
struct Task {
  std::string token{};
  Kind kind = Kind::ok;
  std::int64_t number = 0;
};

std::string payload_of(const Task& task);
Task task_of(const std::string& payload);

// A send, and what else is to happen to the message.
struct Order {
  Task task{};
  std::int64_t delay_ms = 0;
  bool absolute = false;  // due at a time, not after a delay
  int retries = 0;
  std::int64_t ttl_ms = 0;  // 0: none
  bool own_id = true;       // the id is the token
  std::optional<std::int64_t> cancel_after_ms{};
  std::optional<std::int64_t> reschedule_after_ms{};
  std::int64_t reschedule_by_ms = 0;
};

inline constexpr int kPlenty = 1000;  // retries that no run can spend

using Random = std::mt19937_64;

std::int64_t between(Random& random, std::int64_t least, std::int64_t most);
bool one_in(Random& random, std::int64_t many);
std::string new_token(Random& random);

// Without `crashes` no message kills its process.
Order draw(Random& random, std::int64_t now_ms, std::int64_t lease_ms, bool crashes);

}  // namespace chaos
