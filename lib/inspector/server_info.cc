#include "inspector/server_info.h"

#include "queue/endpoint.h"
#include "queue/info_fields.h"
#include "queue/option_checks.h"
#include "queue/server_risks.h"
#include "redis/reply.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

namespace delayqueue {
namespace {

using redis::Reply;
using std::chrono::microseconds;

InfoFields read_info(redis::Connection& connection) {
  static constexpr InfoQuery kQueries[] = {
      {"INFO", "server", nullptr},      {"INFO", "clients", nullptr},
      {"INFO", "memory", nullptr},      {"INFO", "persistence", nullptr},
      {"INFO", "replication", nullptr}, {"CONFIG", "GET", "save"},
      {"CONFIG", "GET", "appendfsync"}, {"CONFIG", "GET", "cluster-require-full-coverage"}};
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
void measure(redis::Connection& connection, ServerInfo& info) {
  using Steady = std::chrono::steady_clock;
  for (int i = 0; i < 5; ++i) {
    const auto sent = Steady::now();
    const auto wall = std::chrono::system_clock::now();
    connection.write(kTime);
    const redis::ReplyPtr answer = connection.read();
    const auto took = std::chrono::duration_cast<microseconds>(Steady::now() - sent);
    const Reply time(answer.get());
    if (time.is_error()) return;
    if (i > 0 && took >= info.round_trip) continue;
    info.round_trip = took;
    info.clock_ahead = time_of(time) - std::chrono::duration_cast<microseconds>(wall.time_since_epoch()) - took / 2;
  }
}

}  // namespace

ServerInfo read_server_info(redis::Connection& connection) {
  const InfoFields fields = read_info(connection);
  ServerInfo info;
  info.address = connection.where();
  const bool valkey = fields.has("valkey_version");
  info.product = valkey ? "Valkey" : fields.has("redis_version") ? "Redis" : "";
  info.version = valkey ? fields["valkey_version"] : fields["redis_version"];
  info.role = fields["role"];
  info.mode = fields.has("server_mode") ? fields["server_mode"] : fields["redis_mode"];
  if (const auto uptime = fields.number<std::int64_t>("uptime_in_seconds"))
    info.uptime = std::chrono::seconds(std::clamp<std::int64_t>(*uptime, 0, kLongest.count() / 1000));
  info.clients = fields.number<std::uint64_t>("connected_clients");
  info.memory = fields.number<std::uint64_t>("used_memory");
  info.memory_limit = fields.number<std::uint64_t>("maxmemory");
  info.eviction = fields["maxmemory_policy"];
  if (fields.has("aof_enabled") && fields["loading"] != "1")
    info.append_only = fields["aof_enabled"] == "1" ? "yes" : "no";
  info.fsync = fields["appendfsync"];
  info.snapshots = fields["save"];
  if (info.mode == "cluster") info.full_coverage = fields["cluster-require-full-coverage"];
  measure(connection, info);
  info.risks = find_risks(connection);
  for (Risk& risk : compare_clocks(connection)) info.risks.push_back(std::move(risk));
  return info;
}

std::vector<ServerInfo> DELAYQUEUE_ABI::server_info(const Client& client) {
  Endpoint endpoint = Endpoint::of_servers(client);
  const std::vector<redis::Address> nodes = endpoint.masters();
  if (nodes.empty()) return {read_server_info(*endpoint.connect_to_master())};
  std::vector<ServerInfo> all;
  for (const redis::Address& node : nodes) {
    try {
      all.push_back(read_server_info(*endpoint.dial(node)));
    } catch (const std::exception& e) {  // also std::invalid_argument: TLS refuses the host name of a node
      all.emplace_back().address = node.text();
      all.back().error = e.what();
    }
  }
  return all;
}

void DELAYQUEUE_ABI::add_partition_risks(std::vector<ServerInfo>& masters) {
  constexpr microseconds kClocksApart{1'000'000};
  ServerInfo* earliest = nullptr;
  ServerInfo* latest = nullptr;
  for (ServerInfo& master : masters) {
    if (!master.error.empty() || masters.size() == 1) continue;
    if (master.full_coverage == "yes") {
      master.risks.push_back({RiskKind::coverage,
                              "cluster-require-full-coverage yes: while one master is away and no replica takes over, "
                              "the whole Cluster refuses requests, so that all partitions of a queue stop, not only "
                              "those of that master; set cluster-require-full-coverage no"});
    } else if (master.full_coverage.empty()) {
      master.risks.push_back({RiskKind::unknown,
                              "cannot tell whether all partitions of a queue stop when one master is away: CONFIG GET "
                              "cluster-require-full-coverage failed; grant +config|get"});
    }
    if (earliest == nullptr || master.clock_ahead < earliest->clock_ahead) earliest = &master;
    if (latest == nullptr || master.clock_ahead > latest->clock_ahead) latest = &master;
  }
  if (earliest == nullptr) return;
  const microseconds apart = latest->clock_ahead - earliest->clock_ahead;
  if (apart <= kClocksApart + (latest->round_trip + earliest->round_trip) / 2) return;
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.1f s", std::chrono::duration<double>(apart).count());
  latest->risks.push_back({RiskKind::clock, std::string("Redis' clock is ") + seconds +
                                                " ahead of that of the master " + earliest->address +
                                                ": messages sent `at` a time come earlier from one " +
                                                "partition than from another by as much; correct the clocks"});
}

}  // namespace delayqueue
