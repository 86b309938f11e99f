// Listings are written to stdout: what they look like is seen in the tests of the commands.
#include "output/table.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "run.h"
#include "support/server.h"

using nlohmann::json;
using test::run;

TEST_CASE("table: more rows than are held back at a time") {
  test::redis().cmd({"FLUSHALL"});
  std::vector<std::string> words = {"SADD", "dp:queues"};
  for (int i = 0; i < 2500; ++i) words.push_back("dp:queue " + std::to_string(i));
  test::redis().cmd(words);
  const std::string table = run({"queues"}).out;
  CHECK(std::count(table.begin(), table.end(), '\n') == 2501);  // one title
  CHECK(json::parse(run({"queues", "-o", "json"}).out).at("queues").size() == 2500);
  test::redis().cmd({"FLUSHALL"});
}

TEST_CASE("table: lines fit a terminal") {
  test::redis().cmd({"FLUSHALL"});
  test::redis().cmd({"SADD", "dp:queues", "dp:" + std::string(30, 'x'), "dp:日本"});
  test::DqctlOptions options;
  options.terminal = true;
  options.environment = {{"NO_COLOR", "1"}};
  const std::string table = run({"queues"}, options).out;
  CHECK(table ==
        "QUEUE                           PENDING  READY  UNACK  RETRY  DEAD\n"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx        0      0      0      0     0\n"
        "日本                                  0      0      0      0     0\n");
  test::redis().cmd({"FLUSHALL"});
}
