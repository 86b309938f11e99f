// QueueAdmin::check on a million messages: it takes long, but each of its calls stays short.
#include "support/test.h"

#include "support/command_times.h"

namespace delayqueue {
namespace {

TEST_CASE("check: a million ready messages are checked in bounded calls, and the stranded ones among them are found") {
  constexpr std::size_t kReady = 1'000'000;
  PrivateServerOptions options;
  options.arguments = {"--appendonly", "no", "--save", ""};
  PrivateServer own(options);
  test::Queue queue(own.url());
  test::Redis client(own.socket());
  std::vector<std::string> some;
  for (std::size_t sent = 0; sent < kReady; sent += 50'000) {
    const auto batch = queue.producer.send_batch(std::vector<std::string>(50'000, "x"));
    some.push_back(batch[25'000].id);
  }
  for (const std::string& id : some) CHECK(client.cmd({"LREM", queue.base + ":ready", "1", id}) == 1);
  CheckOptions all;
  all.repair = true;
  all.recheck_after = milliseconds(0);
  std::uint64_t steps = 0;
  all.progress = [&](std::uint64_t, std::uint64_t) { ++steps; };

  client.cmd({"CONFIG", "RESETSTAT"});
  const auto start = std::chrono::steady_clock::now();
  const CheckReport report = queue.admin.check(all);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  MESSAGE("a check of a million: " << took.count() << " s, " << steps << " calls of progress");
  for (const char* command : {"evalsha", "hscan", "scan", "lrange"}) {
    CAPTURE(command);
    const test::CommandTimes times = test::command_times(client, command);
    MESSAGE(times);
    CHECK(times.bounded());
  }
  CHECK(steps > 10'000);
  CHECK(report.counts.size() == 1);
  CHECK(report.counts.at(Problem::stranded) == some.size());
  CHECK(report.repaired == some.size());
  CHECK(queue.inspector.counts().ready == kReady);
  for (const std::string& id : some) CHECK(!client.cmd({"LPOS", queue.base + ":ready", id}).nil());
}

}  // namespace
}  // namespace delayqueue
