// Error answers and other faults of a server: a test provokes one on a real server, checks the library, and undoes it.
#pragma once

#include "support/ledger.h"

namespace test {

// Collects the log entries of a producer or consumer.
class Lines {
 public:
  delayqueue::Logger logger();

  // Returns the first line of at least this severity that contains `part`, or "" if there is none.
  std::string find(const std::string& part, delayqueue::Severity least = delayqueue::Severity::warning) const;
  std::size_t count(delayqueue::Severity least = delayqueue::Severity::warning) const;
  // The number of lines of this severity that contain `part`.
  std::size_t count(delayqueue::Severity severity, const std::string& part) const;
  // The first entry whose line contains `part`, or an empty one.
  delayqueue::LogEntry entry(const std::string& part) const;
  // All lines, for the message of a check that fails.
  std::string text() const;

 private:
  mutable std::mutex mutex_;
  std::vector<delayqueue::LogEntry> entries_;
};

// A server that a test may break. The user "worker" (password "pw") has all rights until a test revokes them.
struct World {
  explicit World(std::vector<std::string> arguments = {});

  std::string url() const;  // logs in as "worker"
  void end_connections();   // closes all connections except `admin`

  delayqueue::PrivateServer server;
  Redis admin;
};

// Gives a server with the argument --key-load-delay 4,000 keys to load after a restart.
void add_keys_to_load(World& world);

// Sets an option of the server's configuration.
void set_config(Redis& client, const std::string& option, const std::string& value);

struct ServerFault {
  std::string name;
  std::string error;   // the exception that a call throws: "ConnectionError" or "ReplyError"
  std::string says;    // expected in its text and in the consumer's warning
  std::string advice;  // expected in both, too
  std::function<void(World&)> provoke;
  std::function<void(World&)> undo;
  bool refuses_reads = true;              // false: the server refuses writes only
  bool ran = false;                       // true: calls during the fault may still be executed after it
  std::chrono::milliseconds pause{1000};  // longest wait between two attempts
};

// Provokes and undoes the fault while a consumer runs handlers and more messages wait. Checks that Producer, and
// Inspector or QueueAdmin, throw the expected error and have changed nothing, and that the consumer warns and retries
// with pauses. After the fault the consumer must settle what was handled meanwhile and continue, with no message lost
// or delivered twice.
void see_through(const ServerFault& fault, World& world, const std::string& url);
inline void see_through(const ServerFault& fault, World& world) { see_through(fault, world, world.url()); }

}  // namespace test
