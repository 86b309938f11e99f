// Other libraries, measured on the same server by a program of their own.
#pragma once

#include <string>

#include "bench/part.h"

namespace bench {

// Runs `program --url <redis url> --socket <path> --private [--quick]`. What it prints on stdout is one JSON object;
// stderr is for progress. The server is empty before and after, and nobody else's. Throws if it fails.
void run_peers(Bench& bench, const std::string& program);

// From another thread, when the run is broken off.
void end_peers() noexcept;

}  // namespace bench
