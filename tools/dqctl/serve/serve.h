// dqctl serve: a page, JSON and metrics over HTTP. dqctl metrics --listen: metrics only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "context.h"
#include "exit.h"

namespace dqctl {

struct ServeOptions {
  std::string listen = "127.0.0.1:9480";
  std::optional<std::string> socket{};  // a path; instead of listen
  std::optional<std::string> token_file{};
  std::vector<std::string> hosts{};  // names that Host may have
  std::string cert{}, key{};         // of this server, for TLS
  std::string client_ca{};           // whose clients are accepted
  std::string user_field{};          // in which a proxy names the user; empty: none
  bool allow_changes = false;
  bool payloads = false;          // whether they are shown
  const char* command = "serve";  // in the lines on stderr
};

// Serves until SIGINT or SIGTERM. Throws Usage if the options would let anybody in: an address that is not of this
// machine needs a token, or certificates of clients.
Exit serve(Context& context, const ServeOptions& options);

// Serves /metrics of these queues (none: of all) and /healthz, and nothing else, by the same rules. Without requests it
// reads nothing from Redis.
Exit serve_metrics(Context& context, const ServeOptions& options, const std::vector<std::string>& queues);

}  // namespace dqctl
