// Functions that make queues for the tests of dqctl.
#pragma once

#include "parse_json.h"
#include "run.h"
#include "support/server.h"

namespace test {

// Makes `count` dead letters with this reason and the payloads "0", "1" and so on. Returns the ids in the order of
// death.
inline std::vector<std::string> make_dead(const std::string& queue, std::size_t count, const std::string& reason,
                                          const std::string& url = server().url()) {
  delayqueue::Producer producer(url, queue);
  std::vector<std::string> payloads, ids;
  for (std::size_t i = 0; i < count; ++i) payloads.push_back(std::to_string(i));
  delayqueue::SendOptions later;  // pending: bury() leaves ids of ready messages in the list
  later.delay = std::chrono::hours(1);
  for (const auto& sent : producer.send_batch(payloads, later)) ids.push_back(sent.id);
  delayqueue::BuryOptions why;
  why.reason = reason;
  static_cast<void>(delayqueue::QueueAdmin(url, queue).bury(ids, why));
  return ids;
}

inline delayqueue::Counts counts(const std::string& queue, const std::string& url = server().url()) {
  return delayqueue::Inspector(url, queue).counts();
}

inline std::vector<nlohmann::json> lines_of(const std::string& text) {
  std::vector<nlohmann::json> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(test::parse_json(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return lines;
}

}  // namespace test
