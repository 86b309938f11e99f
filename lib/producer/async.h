// Asynchronous sends: a queue of messages, each with a promise, and a thread that sends them.
#pragma once

#include "producer/router.h"
#include "producer/send_reporter.h"

#include <delayqueue/producer.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace delayqueue {

struct AsyncSend {
  std::string id;  // of the caller, or empty
  std::string payload;
  std::string headers;  // packed
  store::SendTerms terms;
  std::promise<Sent> promise{};

  std::size_t size() const { return payload.size() + headers.size(); }
};

class AsyncQueue {
 public:
  AsyncQueue(Router& router, SendReporter& reporter) : router_(router), reporter_(reporter) {}

  // Returns when all queued messages are sent or have failed.
  ~AsyncQueue();

  // Queues a message. The future receives the result or the error. Any thread may call it. Blocks while too many
  // messages or bytes are outstanding, except in the sending thread, which would wait for itself. The first call starts
  // that thread; it throws SetupError if it cannot, and queues nothing then.
  std::future<Sent> enqueue(AsyncSend send);

 private:
  void run();
  std::vector<AsyncSend> take_batch();
  std::vector<SendRequest> send(std::vector<AsyncSend>& sends);
  bool has_room(std::size_t bytes) const;

  Router& router_;
  SendReporter& reporter_;
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
