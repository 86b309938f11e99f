#include "bench/round_trips.h"

#include "bench/bare.h"
#include "bench/jobs.h"
#include "bench/wire.h"
#include "store/keys.h"
#include "store/record.h"

namespace bench {
namespace {

using namespace delayqueue;

double rate_of(Bench& bench, const std::vector<Batch>& calls) {
  Wire wire(bench.server.socket());
  run(wire, {calls.front()}, 1);  // the server accepts the connection
  const std::vector<Batch> measured(calls.begin() + 1, calls.end());
  return static_cast<double>(measured.size()) / run(wire, measured, 1);
}

double rate_of(Bench& bench, std::size_t calls, const std::vector<std::string_view>& words, const std::string& answer) {
  Batch call{{}, answer};
  append(call.request, words);
  return rate_of(bench, std::vector<Batch>(calls + 1, call));
}

// The keys of an empty queue to which a message was sent before: the first send has another answer.
store::Keys begin_sends(Bench& bench) {
  bench.server.flush();
  store::Keys keys = store::make_keys(kQueue, {});
  bench.server.command({"HSET", keys.stats, "sent", "1"});
  return keys;
}

}  // namespace

double ping_rate(Bench& bench, std::size_t calls) { return rate_of(bench, calls, {"PING"}, "+PONG\r\n"); }

double script_rate(Bench& bench, std::size_t calls) {
  const std::string sha = bench.server.command({"SCRIPT", "LOAD", "return 1"});
  return rate_of(bench, calls, {"EVALSHA", sha, "0"}, ":1\r\n");
}

double send_script_rate(Bench& bench, std::size_t calls, const std::string& script) {
  const store::Keys keys = begin_sends(bench);
  const std::string sha = bench.server.command({"SCRIPT", "LOAD", script});
  const std::string delay = std::to_string(milliseconds(kLater).count());
  const std::string body = payload();
  std::vector<Batch> sends;
  for (const std::string& id : store::new_ids(calls + 1)) {
    Batch send{{}, ":1\r\n"};
    append(send.request, {"EVALSHA", sha, "6", keys.pending, keys.ready, keys.count, keys.stats, keys.wake,
                          keys.bodies + id, delay, "", "3", "0", body});
    sends.push_back(std::move(send));
  }
  return rate_of(bench, sends);
}

double send_commands_rate(Bench& bench, std::size_t calls) {
  const store::Keys keys = begin_sends(bench);
  const std::string body = payload();
  const auto due = std::chrono::system_clock::now() + kLater;
  const std::string score = std::to_string(std::chrono::system_clock::to_time_t(due)) + ".125";
  std::vector<Batch> sends;
  for (const std::string& id : store::new_ids(calls + 1)) {
    Batch send{{}, "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*4\r\n:1\r\n:1\r\n+OK\r\n:"};
    append(send.request, {"MULTI"});
    append(send.request, {"HSET", keys.count, id, "3"});
    append(send.request, {"ZADD", keys.pending, score, id});
    append(send.request, {"MSET", keys.bodies + id, body});
    append(send.request, {"HINCRBY", keys.stats, "sent", "1"});
    append(send.request, {"EXEC"});
    send.answer += std::to_string(sends.size() + 2) + "\r\n";
    sends.push_back(std::move(send));
  }
  return rate_of(bench, sends);
}

}  // namespace bench
