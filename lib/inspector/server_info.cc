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

InfoFields read_info(redis::Connection& connection) {
  static constexpr InfoQuery kQueries[] = {{"INFO", "server", nullptr},      {"INFO", "clients", nullptr},
                                           {"INFO", "memory", nullptr},      {"INFO", "persistence", nullptr},
                                           {"INFO", "replication", nullptr}, {"CONFIG", "GET", "save"},
                                           {"CONFIG", "GET", "appendfsync"}};
  ask(connection, kQueries);
  InfoFields fields;
  for (const InfoQuery& query : kQueries) {
    const redis::ReplyPtr answer = connection.read();  // all answers must be read, errors too
    const Reply reply(answer.get());
    if (reply.is_error()) continue;
    if (query.second == nullptr) {
      fields.add_info(reply.text());
    } else {
      for (std::size_t i = 0; i + 1 < reply.size(); i += 2) fields.add(reply[i].text(), reply[i + 1].text());
    }
  }
  return fields;
}

// Measures the offset of the server's clock in the fastest of five round trips. It assumes that the server reads its
// clock in the middle of a round trip.
void measure(redis::Connection& connection, ServerReport& report) {
  using Steady = std::chrono::steady_clock;
  for (int i = 0; i < 5; ++i) {
    const auto sent = Steady::now();
    const auto wall = std::chrono::system_clock::now();
    connection.write(kTime);
    const redis::ReplyPtr answer = connection.read();
    const auto took = std::chrono::duration_cast<microseconds>(Steady::now() - sent);
    const Reply time(answer.get());
    if (time.is_error()) return;
    if (i > 0 && took >= report.round_trip) continue;
    report.round_trip = took;
    report.clock_ahead = time_of(time) - std::chrono::duration_cast<microseconds>(wall.time_since_epoch()) - took / 2;
  }
}

}  // namespace

ServerReport report_server(redis::Connection& connection) {
  const InfoFields fields = read_info(connection);
  ServerReport report;
  report.where = connection.where();
  const bool valkey = fields.has("valkey_version");
  report.product = valkey ? "Valkey" : fields.has("redis_version") ? "Redis" : "";
  report.version = valkey ? fields["valkey_version"] : fields["redis_version"];
  report.role = fields["role"];
  report.mode = fields.has("server_mode") ? fields["server_mode"] : fields["redis_mode"];
  if (const auto uptime = fields.number<std::int64_t>("uptime_in_seconds"))
    report.uptime = std::chrono::seconds(std::clamp<std::int64_t>(*uptime, 0, kLongest.count() / 1000));
  report.clients = fields.number<std::uint64_t>("connected_clients");
  report.memory = fields.number<std::uint64_t>("used_memory");
  report.memory_limit = fields.number<std::uint64_t>("maxmemory");
  report.eviction = fields["maxmemory_policy"];
  if (fields.has("aof_enabled")) report.append_only = fields["aof_enabled"] == "1" ? "yes" : "no";
  report.fsync = fields["appendfsync"];
  report.snapshots = fields["save"];
  measure(connection, report);
  return report;
}

}  // namespace delayqueue
