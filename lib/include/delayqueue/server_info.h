// The servers that hold queues: their version, settings and risks, and the scripts that they have loaded. No call here
// reads or changes a queue. Errors as for Producer.
#pragma once

#include <delayqueue/client.h>
#include <delayqueue/error.h>
#include <delayqueue/export.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace delayqueue {

enum class RiskKind {
  eviction,     // Redis deletes keys when memory is short
  memory,       // 90% of maxmemory are used, with noeviction: once it is full, sends are refused
  persistence,  // a crash or restart loses messages
  disk,         // Redis could not write its append-only file or snapshot
  replica,      // the server is not a master
  clock,        // Redis' clock and this machine's are more than 5 s apart, or those of two masters more than 1 s
  coverage,     // all masters of a Cluster stop if one is away: a risk for queues with partitions
  unknown,      // some risks cannot be examined: INFO or CONFIG GET is forbidden or hidden
};
DELAYQUEUE_EXPORT const char* to_string(RiskKind kind);  // "eviction", "memory" ...

// A setting or state of a server that can lose messages of a queue, or delay them.
struct Risk {
  RiskKind kind{};
  std::string text{};     // the setting and its value; what can happen; what to do
  bool critical = false;  // harm is done now: at least 99% of maxmemory used, a replica, or an append-only file that
                          // cannot be written
};

// Version, state and settings of a server. A member is empty or unset if the server does not report it (INFO or CONFIG
// GET is forbidden or hidden).
struct ServerInfo {
  std::string address{};
  std::string product{};  // "Redis", "Valkey"
  std::string version{};
  std::string role{};  // "master", "slave"
  std::string mode{};  // "standalone", "sentinel", "cluster"
  std::optional<std::chrono::seconds> uptime{};
  std::optional<std::uint64_t> clients{};
  std::optional<std::uint64_t> memory{};        // bytes used
  std::optional<std::uint64_t> memory_limit{};  // maxmemory; 0: none
  std::string eviction{};                       // maxmemory-policy
  std::string append_only{};                    // "yes", "no"
  std::string fsync{};                          // appendfsync
  std::string snapshots{};                      // save
  std::string full_coverage{};                  // cluster-require-full-coverage: "yes", "no"; empty outside a Cluster
  std::chrono::microseconds round_trip{0};      // the fastest of several
  std::chrono::microseconds clock_ahead{0};     // Redis' clock minus this machine's; accurate to half a round trip
  std::vector<Risk> risks{};                    // empty: none was found
  std::string error{};  // why a node of a Cluster could not be examined; then only `address` is set. Empty: no error
};

// Examines the server; in a Cluster every master with slots. Throws if the server cannot be reached, in a Cluster if no
// node can be reached. A node that cannot be examined has ServerInfo::error.
//
// Consumers and Producers with a logger log these risks, except clock, once per process for each server. Consumers log
// a risk again when it comes back, and they log a jump of Redis' clock.
[[nodiscard]] DELAYQUEUE_EXPORT std::vector<ServerInfo> server_info(const Client& client);

// Adds the risks that concern queues with partitions to these masters of a Cluster: coverage, unknown if that cannot be
// examined, and clocks that differ.
// Does nothing for a single server.
DELAYQUEUE_EXPORT void add_partition_risks(std::vector<ServerInfo>& masters);

// The scripts of this library that one server has loaded, and those that it has not.
struct ServerScripts {
  std::string address{};
  std::vector<std::string> loaded{};   // names, without .lua
  std::vector<std::string> missing{};  // the others
  std::string error{};                 // why the scripts could not be listed or loaded; empty: no error
};

// Loads all scripts (SCRIPT LOAD) into every server that may serve a queue: with Sentinels also into the replicas, in a
// Cluster into every node. Users without the permission for EVAL can use queues then, also after a failover. A server
// loses its scripts when it restarts. Needs `+script|load`, in a Cluster also `+cluster|nodes`, and no permission for
// any key. Throws if the servers cannot be determined.
[[nodiscard]] DELAYQUEUE_EXPORT std::vector<ServerScripts> load_scripts(const Client& client);

// Returns which scripts each of these servers has loaded, and which are missing. Needs `+script|exists`. Servers and
// errors as for load_scripts().
[[nodiscard]] DELAYQUEUE_EXPORT std::vector<ServerScripts> find_scripts(const Client& client);

}  // namespace delayqueue
