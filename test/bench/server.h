// The Redis of a run: a child of this process, without persistence, on a unix socket in a folder of its own.
#pragma once

#include <delayqueue/private_server.h>

#include <memory>
#include <string>
#include <vector>

#include "redis/connection.h"
#include "redis/pipeline.h"

namespace bench {

class Server {
 public:
  Server();

  const std::string& url() const { return url_; }
  const std::string& socket() const { return socket_; }

  // A connection of its own.
  std::unique_ptr<delayqueue::redis::Connection> connect() const;

  // By the run's own connection; the answer as text, or of an integer as its digits. Throws what Redis refuses.
  std::string command(const std::vector<std::string>& words);

  // The number of a line "<field>:<number>" of INFO <section>.
  double info(const std::string& section, const std::string& field);
  double cpu_us() { return 1e6 * (info("cpu", "used_cpu_user") + info("cpu", "used_cpu_sys")); }
  double used_memory() { return info("memory", "used_memory"); }

  std::string version();  // "redis 7.0.15", "valkey 8.1.1"
  std::string setting(const std::string& name);

  void flush();  // of all keys, at once: nothing is left to do in the background

  // From another thread, when the run is broken off.
  void end() noexcept;

 private:
  delayqueue::PrivateServer own_;
  const std::string url_, socket_, folder_;
  std::unique_ptr<delayqueue::redis::Connection> connection_;
};

// The text behind "<field>:" in an answer to INFO; empty if it has none.
std::string_view field_of(std::string_view info, std::string_view field);

}  // namespace bench
