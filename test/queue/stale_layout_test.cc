// Processes that were stopped for minutes while the number of partitions changed, and go on with the old one.
#include "support/test.h"

#include <signal.h>

#include "support/own_id.h"
#include "support/partitioned.h"
#include "support/process.h"
#include "support/wrong_clock.h"

namespace delayqueue {
namespace {

constexpr int kMessages = 3'000;  // of each producer

std::set<std::string> as_set(const std::vector<std::string>& all) { return {all.begin(), all.end()}; }

// The ids with which `worker_program produce ... own` sends.
std::vector<std::string> own_ids() {
  std::vector<std::string> ids;
  for (int i = 0; i < kMessages; ++i) ids.push_back(test::own_id(i));
  return ids;
}

TEST_CASE("partitions: processes that know an old number after ten minutes lose, repeat and strand nothing") {
  if (!test::can_run_with_wrong_clock()) return;
  test::WrongClock clock;
  test::Partitioned queue(4, clock.server().url());
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.begin() + 1, {queue.url, queue.name});
    return words;
  };
  test::Process worker(run({"consume", "8", "60000", "1000"}), clock.runner());
  queue.send("first");
  REQUIRE(eventually([&] { return queue.inspector.counts().totals.acked == 1; }, kPatience));
  worker.kill(SIGSTOP);

  const auto stop_after_some = [](const test::Process& process) {
    REQUIRE(eventually([&] { return process.said("sent").size() >= 20; }, kPatience));
    process.kill(SIGSTOP);
  };
  test::Process stale(run({"produce", std::to_string(kMessages)}), clock.runner());
  stop_after_some(stale);
  test::Process own(run({"produce", std::to_string(kMessages), "own"}), clock.runner());
  stop_after_some(own);
  REQUIRE(stale.said("done").empty());
  REQUIRE(own.said("done").empty());

  queue.admin.set_partitions(32);
  std::set<std::string> ids;
  Producer fresh(queue.url, queue.name);
  for (int i = 0; i < kMessages; ++i) ids.insert(fresh.send("fresh").id);
  std::size_t made = 0;
  for (const std::string& id : own_ids()) {
    made += fresh.send("fresh", with(&SendOptions::id, id)).created() ? 1 : 0;
  }
  CHECK(made < kMessages);  // those that were sent before
  CHECK(made > 0);
  queue.admin.set_partitions(8);
  clock.jump(10min);

  for (const auto* process : {&stale, &own}) process->kill(SIGCONT);
  REQUIRE(eventually([&] { return stale.said("done").size() + own.said("done").size() == 2; }, kPatience));
  for (auto* process : {&stale, &own}) {
    for (const std::string& id : process->said("sent")) ids.insert(id);
    CHECK(process->wait() == 0);
  }
  CHECK(ids.size() == 3 * kMessages);
  CHECK(as_set(own.said("sent")) == as_set(own_ids()));
  const Counts counts = queue.inspector.counts();
  CHECK(counts.ready + counts.pending == 3 * kMessages);
  CHECK(queue.inspector.find_all(std::vector<std::string>(ids.begin(), ids.end())).size() == ids.size());

  worker.kill(SIGCONT);  // it knows 4 partitions
  REQUIRE(eventually([&] { return worker.said("end").size() == 3 * kMessages + 1; }, kPatience));
  CHECK(eventually([&] { return queue.inspector.counts().unack == 0; }, kPatience));
  CHECK(worker.said("begin").size() == 3 * kMessages + 1);
  CHECK(queue.inspector.counts().totals.acked == 3 * kMessages + 1);
  worker.kill(SIGTERM);
  CHECK(worker.wait() == 0);
}

}  // namespace
}  // namespace delayqueue
