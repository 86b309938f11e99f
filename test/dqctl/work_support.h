// Helpers of the tests of `dqctl work`.
#pragma once

#include <doctest/doctest.h>

#include "parse_json.h"
#include "run.h"
#include "support/local.h"
#include "support/server.h"
#include "support/text.h"

namespace test {

// Whether a process runs. A zombie does not.
inline bool process_runs(const std::string& pid) {
  const std::string stat = content_of("/proc/" + pid + "/stat");
  const std::size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.at(name_end + 2) != 'Z';
}

// A new queue, with the calls that the tests need.
class Work {
 public:
  explicit Work(std::string url = server().url())
      : url_(std::move(url)), producer_(url_, name), inspector(url_, name) {}

  std::string send(const std::string& payload, const delayqueue::SendOptions& options = {}) {
    return producer_.send(payload, options).id;
  }

  // The arguments of dqctl work with this command.
  std::vector<std::string> by(const std::string& command, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"work", name, "--exec", command};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  Ran drain(const std::string& command, std::vector<std::string> more = {}) const {
    more.push_back("--until-empty");
    return run(by(command, more));
  }

  const std::string name = fresh_queue();
  const TempDir folder{};

 private:
  std::string url_;
  delayqueue::Producer producer_;

 public:
  delayqueue::Inspector inspector;
};

}  // namespace test
