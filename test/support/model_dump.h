// The contents of all keys of a queue at one moment. Times are integers in us.
#pragma once

#include "redis/pipeline.h"
#include "support/standard.h"

namespace test::model {

struct Body {
  std::string payload;
  std::optional<std::int64_t> expires_us;
};

struct Dump {
  std::int64_t now_us = 0;
  std::map<std::string, std::int64_t> pending, unack, dead;
  std::vector<std::string> ready, retry;  // left to right
  std::map<std::string, std::string> count, attempts, reason, headers, stats;
  std::set<std::string> garbage;
  std::map<std::string, Body> bodies;
  std::set<std::string> others;  // other keys, without the prefix; hints are left out

  bool only_stats() const { return left_over().empty(); }
  std::string left_over() const;  // everything except stats, as text
};

// Loads the scripts of the library and the script of add_dump into the server. A script that the server does not know
// would run after the rest of its pipeline.
void load_scripts();

// Requests a dump, made by one script.
void add_dump(delayqueue::redis::Pipeline& pipeline, const std::string& base);
Dump read_dump(delayqueue::redis::Reply reply);

// Requests Redis' time.
void add_time(delayqueue::redis::Pipeline& pipeline);
std::int64_t read_time(delayqueue::redis::Reply reply);

}  // namespace test::model
