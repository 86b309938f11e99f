// dqctl queues
#include <delayqueue/inspector.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "run.h"
#include "support/server.h"

using nlohmann::json;
using test::Ran;
using test::run;

namespace {

void send(const std::string& queue, int count, bool later = false) {
  delayqueue::SendOptions options;
  if (later) options.delay = std::chrono::hours(1);
  delayqueue::Producer producer(test::server().url(), queue);
  for (int i = 0; i < count; ++i) producer.send("payload", options);
}

}  // namespace

TEST_CASE("queues: every known queue with its counts, whatever its name") {
  test::redis().cmd({"FLUSHALL"});
  send("plain", 2);
  send("with space: and colon", 3, true);
  send(std::string("raw\xff\n\x1b[31m"), 1);
  delayqueue::Inspector(test::server().url(), "plain").pause();

  const Ran table = run({"queues"});
  CHECK(table.code == 0);
  CHECK(table.err.empty());
  CHECK(table.out ==
        "QUEUE                  PENDING  READY  UNACK  RETRY  DEAD\n"
        "plain                        0      2      0      0     0  paused\n"
        "raw\\xff\\n\\x1b[31m            0      1      0      0     0\n"
        "with space: and colon        3      0      0      0     0\n");

  const Ran document = run({"queues", "-o", "json"});
  CHECK(document.code == 0);
  const json queues = json::parse(document.out).at("queues");
  REQUIRE(queues.size() == 3);
  CHECK(queues[0] == json::parse(R"({"queue": "plain", "pending": 0, "ready": 2, "unack": 0, "retry": 0, "dead": 0,
                                     "due": 0, "overdue": 0, "paused": true})"));
  CHECK(queues[1].at("queue_base64") == "cmF3/wobWzMxbQ==");
  CHECK(queues[2].at("pending") == 3);

  const Ran lines = run({"-o", "ndjson", "queues"});
  CHECK(std::count(lines.out.begin(), lines.out.end(), '\n') == 3);
  CHECK(json::parse(lines.out.substr(0, lines.out.find('\n'))) == queues[0]);
}

TEST_CASE("queues: none is no error") {
  test::redis().cmd({"FLUSHALL"});
  const Ran ran = run({"queues"});
  CHECK(ran.code == 0);
  CHECK(ran.out.empty());
  CHECK(ran.err.find("no queue is at unix://") == 0);
  CHECK(json::parse(run({"queues", "-o", "json"}).out) == json::parse(R"({"queues": []})"));
}
