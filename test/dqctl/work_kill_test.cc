// dqctl work: a shell script is as reliable a worker as a C++ consumer.
#include "preamble.h"

#include "work_support.h"

using delayqueue::PrivateServer;
using delayqueue::PrivateServerOptions;
using test::process_runs;
using test::text_lines;
using test::Work;

namespace {

// The server writes every acknowledged command to disk.
PrivateServerOptions durable() {
  PrivateServerOptions options;
  options.arguments = {"--appendfsync", "always"};
  return options;
}

}  // namespace

TEST_CASE("work: with repeated kills of the worker and of its server, every message is handled") {
  PrivateServer server(durable());
  Work work(server.url());
  constexpr std::size_t kMessages = 200;
  std::set<std::string> sent;
  const auto options = with(&delayqueue::SendOptions::retries, 100);
  for (std::size_t i = 0; i < kMessages; ++i) sent.insert(work.send("x", options));
  const std::string ledger = work.folder.file("ledger");
  const auto handled = [&] { return text_lines(content_of(ledger)).size(); };
  const std::string script = "sleep 0.02; echo $DQ_ID >>" + ledger;
  const std::vector<std::string> more = {"--concurrency", "4", "--lease", "500ms"};

  for (int round = 0; round < 6; ++round) {
    Dqctl worker(work.by(script, more), at(server.url()));
    const std::size_t before = handled();
    const auto moved = [&] { return handled() >= before + 12; };
    REQUIRE(test::eventually(moved, std::chrono::seconds(60)));
    if (round % 3 == 2) {
      server.kill();
      server.restart();
      const std::size_t then = handled();
      REQUIRE(test::eventually([&] { return handled() >= then + 12; }, std::chrono::seconds(60)));
    }
    worker.signal(SIGKILL);
    worker.wait();
  }
  CHECK(handled() < kMessages);  // otherwise the kills came too late to prove anything
  CHECK(test::run(work.by(script, {"--concurrency", "4", "--until-empty"}), at(server.url())).code == 0);
  const auto lines = text_lines(content_of(ledger));
  CHECK(std::set<std::string>(lines.begin(), lines.end()) == sent);
  const auto counts = work.inspector.counts();
  CHECK(counts.pending + counts.ready + counts.unack + counts.retry + counts.dead == 0);
}

TEST_CASE("work: a killed worker leaves no process behind, and its message is delivered again") {
  Work work;
  work.send("x");
  const std::string pids = work.folder.file("pids");
  const std::vector<std::string> more = {"--lease", "500ms"};
  Dqctl worker(work.by("sh -c 'echo $$ >>" + pids + "; sleep 1000; true' & echo $$ >>" + pids + "; wait", more));
  REQUIRE(test::eventually([&] { return text_lines(content_of(pids)).size() == 2; }));
  worker.signal(SIGKILL);
  worker.wait();
  for (const std::string& pid : text_lines(content_of(pids))) {
    CHECK(test::eventually([&] { return !process_runs(pid); }));
  }
  expect(test::run(work.by("echo attempt $DQ_ATTEMPT", {"--until-empty"})), 0, {out_is("attempt 2\n")});
}

TEST_CASE("work: a restart of Redis does not affect a running command") {
  PrivateServer server(durable());
  Work work(server.url());
  work.send("x");
  Dqctl worker(work.by("echo begun; sleep 1; echo ended"), at(server.url()));
  REQUIRE(worker.wait_for("begun"));
  server.kill();
  REQUIRE(worker.wait_for("ended"));
  server.restart();
  REQUIRE(test::eventually([&] { return work.inspector.counts().totals.acked == 1; }));
  worker.signal(SIGINT);
  CHECK(worker.wait().code == 0);
}

TEST_CASE("work: if Redis stays down, two signals end it") {
  PrivateServer server(durable());
  Work work(server.url());
  work.send("x");
  Dqctl worker(work.by("echo begun; sleep 1000"), at(server.url()));
  REQUIRE(worker.wait_for("begun"));
  server.kill();
  worker.signal(SIGINT);
  worker.signal(SIGTERM);
  CHECK(worker.wait().code == 130);
}
