// All of a queue's keys at one moment, times as integers of us.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "redis/pipeline.h"

namespace test::model {

struct Body {
  std::string payload;
  std::optional<std::int64_t> expires_us;
};

struct Dump {
  std::int64_t now_us = 0;
  std::map<std::string, std::int64_t> pending, unack, dead;
  std::vector<std::string> ready, retry;  // left to right
  std::map<std::string, std::string> count, attempts, reason, stats;
  std::set<std::string> garbage;
  std::map<std::string, Body> bodies;
  std::set<std::string> others;  // all keys not named above

  bool only_stats() const { return left_over().empty(); }
  std::string left_over() const;  // all but stats, for people
};

// Makes the server know the script behind add_dump, and all of the library's: a script it does not know is run after
// the rest of its pipeline.
void load_scripts();

// A request for a dump, in one step.
void add_dump(delayqueue::redis::Pipeline& pipeline, const std::string& base);
Dump read_dump(delayqueue::redis::Reply reply);

// A request for Redis' time.
void add_time(delayqueue::redis::Pipeline& pipeline);
std::int64_t read_time(delayqueue::redis::Reply reply);

}  // namespace test::model
