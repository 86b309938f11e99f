// The Redis server of a run: a child process without persistence, on a unix socket in a temporary folder.
#pragma once

#include "redis/connection.h"
#include "redis/pipeline.h"
#include "support/standard.h"

namespace bench {

class Server {
 public:
  // `arguments`: added to the command line, such as {"--appendonly", "yes"}.
  explicit Server(const std::vector<std::string>& arguments = {});

  const std::string& url() const { return url_; }
  const std::string& socket() const { return socket_; }
  int pid() const { return own_.pid(); }

  // Opens another connection.
  std::unique_ptr<delayqueue::redis::Connection> connect() const;

  // Runs a command on the connection of this object. Returns the answer as text; an integer as its digits. Throws on an
  // error.
  std::string command(const std::vector<std::string>& words);

  // The number in the line "<field>:<number>" of INFO <section>.
  double info(const std::string& section, const std::string& field);
  double cpu_us() { return 1e6 * (info("cpu", "used_cpu_user") + info("cpu", "used_cpu_sys")); }
  double used_memory() { return info("memory", "used_memory"); }

  std::string version();  // "redis 7.0.15", "valkey 8.1.1"
  std::string setting(const std::string& name);

  void flush();  // removes all keys synchronously, so that no background work remains

  // Ends the server. Called from the thread that handles signals.
  void end() noexcept;

 private:
  delayqueue::PrivateServer own_;
  const std::string url_, socket_, folder_;
  std::unique_ptr<delayqueue::redis::Connection> connection_;
};

// The text after "<field>:" in an answer to INFO; empty if the field is missing.
std::string_view field_of(std::string_view info, std::string_view field);

// Redis' own time in us for the longest single command between two answers to INFO commandstats, without INFO: a script
// call with all commands that it calls, EXEC with all commands of the transaction, or a plain command. For a command
// that ran several times it is the mean. Excluded is the time in which Redis reads the request and writes the answer.
double longest_us(std::string_view before, std::string_view after);

// The same for all calls of one command together, and their number. The name of the command is in lower case.
double own_us(std::string_view before, std::string_view after, const std::string& command);
double calls_of(std::string_view before, std::string_view after, const std::string& command);

}  // namespace bench
