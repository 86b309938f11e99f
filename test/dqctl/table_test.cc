// Tables as dqctl prints them. Their layout for each command is tested with the command.
#include "preamble.h"

#include "output/table.h"

TEST_CASE("table: more rows than its buffer holds are all printed under one title") {
  test::redis().cmd({"FLUSHALL"});
  std::vector<std::string> words = {"SADD", "dp:queues"};
  for (int i = 0; i < 2500; ++i) words.push_back("dp:queue " + std::to_string(i));
  test::redis().cmd(words);
  const std::string table = run({"queues"}).out;
  CHECK(std::count(table.begin(), table.end(), '\n') == 2501);  // including one title
  CHECK(parse_json(run({"queues", "-o", "json"}).out).at("queues").size() == 2500);
  test::redis().cmd({"FLUSHALL"});
}

TEST_CASE("table: rows are aligned and fit a terminal") {
  test::redis().cmd({"FLUSHALL"});
  test::redis().cmd({"SADD", "dp:queues", "dp:" + std::string(30, 'x'), "dp:日本"});
  DqctlOptions options;
  options.terminal = true;
  options.environment = {{"NO_COLOR", "1"}};
  const std::string table = run({"queues"}, options).out;
  CHECK(table ==
        "QUEUE                           PENDING  READY  UNACK  RETRY  DEAD\n"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx        0      0      0      0     0\n"
        "日本                                  0      0      0      0     0\n");
  test::redis().cmd({"FLUSHALL"});
}
