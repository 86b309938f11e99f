// Finds the answer to a request of dqctl serve. The paths are those of openapi.json.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "serve/access.h"
#include "serve/audit.h"
#include "serve/changes.h"
#include "serve/command_reads.h"
#include "serve/documents.h"
#include "serve/events.h"
#include "serve/history.h"
#include "serve/http_server.h"
#include "serve/queue_poller.h"
#include "serve/reads.h"

namespace dqctl {

// The parts that answers come from.
struct ServeParts {
  const Access& access;
  const RedisName& redis;
  const Reads& reads;
  CommandReads& command_reads;
  QueuePoller& poller;
  History& history;
  Changes& changes;
  Audit& audit;
  Events& events;
};

// The answer of dqctl metrics --listen, which serves /metrics of these queues (none: of all) and /healthz only. checks:
// for /healthz, which must not wait for a long reading. Never throws.
HttpAnswer metrics_answer(const Access& access, CommandReads& reads, CommandReads& checks,
                          const std::vector<std::string>& queues, const HttpRequest& request);

// Any number of threads may use it.
class Routes {
 public:
  explicit Routes(const ServeParts& parts) : parts_(parts) {}

  // Never throws.
  HttpAnswer answer(const HttpRequest& request) const;

 private:
  using Path = std::vector<std::string>;

  HttpAnswer route(const HttpRequest& request) const;
  std::optional<HttpAnswer> page(const HttpRequest& request) const;
  HttpAnswer change(const HttpRequest& request) const;
  std::optional<HttpAnswer> about_server(const Path& path, const HttpRequest& request) const;
  std::optional<HttpAnswer> about_queue(const Path& path, const HttpRequest& request) const;

  HttpAnswer health() const;
  HttpAnswer queues() const;
  HttpAnswer queue(const std::string& name) const;
  Object history(const std::string& queue) const;
  Object server() const;
  Object audit() const;
  HttpAnswer events() const;

  const ServeParts parts_;
  const Time started_ = std::chrono::system_clock::now();
};

}  // namespace dqctl
