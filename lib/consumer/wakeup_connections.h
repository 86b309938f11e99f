// The connections that wait for the wake-ups of a consumer's queues: one for all of them; in a Cluster one for each.
// Used by the consumer's thread only.
#pragma once

#include "consumer/lane.h"
#include "consumer/link.h"
#include "consumer/served_queue.h"
#include "consumer/wakeup_listener.h"

#include <delayqueue/consumer.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <vector>

namespace delayqueue {

// Decides for which keys each WakeupListener waits, passes the markers on to the lanes, and lets the queues without
// wake-ups be polled more often.
class WakeupConnections {
 public:
  // `queues`: all queues of the consumer, also those that are added later.
  WakeupConnections(const std::deque<ServedQueue>& queues, const ConsumerOptions& options, BackgroundCalls& calls)
      : queues_(queues), options_(options), calls_(calls) {}

  // Waits for the wake-ups of this queue, too. Call it when `queues` is complete.
  void add(ServedQueue& queue);

  // There are several servers: from now on no connection is made in this thread.
  void connect_in_background() { connections_.front().listener.connect_in_background(calls_); }

  // Passes on what was received since the last call.
  void read();

  // Begins to wait for the wake-ups of these lanes, by their numbers, and sets how often the lanes poll.
  void listen(const std::vector<bool>& listens);

  // Adds the file descriptors for poll() of those that wait.
  void add_fds(std::vector<int>& fds) const;

  // Ends the waiting for good. Further calls do nothing.
  void leave();
  bool has_left() const { return left_; }

  // Closes the connections, and waits for the threads that make one.
  void end();

 private:
  using Clock = std::chrono::steady_clock;

  struct Connection {
    Connection(Endpoint& endpoint, milliseconds patience, BackgroundCalls* calls)
        : listener(endpoint, patience, calls) {}

    WakeupListener listener;
    std::vector<ServedQueue*> queues;  // all; in a Cluster one
    bool enabled = true;
  };

  static void read(ServedQueue& queue, const WakeupListener::Marker& marker);
  static void pass_on(ServedQueue& queue, const WakeupListener::Marker& marker);

  const std::deque<ServedQueue>& queues_;
  const ConsumerOptions& options_;
  BackgroundCalls& calls_;
  std::deque<Connection> connections_;
  bool left_ = false;
};

}  // namespace delayqueue
