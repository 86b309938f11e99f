#include "inspector/server_info.h"

#include "queue/info_fields.h"
#include "queue/option_checks.h"
#include "redis/reply.h"

#include <algorithm>
#include <chrono>

namespace delayqueue {
namespace {

using redis::Reply;
using std::chrono::microseconds;

InfoFields facts_of(redis::Connection& connection) {
  static constexpr InfoQuery kQuestions[] = {{"INFO", "server", nullptr},      {"INFO", "clients", nullptr},
                                             {"INFO", "memory", nullptr},      {"INFO", "persistence", nullptr},
                                             {"INFO", "replication", nullptr}, {"CONFIG", "GET", "save"},
                                             {"CONFIG", "GET", "appendfsync"}};
  ask(connection, kQuestions);
  InfoFields facts;
  for (const InfoQuery& question : kQuestions) {
    const redis::ReplyPtr answer = connection.read();  // all of them, whatever they are
    const Reply reply(answer.get());
    if (reply.is_error()) continue;
    if (question.second == nullptr) {
      facts.add_info(reply.text());
    } else {
      for (std::size_t i = 0; i + 1 < reply.size(); i += 2) facts.add(reply[i].text(), reply[i + 1].text());
    }
  }
  return facts;
}

// The clock as seen in the fastest of some round trips: the middle of it is when the server looked.
void measure(redis::Connection& connection, ServerReport& report) {
  using Steady = std::chrono::steady_clock;
  for (int i = 0; i < 5; ++i) {
    const auto asked = Steady::now();
    const auto wall = std::chrono::system_clock::now();
    connection.write(kTime);
    const redis::ReplyPtr answer = connection.read();
    const auto took = std::chrono::duration_cast<microseconds>(Steady::now() - asked);
    const Reply time(answer.get());
    if (time.is_error()) return;
    if (i > 0 && took >= report.round_trip) continue;
    report.round_trip = took;
    report.clock_ahead = time_of(time) - std::chrono::duration_cast<microseconds>(wall.time_since_epoch()) - took / 2;
  }
}

}  // namespace

ServerReport report_server(redis::Connection& connection) {
  const InfoFields facts = facts_of(connection);
  ServerReport report;
  report.where = connection.where();
  const bool valkey = facts.has("valkey_version");
  report.product = valkey ? "Valkey" : facts.has("redis_version") ? "Redis" : "";
  report.version = valkey ? facts["valkey_version"] : facts["redis_version"];
  report.role = facts["role"];
  report.mode = facts.has("server_mode") ? facts["server_mode"] : facts["redis_mode"];
  if (const auto uptime = facts.number<std::int64_t>("uptime_in_seconds"))
    report.uptime = std::chrono::seconds(std::clamp<std::int64_t>(*uptime, 0, kLongest.count() / 1000));
  report.clients = facts.number<std::uint64_t>("connected_clients");
  report.memory = facts.number<std::uint64_t>("used_memory");
  report.memory_limit = facts.number<std::uint64_t>("maxmemory");
  report.eviction = facts["maxmemory_policy"];
  if (facts.has("aof_enabled")) report.append_only = facts["aof_enabled"] == "1" ? "yes" : "no";
  report.fsync = facts["appendfsync"];
  report.snapshots = facts["save"];
  measure(connection, report);
  return report;
}

}  // namespace delayqueue
