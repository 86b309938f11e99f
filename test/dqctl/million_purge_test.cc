// A million dead letters: no step of purge blocks Redis for longer than with few messages, and dqctl takes no more
// memory.
#include "preamble.h"

#include <unistd.h>

#include "support/command_times.h"

namespace {

constexpr int kMillion = 1'000'000;
constexpr long long kPurgedByCall = 200;

struct Server {
  Server() {
    delayqueue::PrivateServerOptions options;
    options.arguments = {"--appendonly", "no", "--save", ""};
    server = std::make_unique<delayqueue::PrivateServer>(options);
    client = std::make_unique<Redis>(server->socket());
    dqctl.environment["DELAYQUEUE_URI"] = server->url();
  }

  std::unique_ptr<delayqueue::PrivateServer> server;
  std::unique_ptr<Redis> client;
  DqctlOptions dqctl;
};

TEST_CASE("a million dead letters: purge shows its progress, runs in bounded steps, and takes less than 50 MiB") {
  test::CommandTimes times;
  for (int round = 0; round < 3 && !times.bounded(); ++round) {  // a slow round means that the machine was busy
    Server own;
    test::fill_dead(*own.client, kMillion);
    own.client->cmd({"CONFIG", "RESETSTAT"});
    own.dqctl.terminal = true;
    const Ran ran = expect(Dqctl({"purge", "q", "--all", "--state", "dead", "--yes"}, own.dqctl).wait(120s), 0,
                           {out_has("purged 1,000,000 dead messages of q")});
    CHECK((has(ran.out, " of 1,000,000 (") || ran.took < 1200ms));
    CHECK(ran.peak_kib < test::kMostKib);
    CHECK(own.client->cmd({"DBSIZE"}) == 2);  // the statistics, and the set of queues
    times = test::command_times(*own.client);
    MESSAGE("purge: ", ran.took.count(), " ms, ", ran.peak_kib, " KiB, ", times);
    CHECK(times.calls >= kMillion / kPurgedByCall);
  }
  CHECK(times.bounded());
}

TEST_CASE("a hundred thousand of two hundred thousand dead letters: purge by reason with a backup is bounded as well") {
  test::CommandTimes times;
  for (int round = 0; round < 3 && !times.bounded(); ++round) {
    Server own;
    test::fill_dead(*own.client, 200'000);
    own.client->cmd({"CONFIG", "RESETSTAT"});
    char file[] = "/tmp/dqctl-test-XXXXXX";
    ::close(::mkstemp(file));
    const Ran ran =
        Dqctl({"purge", "q", "--state", "dead", "--reason", "gateway*", "--backup", file, "--append", "--yes"},
              own.dqctl)
            .wait(120s);
    ::unlink(file);
    CHECK(ran.code == 0);
    CHECK(own.client->cmd({"ZCARD", "dp:q:dead"}) == 100'000);
    CHECK(own.client->cmd({"HLEN", "dp:q:reason"}) == 100'000);
    CHECK(ran.peak_kib < test::kMostKib);
    times = test::command_times(*own.client);
    MESSAGE("purge --reason: ", ran.took.count(), " ms, ", ran.peak_kib, " KiB, ", times);
    CHECK(times.calls >= 100'000 / kPurgedByCall);
  }
  CHECK(times.bounded());
}

}  // namespace
