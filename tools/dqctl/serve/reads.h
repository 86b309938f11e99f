// What dqctl serve reads of single queues and messages, as JSON. The rest comes from the QueuePoller.
#pragma once

#include <delayqueue/inspector.h>

#include <memory>
#include <string>

#include "output/json.h"
#include "serve/clients.h"
#include "serve/queue_poller.h"
#include "serve/request.h"

namespace dqctl {

// Any number of threads may use it. Every call takes Redis a bounded number of bounded steps. The calls throw
// HttpError, Usage, std::invalid_argument and delayqueue::Error.
class Reads {
 public:
  // payloads: whether payloads and headers are shown.
  Reads(Clients& clients, QueuePoller& poller, bool payloads)
      : clients_(clients), poller_(poller), payloads_(payloads) {}

  // The readings of all queues; 503 if Redis is not reachable.
  std::shared_ptr<const Readings> reachable() const;

  // The inspector of a queue; 404 if there is none with this name.
  std::shared_ptr<delayqueue::Inspector> existing(const std::string& queue) const;

  Object messages(const std::string& queue, const Query& query) const;
  Object message(const std::string& queue, const std::string& id, const Query& query) const;
  Object partitions(const std::string& queue) const;
  Object find(const Query& query) const;

  // A message, with its payload only if payloads are shown.
  Object shown(const delayqueue::MessageInfo& message, const char* payload_name) const;

  bool shows_payloads() const { return payloads_; }

 private:
  std::size_t payload_bytes(const Query& query, std::size_t most, std::size_t otherwise) const;

  Clients& clients_;
  QueuePoller& poller_;
  const bool payloads_;
};

// Throws HttpError unless the text is a UUID.
void check_id(const std::string& id);

}  // namespace dqctl
