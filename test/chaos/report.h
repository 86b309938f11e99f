// What a run prints.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "chaos/ledger.h"
#include "chaos/rules.h"
#include "chaos/run.h"

namespace chaos {

// One line: key=value, in the same order always.
void print_counts(const RunOptions& options, const Ledger& ledger, const Verdicts& verdicts, std::size_t broken);

// From Redis back to the first delivery after that, by kind of fault.
void print_recoveries(const Ledger& ledger);

// Half of all recoveries take at most a second, and half of those of one kind two, or they are named here.
std::vector<std::string> slow_recoveries(const Ledger& ledger);

// Each with all that was written about its message, in the order of time.
void print_breaches(const std::string& folder, const Verdicts& verdicts, const std::vector<std::string>& problems);

}  // namespace chaos
