// The two jobs that most parts measure: sending a backlog of messages, and handling it.
#pragma once

#include "bench/part.h"

namespace bench {

inline const std::string kQueue = "bench";

// A server, and how the producers and consumers connect to it.
struct Target {
  explicit Target(Server& of) : server(of), url(of.url()) {}

  Server& server;
  std::string url;
  delayqueue::ClientOptions connection{};
};

// Waits until the condition is true. Throws std::runtime_error if that takes more than three minutes.
void await(const std::function<bool()>& condition);

enum class Due { at_once, scheduled };  // scheduled: the messages stay pending until make_due()

// Sends the messages with send_batch, up to 10,000 in each call, and returns the rate.
double send_backlog(const Target& target, std::size_t messages, const std::string& body, Due due);

// Moves the due times of all pending messages into the distant past.
void make_due(Server& server);

// Starts a consumer that handles all messages, and returns the rate from its start to the last confirmed ack. Throws
// std::runtime_error if that takes more than three minutes.
double drain_backlog(Bench& bench, const Target& target, std::size_t messages, std::size_t workers);

// Both: the rates as <name>.send and <name>.receive, for scheduled messages and eight workers.
void measure_jobs(Bench& bench, const Target& target, const std::string& name, std::size_t messages,
                  const std::string& body);

}  // namespace bench
