// A million dead letters: no step of purge blocks Redis for longer than with few messages, and dqctl takes no more
// memory.
#include <doctest/doctest.h>
#include <unistd.h>

#include <string>

#include "queue.h"
#include "support/command_times.h"
#include "support/text.h"

using test::Ran;

namespace {

using namespace std::chrono_literals;

constexpr int kMessages = 1'000'000;
constexpr long kMostKib = 50 * 1024;
constexpr long long kBatch = 200;

void make_dead(test::Redis& client, int count) {
  static constexpr char kScript[] = R"lua(
    for i = ARGV[1] + 1, ARGV[1] + 20000 do
      local id = string.format('0190f7c2-5b1f-7000-8000-%012x', i)
      redis.call('ZADD', KEYS[1], 1000 + i / 1000, id)
      redis.call('HSET', KEYS[2], id, i % 2 == 0 and 'gateway timeout' or 'no such user')
      redis.call('SET', ARGV[2] .. id, 'payload ' .. i)
    end)lua";
  for (int from = 0; from < count; from += 20'000) {
    client.cmd({"EVAL", kScript, "2", "dp:q:dead", "dp:q:reason", std::to_string(from), "dp:q:msg:"});
  }
}

struct Server {
  Server() {
    delayqueue::PrivateServerOptions options;
    options.arguments = {"--appendonly", "no", "--save", ""};
    server = std::make_unique<delayqueue::PrivateServer>(options);
    client = std::make_unique<test::Redis>(server->socket());
    dqctl.environment["DELAYQUEUE_URI"] = server->url();
  }

  std::unique_ptr<delayqueue::PrivateServer> server;
  std::unique_ptr<test::Redis> client;
  test::DqctlOptions dqctl;
};

TEST_CASE("a million dead letters: purge shows its progress, runs in bounded steps, and takes less than 50 MiB") {
  test::CommandTimes times;
  for (int round = 0; round < 3 && !times.bounded(); ++round) {  // a slow round means that the machine was busy
    Server own;
    make_dead(*own.client, kMessages);
    own.client->cmd({"CONFIG", "RESETSTAT"});
    own.dqctl.terminal = true;
    const Ran ran = test::Dqctl({"purge", "q", "--all", "--state", "dead", "--yes"}, own.dqctl).wait(120s);
    CHECK(ran.code == 0);
    CHECK(test::has(ran.out, "purged 1,000,000 dead messages of q"));
    CHECK((test::has(ran.out, " of 1,000,000 (") || ran.took < 1200ms));
    CHECK(ran.peak_kib < kMostKib);
    CHECK(own.client->cmd({"DBSIZE"}) == 2);  // the statistics, and the set of queues
    times = test::command_times(*own.client);
    MESSAGE("purge: ", ran.took.count(), " ms, ", ran.peak_kib, " KiB, ", times);
    CHECK(times.calls >= kMessages / kBatch);
  }
  CHECK(times.bounded());
}

TEST_CASE("a hundred thousand of two hundred thousand dead letters: purge by reason with a backup is bounded as well") {
  test::CommandTimes times;
  for (int round = 0; round < 3 && !times.bounded(); ++round) {
    Server own;
    make_dead(*own.client, 200'000);
    own.client->cmd({"CONFIG", "RESETSTAT"});
    char file[] = "/tmp/dqctl-test-XXXXXX";
    ::close(::mkstemp(file));
    const Ran ran =
        test::Dqctl({"purge", "q", "--state", "dead", "--reason", "gateway*", "--backup", file, "--append", "--yes"},
                    own.dqctl)
            .wait(120s);
    ::unlink(file);
    CHECK(ran.code == 0);
    CHECK(own.client->cmd({"ZCARD", "dp:q:dead"}) == 100'000);
    CHECK(own.client->cmd({"HLEN", "dp:q:reason"}) == 100'000);
    CHECK(ran.peak_kib < kMostKib);
    times = test::command_times(*own.client);
    MESSAGE("purge --reason: ", ran.took.count(), " ms, ", ran.peak_kib, " KiB, ", times);
    CHECK(times.calls >= 100'000 / kBatch);
  }
  CHECK(times.bounded());
}

}  // namespace
