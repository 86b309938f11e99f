// The rules that must hold for every message after a run.
#pragma once

#include <unordered_map>

#include "chaos/ledger.h"

namespace chaos {

// The content of Redis at the end of a run.
struct Remains {
  std::unordered_map<std::string, int> dead{};  // id -> deliveries
  std::vector<std::string> strays{};            // content that must not be there: "<key>: <content>"
};

struct Breach {
  std::string rule{};
  std::string id{};                  // the id, or a description of what is wrong
  std::vector<std::string> words{};  // words by which the journals identify the message
};

struct Counts {
  std::uint64_t sent = 0;        // acknowledged
  std::uint64_t in_doubt = 0;    // never acknowledged, because the producer died
  std::uint64_t delivered = 0;   // deliveries that began
  std::uint64_t duplicates = 0;  // deliveries after one that did not request another
  std::uint64_t acked = 0, dead = 0, cancelled = 0;
  std::uint64_t in_window = 0;       // acknowledged, and lost within a window of asynchronous replication
  std::uint64_t given_up_in_go = 0;  // deleted by a worker in Go after the last retry
  std::uint64_t lost = 0;
};

struct Verdicts {
  Counts counts{};
  std::vector<Breach> breaches{};
};

// `durable`: sends waited for a replica, so that the loss of a master must lose none.
Verdicts judge(const Ledger& ledger, const Remains& remains, bool durable);

}  // namespace chaos
