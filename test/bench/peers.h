// Figures of other libraries, measured on the same server by a separate program.
#pragma once

#include <string>

#include "bench/part.h"

namespace bench {

// Runs `program --url <redis url> --socket <path> --private`, and with the numbers of this run: `--count`, messages of
// each rate; `--repeat`, how often each figure is measured; `--late`, scheduled messages, one due each millisecond;
// `--waiting`, messages whose memory is measured; `--idle`, seconds with an idle worker. The program prints one JSON
// object on stdout and its progress on stderr. The server is empty before and after, and has no other users. Throws if
// the program fails.
void run_peers(Bench& bench, const std::string& program);

// Ends the program. Called from the thread that handles signals.
void end_peers() noexcept;

}  // namespace bench
