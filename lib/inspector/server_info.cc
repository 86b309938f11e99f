#include "inspector/server_info.h"

#include "queue/endpoint.h"
#include "queue/info_fields.h"
#include "queue/option_checks.h"
#include "queue/server_risks.h"
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
  if (fields.has("aof_enabled")) info.append_only = fields["aof_enabled"] == "1" ? "yes" : "no";
  info.fsync = fields["appendfsync"];
  info.snapshots = fields["save"];
  measure(connection, info);
  info.risks = find_risks(connection);
  for (Risk& risk : compare_clocks(connection)) info.risks.push_back(std::move(risk));
  return info;
}

std::vector<ServerInfo> server_info(const std::string& url, const ConnectionOptions& options) {
  Endpoint endpoint = Endpoint::of_servers(url, options);
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

}  // namespace delayqueue
