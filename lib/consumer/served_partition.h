// One partition of a queue of a consumer: where it is, and its keys.
#pragma once

#include "consumer/served_queue.h"
#include "queue/endpoint.h"
#include "store/moves.h"

#include <delayqueue/events.h>

#include <memory>
#include <string>

namespace delayqueue {

struct ServedPartition {
  // Throws std::invalid_argument if the queue can have no such partition.
  ServedPartition(ServedQueue& served, unsigned partition)
      : queue(served),
        number(partition),
        own_endpoint(partition == 0 ? nullptr : std::make_unique<Endpoint>(served.endpoint, partition)),
        endpoint(partition == 0 ? served.endpoint : *own_endpoint),
        moves(endpoint.keys(), {served.options.dead_retention.count() > 0, 0}) {}
  ServedPartition(const ServedPartition&) = delete;
  ServedPartition& operator=(const ServedPartition&) = delete;

  const store::Keys& keys() const { return moves.keys(); }

  void log(Severity severity, const std::string& text, const LogFields& about = {}) const {
    queue.reporter.log(severity, named(text), about);
  }
  std::string named(const std::string& text) const {
    return number == 0 ? text : "partition " + std::to_string(number) + ": " + text;
  }

  ServedQueue& queue;
  const unsigned number;
  const std::unique_ptr<Endpoint> own_endpoint;  // of a partition above 0
  Endpoint& endpoint;
  const store::Store moves;
};

}  // namespace delayqueue
