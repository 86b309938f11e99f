// Large bodies: what they cost Redis. Its scripts must not touch them, since Redis serves no other client meanwhile.
#include "support/test.h"

#include "support/command_times.h"

namespace delayqueue {
namespace {

using test::command_times;
using test::CommandTimes;

// Sends 50 messages with bodies of this size, which a consumer handles, in each of five rounds. Returns the lowest mean
// time of a script call in a round, in us.
double script_us(std::size_t body) {
  PrivateServer own;
  Redis client(own.socket());
  test::Queue queue(own.url());
  const std::string payload(body, 'x');
  test::Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  CommandTimes best{0, 1e9};
  for (std::size_t round = 0; round < 5; ++round) {
    client.cmd({"CONFIG", "RESETSTAT"});
    for (int i = 0; i < 50; ++i) queue.producer.send(payload);
    REQUIRE(ledger.settles((round + 1) * 50));
    const CommandTimes scripts = command_times(client);
    const CommandTimes sets = command_times(client, "set");
    MESSAGE(body, " bytes: evalsha: ", scripts, "; set: ", sets, "; mget: ", command_times(client, "mget"));
    CHECK(sets.mean_us < 20'000);
    if (scripts.mean_us < best.mean_us) best = scripts;
  }
  CHECK(consumer->stop(test::kPatience));
  return best.mean_us;
}

TEST_CASE("large bodies: the time of a script call does not grow with the size of bodies") {
  const double small = script_us(8 * 1024);
  const double large = script_us(1024 * 1024);
  MESSAGE("8 KiB: ", small, " us; 1 MiB: ", large, " us");
  CHECK(large < 4 * small);  // with bodies as arguments of the script, 9 times as long
}

}  // namespace
}  // namespace delayqueue
