// Asynchronous sends: a queue of messages, each with a promise, and a thread that sends them.
#pragma once

#include "producer/send_counters.h"
#include "producer/spreader.h"

#include <delayqueue/producer.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace delayqueue {

class AsyncSender {
 public:
  struct AsyncSend {
    std::string id;
    std::string payload;
    std::string headers;  // packed
    store::SendTerms terms;
    std::promise<Sent> promise{};

    std::size_t size() const { return payload.size() + headers.size(); }
  };

  // Called in the sending thread with the messages of a batch that were sent, after their promises are set. Must not
  // throw.
  using OnSent = std::function<void(const std::vector<Sent>&)>;

  AsyncSender(Spreader& spreader, SendCounters& counters, OnSent on_sent)
      : spreader_(spreader), counters_(counters), on_sent_(std::move(on_sent)) {}

  // Returns when all queued messages are sent or have failed.
  ~AsyncSender();

  // Queues a message. The future receives the result or the error. Any thread may call it. Blocks while too many
  // messages or bytes are outstanding, except in the sending thread, which would wait for itself. The first call starts
  // that thread; it throws SetupError if it cannot, and queues nothing then.
  std::future<Sent> enqueue(AsyncSend send);

 private:
  void run();
  std::vector<AsyncSend> take_batch();
  std::vector<Sent> flush(std::vector<AsyncSend>& sends);
  bool has_room(std::size_t bytes) const;

  Spreader& spreader_;
  SendCounters& counters_;
  const OnSent on_sent_;
  std::mutex mutex_;  // guards all members below
  std::condition_variable changed_;
  std::condition_variable room_;
  std::deque<AsyncSend> sends_;        // not taken by the thread yet
  std::size_t outstanding_ = 0;        // messages in `sends_` and in flight
  std::size_t outstanding_bytes_ = 0;  // of their payloads and headers
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace delayqueue
