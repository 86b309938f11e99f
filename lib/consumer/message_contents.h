// Makes and fills a Message, whose members are private.
#pragma once

#include "consumer/lease.h"

#include <delayqueue/message.h>

#include <memory>
#include <string>
#include <utility>

namespace delayqueue {

struct MessageContents {
  static Message make(std::string id, std::shared_ptr<const std::string> queue, int attempt, int retries_left,
                      std::shared_ptr<const Lease> lease) {
    Message message;
    message.id_ = std::move(id);
    message.queue_ = std::move(queue);
    message.attempt_ = attempt;
    message.retries_left_ = retries_left;
    message.lease_ = std::move(lease);
    return message;
  }

  static void set_payload(Message& message, std::string payload) { message.payload_ = std::move(payload); }
  static void set_headers(Message& message, Headers headers) { message.headers_ = std::move(headers); }
};

}  // namespace delayqueue
