// Times beyond 2199 are refused by every command that takes one, and cause no early delivery.
#include "preamble.h"

namespace {

const std::string kFar = "9999-12-31T00:00:00Z";

std::string line_at(const std::string& state, const std::string& at) {
  json line = {{"id", kId}, {"state", state}, {"payload", "x"}, {"at", at}};
  if (state == "pending") line["retries"] = 3;
  return line.dump() + "\n";
}

// Checks that the error names the accepted range, and that the queue has no message.
void check_refused(const Ran& ran, int code, const std::string& queue) {
  CHECK(ran.code == code);
  CHECK(has(ran.err, "'" + kFar + "'; expected a time from 1970 to 2199"));
  const auto counts = test::counts(queue);
  CHECK(counts.pending + counts.ready + counts.unack + counts.retry + counts.dead + counts.totals.delivered == 0);
}

}  // namespace

TEST_CASE("times: send --at refuses the year 9999, names the accepted range, and sends nothing") {
  const std::string queue = fresh_queue();
  check_refused(run({"send", queue, "x", "--at", kFar}), 2, queue);
  check_refused(run({"send", queue, "x", "--at", kFar, "-o", "json"}), 2, queue);
  CHECK(run({"send", queue, "x", "--at", "2199-12-31T00:00:00Z"}).code == 0);
  CHECK(test::counts(queue).pending == 1);
}

TEST_CASE("times: send --ndjson refuses a line with the year 9999 by its number, and sends the other lines") {
  const std::string queue = fresh_queue();
  const std::string far = R"({"payload":"far","at":")" + kFar + "\"}\n";
  const Ran ran = run({"send", queue, "--ndjson", "-"}, with_input(far));
  CHECK(has(ran.err, "line 1: "));
  check_refused(ran, 1, queue);
  const std::string soon = "{\"payload\":\"soon\",\"delay\":\"1h\"}\n";
  expect(run({"send", queue, "--ndjson", "-"}, with_input(soon + far)), 4,
         {err_has("line 2: "), out_is("sent 1 message to " + queue + "; 1 line failed\n")});
  CHECK(test::counts(queue).pending == 1);
  CHECK(test::counts(queue).ready == 0);
}

TEST_CASE("times: import refuses the year 9999 for a pending and for a dead message, and stores nothing") {
  for (const char* state : {"pending", "dead"}) {
    CAPTURE(state);
    const std::string queue = fresh_queue();
    for (const bool dry : {true, false}) {
      std::vector<std::string> words = {"import", queue, "-"};
      if (dry) words.push_back("--dry-run");
      const Ran ran = run(words, with_input(line_at(state, kFar)));
      CHECK(has(ran.err, "stdin, line 1: at: "));
      check_refused(ran, 1, queue);
    }
    CHECK(run({"import", queue, "-"}, with_input(line_at(state, "2199-12-31T00:00:00Z"))).code == 0);
    CHECK(test::counts(queue).pending + test::counts(queue).dead == 1);
    expect(run({"work", queue, "--exec", "cat", "--until-empty"}), 0, {out_is("")});
    CHECK(test::counts(queue).pending + test::counts(queue).dead == 1);
  }
}

TEST_CASE("times: reschedule --at refuses the year 9999 and leaves the message unchanged") {
  const std::string queue = fresh_queue();
  delayqueue::Producer producer(test::server().url(), queue);
  const std::string id = producer.send("x", delayed(std::chrono::hours(1))).id;
  delayqueue::Inspector inspector(test::server().url(), queue);
  const auto due = inspector.find(id)->at;
  expect(run({"reschedule", queue, id, "--at", kFar}), 2,
         {err_has("--at: '" + kFar + "'; expected a time from 1970 to 2199")});
  CHECK(inspector.find(id)->at == due);
  CHECK(inspector.find(id)->state == delayqueue::State::pending);
}
