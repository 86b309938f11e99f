// Bare round trips with one request in flight: the limits of a thread that sends one message after the other.
#pragma once

#include <cstddef>

#include "bench/part.h"

namespace bench {

double ping_rate(Bench& bench, std::size_t calls);
double script_rate(Bench& bench, std::size_t calls);  // EVALSHA of a script that only returns a number

}  // namespace bench
