// Servers: server_info() reads the version, settings and risks of those that hold queues, load_scripts() loads the
// scripts of this library into them, and PrivateServer starts one, as the embedded: URLs do. No call here reads or
// changes a queue. Errors: see error.h.
#pragma once

#include <delayqueue/client.h>
#include <delayqueue/error.h>
#include <delayqueue/version.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {

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

// Adds to the given masters of a Cluster the risks for queues with partitions: coverage (unknown if that cannot be
// read), and clocks that differ. Does nothing for a single server.
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

struct PrivateServerOptions {
  std::string program{};  // empty: $DELAYQUEUE_REDIS_SERVER, then redis-server, then valkey-server on PATH
  std::string folder{};   // of data and socket; created (mode 0700) if missing; empty: temporary, removed at the end
  std::vector<std::string> arguments{};             // added to the command line, such as {"--maxmemory", "64mb"}
  std::chrono::milliseconds start_timeout{10'000};  // until it accepts commands; it may take longer to load its data
  // Variables for the server, such as "MALLOC_CONF=narenas:2"; the others are those of this process.
  std::vector<std::string> environment{};
};

// A Redis server that is a child of this process, for tests and for programs on a single machine. It listens only on a
// unix socket in its folder and writes an append-only file (fsync every second). It ends with this object, or with this
// process if the process ends first, in any way.
//
// The embedded URLs use such servers, too:
//
// "embedded:" is one server for the whole process. Its first use starts it. It ends with the process, and its data is
// deleted.
//
// "embedded:/folder" keeps its data. The server belongs to the process that names the folder first, and ends with it.
// If the server dies, the next call of the process restarts it with its data, and every Producer, Consumer, Inspector
// and QueueAdmin reconnects. Another process (a fork is one, too) that names the folder meanwhile gets a SetupError
// with the unix:// URL of the server, which it can use instead. A process that names the folder later has all data.
//
// On Linux the system shuts the server in a given folder down cleanly, too, if its process is killed. Elsewhere the
// server of a killed process runs until the next process that names the folder shuts it down.
//
// The folder must belong to the effective user and be closed to all other users (mode 0700). No other user may be able
// to replace it or a folder above it. Otherwise the call throws a SetupError with the change that is needed.
//
// One thread at a time may use a PrivateServer. After a fork() it belongs to the parent: in the child url(), socket()
// and folder() work, pid() returns -1, stop(), kill() and the destructor do nothing, and restart() throws
// std::logic_error. A call to an object that was moved from throws std::logic_error, too.
class DELAYQUEUE_EXPORT PrivateServer {
 public:
  // Starts the server and returns when it accepts commands. Throws ConnectionError with the program, how it failed
  // and its output (SetupError if a retry would fail, too), and std::invalid_argument for a folder whose socket path is
  // longer than 107 bytes.
  explicit PrivateServer(PrivateServerOptions options = {});
  ~PrivateServer();
  PrivateServer(PrivateServer&&) noexcept;
  PrivateServer& operator=(PrivateServer&&) noexcept;

  std::string url() const;     // unix:///...: for Producer, Consumer, Inspector, QueueAdmin
  std::string socket() const;  // the path of the socket
  std::string folder() const;
  int pid() const;  // of the running child; -1 when stopped

  // Shuts the server down after all acknowledged writes are on disk. Does nothing if it is
  // stopped already. Throws SetupError if some of these writes may not be on disk:
  //   - if the server cannot write them, as on a full disk, it continues to run; call stop() again when there is space;
  //   - if it did not end cleanly, it is stopped (pid() is -1), and the text has its log.
  // The destructor ends the server in any case. If `arguments` set a password, stop() cannot find out whether all is
  // written, and does not wait for that.
  void stop();
  void kill();  // kills the server (SIGKILL), without a clean shutdown

  // Kills the server if it runs, and starts it with the same folder, data and socket. Returns when it accepts commands.
  // Throws as the constructor.
  void restart();

 private:
  class DELAYQUEUE_HIDDEN Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
