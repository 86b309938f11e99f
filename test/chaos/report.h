// The output of a run.
#pragma once

#include "chaos/ledger.h"
#include "chaos/rules.h"
#include "chaos/run.h"

namespace chaos {

// Prints one line of key=value pairs, always in the same order.
void print_counts(const RunOptions& options, const Ledger& ledger, const Verdicts& verdicts, std::size_t broken);

// Prints the times from the return of Redis to the first delivery, by kind of fault.
void print_recoveries(const Ledger& ledger);

// Names the recoveries that are too slow: the median of all must be at most 1 s, that of each kind at most 2 s.
std::vector<std::string> slow_recoveries(const Ledger& ledger);

// Prints each breach with all journal lines about its message, sorted by time.
void print_breaches(const std::string& folder, const Verdicts& verdicts, const std::vector<std::string>& problems);

}  // namespace chaos
