// Bare round trips with one request in flight: the limits of a thread that sends one message after the other. All
// requests are made before the measurement. Each function returns calls a second.
#pragma once

#include "bench/part.h"

namespace bench {

double ping_rate(Bench& bench, std::size_t calls);
double script_rate(Bench& bench, std::size_t calls);  // EVALSHA of a script that only returns a number

// EVALSHA with the keys and arguments of the script of a single send: of that script, or of another one that returns 1.
// Each call has a new id, and a due time in an hour. Removes all keys first.
double send_script_rate(Bench& bench, std::size_t calls, const std::string& script);

// The commands by which that script writes, in a transaction and without a script: MULTI, HSET, ZADD, MSET, HINCRBY and
// EXEC in one write. Removes all keys first.
double send_commands_rate(Bench& bench, std::size_t calls);

}  // namespace bench
