// What must hold of every message after a run.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "chaos/ledger.h"

namespace chaos {

// What is in Redis when all is quiet.
struct Remains {
  std::unordered_map<std::string, int> dead{};  // id -> deliveries
  std::vector<std::string> strays{};            // what should not be there: "<key>: <content>"
};

struct Breach {
  std::string rule{};
  std::string id{};                  // or what else is wrong
  std::vector<std::string> words{};  // what the journals call the message
};

struct Counts {
  std::uint64_t sent = 0;        // acknowledged
  std::uint64_t in_doubt = 0;    // never acknowledged: the producer died
  std::uint64_t delivered = 0;   // deliveries begun
  std::uint64_t duplicates = 0;  // of them, those that follow a delivery which did not ask for another
  std::uint64_t acked = 0, dead = 0, cancelled = 0;
  std::uint64_t in_window = 0;       // acknowledged and missing, as asynchronous replication may have it
  std::uint64_t given_up_in_go = 0;  // workers in Go delete what has no retries left
  std::uint64_t lost = 0;
};

struct Verdicts {
  Counts counts{};
  std::vector<Breach> breaches{};
};

// durable: sends were to survive the loss of a master.
Verdicts judge(const Ledger& ledger, const Remains& remains, bool durable);

}  // namespace chaos
