// The documented ACL rule for dqctl allows all of its commands to run, and grants no right that none of them uses.
#include "preamble.h"

#include "support/acl.h"
#include "support/local.h"
#include "support/regex.h"

namespace {

using test::Guarded;

struct Operator {
  Operator() {
    options.environment["DELAYQUEUE_URI"] = guarded.url("dqctl");
    guarded.admin.cmd({"CONFIG", "RESETSTAT"});
  }

  // Runs dqctl and adds the Redis commands that it called to `used`. The counters restart before each run, so that
  // commands of the test itself are not counted.
  Ran dqctl(const std::vector<std::string>& arguments, const std::string& input = {}) {
    guarded.admin.cmd({"CONFIG", "RESETSTAT"});
    options.input = input;
    const Ran ran = run(arguments, options);
    const std::string stats = guarded.admin.cmd({"INFO", "commandstats"}).text;
    for (const auto& match : test::matches(stats, "cmdstat_([a-z|]+):")) used.insert(match[1]);
    std::string command;
    for (const std::string& argument : arguments) command += argument + ' ';
    const bool worked = ran.code == 0 || ran.code == 5;  // doctor reports risks with exit code 5
    CHECK_MESSAGE(worked, command, ran.code, ' ', ran.err);
    CHECK_MESSAGE(!has(ran.err + ran.out, "NOPERM"), command, ran.err, ran.out);
    return ran;
  }

  std::string id_in(const std::string& state) {
    return lines_of(dqctl({"ls", "orders", "--state", state, "--limit", "1", "-o", "ndjson"}).out).at(0).at("id");
  }

  Guarded guarded;
  DqctlOptions options{};
  std::set<std::string> used{};
};

TEST_CASE("ACL: the rule for dqctl is enough for its commands, and each command in the rule is used") {
  Operator op;
  const test::TempDir folder;
  const std::string backup = folder.file("backup");
  for (const char* delay : {"0s", "0s", "1h", "1h", "1h"})
    op.dqctl({"send", "orders", "x", "--delay", delay, "--ttl", "1h"});
  op.dqctl({"send", "orders", "--ndjson", "-"}, "{\"payload\":\"a\"}\n{\"payload\":\"b\"}\n");
  const std::string later = op.id_in("pending");
  op.dqctl({"reschedule", "orders", later, "--in", "2h"});
  op.dqctl({"release", "orders", later});
  op.dqctl({"cancel", "orders", later});
  test::make_dead("orders", 3, "why", op.guarded.server.url());
  op.dqctl({"redrive", "orders", op.id_in("dead")});
  op.dqctl({"redrive", "orders", "--reason", "why", "--yes"});
  op.dqctl({"bury", "orders", op.id_in("pending"), op.id_in("ready")});
  // Two messages that a consumer holds, and one that waits for its backoff to end.
  const auto soon = std::to_string(std::stoll(op.guarded.admin.cmd({"TIME"}).strings().at(0)) + 1000);
  for (const char* fraction : {".000001", ".000002", ".001000"}) {
    const std::string id = op.id_in("ready");
    op.guarded.admin.cmd({"LREM", "dp:orders:ready", "0", id});
    op.guarded.admin.cmd({"ZADD", "dp:orders:unack", soon + fraction, id});
  }
  const std::string held = op.id_in("unack");
  op.dqctl({"extend", "orders", held, "--by", "1h", "--force"});
  op.dqctl({"release", "orders", held, "--force"});
  const std::string failed = op.id_in("ready");
  op.guarded.admin.cmd({"LREM", "dp:orders:ready", "0", failed});
  op.guarded.admin.cmd({"LPUSH", "dp:orders:retry", failed});
  op.dqctl({"queues"});
  op.dqctl({"metrics"});
  op.guarded.admin.cmd({"HSET", "dp:orders:consumers", "01932e4f-8c1a-7bd0-9f60-0c7b2a1d9e55", "damaged"});
  for (const char* command : {"stats", "stuck", "workers", "pause", "resume"}) op.dqctl({command, "orders"});
  CHECK_FALSE(has(op.dqctl({"pause", "orders", "--audit"}).err, "warning"));
  op.dqctl({"resume", "orders"});
  op.dqctl({"actions", "orders"});
  for (const char* state : {"pending", "ready", "retry", "dead"}) op.dqctl({"ls", "orders", "--state", state});
  op.dqctl({"reasons", "orders"});
  op.dqctl({"find", failed});
  op.dqctl({"show", "orders", failed});
  op.dqctl({"doctor"});
  op.guarded.admin.cmd({"HSET", "dp:orders:attempts", "01932e4f-8c1a-7bd0-9f60-0c7b2a1d9e55", "2 1000"});
  op.dqctl({"doctor", "orders", "--repair", "--yes", "--settle", "1ms"});
  const std::string all = op.dqctl({"export", "orders"}).out;
  for (const char* state : {"pending", "ready", "retry", "dead"}) {
    op.dqctl({"purge", "orders", "--all", "--state", state, "--backup", backup, "--append", "--yes"});
  }
  op.guarded.admin.cmd({"DEL", "dp:orders:unack"});
  op.dqctl({"import", "orders", "-"}, all);
  for (const char* state : {"pending", "ready"}) op.dqctl({"purge", "orders", "--all", "--state", state, "--yes"});
  op.dqctl({"drain", "orders", "--timeout", "1ms"});
  op.dqctl({"partitions", "orders", "--set", "4"});
  for (int i = 0; i < 10; ++i) op.dqctl({"send", "orders", "x"});  // nearly all to other partitions than 0
  for (const char* command : {"stats", "stuck", "workers", "pause", "resume", "doctor"}) op.dqctl({command, "orders"});
  op.dqctl({"export", "orders"});
  op.dqctl({"purge", "orders", "--all", "--state", "ready", "--yes"});
  op.guarded.admin.cmd({"FLUSHALL"});
  op.dqctl({"send", "orders", "x"});
  op.dqctl({"send", "orders", std::string(100'000, 'x')});
  op.dqctl({"send", "orders", std::string(100'000, 'x'), "--id", "01932e4f-8c1a-7bd0-9f60-0c7b2a1d9e55"});
  op.dqctl({"purge", "orders", "--all", "--state", "ready", "--yes"});
  op.dqctl({"forget", "orders"});

  std::set<std::string> rule = test::commands_of(test::rule_of("dqctl"));
  for (const std::string& command : rule) {
    CHECK_MESSAGE((op.used.count(command) == 1 || command == "subscribe"), command);
  }
  for (const std::string& object : op.guarded.refused()) {
    // Refused keys of other queues: whether this queue exists with a hash tag, and names that dqctl reads for a missing
    // queue.
    const bool own = object.rfind("dp:orders:", 0) == 0 || object.rfind("{dp:orders#", 0) == 0;
    CHECK_MESSAGE((has(object, ":") && !own), object);
  }
}

}  // namespace
