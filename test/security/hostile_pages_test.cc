// dqctl serve shows what another user of the same Redis has written as JSON text: every answer is a document without
// control characters, and one hostile queue does not hide another.
#include "support/test.h"

#include "hostile_queue.h"
#include "output/text.h"
#include "serve.h"

using nlohmann::json;
using test::Fields;
using test::HostileValue;

namespace {

std::string encoded(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) out += '%' + dqctl::hex(std::string(1, c));
  return out;
}

// Whether the queue can be read is not the question: what comes is a document.
void check_document(const test::Served& served, const std::string& path) {
  CAPTURE(path);
  const httplib::Response answer = served.get(path);
  CHECK((answer.status == 200 || answer.status == 404 || answer.status == 502 || answer.status == 503));
  CHECK(answer.get_header_value("Content-Type") == "application/json");
  CHECK_FALSE(test::is_unsafe(answer.body));
  CHECK(json::accept(answer.body));
}

void check_all(const test::Served& served) {
  const std::string queue = "/api/queues/" + test::kQueue;
  for (const char* state : {"pending", "ready", "unack", "retry", "dead"}) {
    check_document(served, queue + "/messages?state=" + state);
    check_document(served, queue + "/messages/" + test::spoiled_id(state));
    check_document(served, "/api/find?text=" + test::spoiled_id(state));
  }
  for (const char* what : {"", "/history", "/dead-reasons", "/partitions"}) check_document(served, queue + what);
  for (const char* path : {"/api/queues", "/api/workers", "/api/server"}) check_document(served, path);
  const json beside = served.json("/api/queues/" + encoded(test::kBeside));
  CHECK(beside["error"].is_null());
}

}  // namespace

TEST_CASE("hostile pages: texts in every field of a queue come out as JSON text") {
  test::build_queue();
  const test::Served served({"--payloads"});
  for (const HostileValue& value : test::hostile_strings()) {
    CAPTURE(value.name);
    test::build_spoiled(Fields::others, value.bytes);
    check_all(served);
  }
}

TEST_CASE("hostile pages: numbers that are out of every range come out as JSON") {
  test::build_queue();
  const test::Served served;
  for (const HostileValue& value : test::hostile_numbers()) {
    CAPTURE(value.name);
    test::build_spoiled(Fields::counted, value.bytes);
    check_all(served);
  }
}

TEST_CASE("hostile pages: a name of a queue is text in every answer, and what is searched for, too") {
  for (const HostileValue& value : test::hostile_strings()) {
    if (value.bytes.empty() || value.bytes.size() > 200) continue;
    CAPTURE(value.name);
    test::build_queue();
    test::redis().cmd({"SADD", "dp:queues", "dp:" + value.bytes});
    const test::Served served;
    check_document(served, "/api/queues");
    check_document(served, "/api/find?text=" + encoded(value.bytes));
    const httplib::Response metrics = served.get("/metrics");
    CHECK(metrics.status == 200);
    CHECK_FALSE(test::is_unsafe(metrics.body));
  }
}
