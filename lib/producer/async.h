// Asynchronous sends: a queue of messages, each with a callback, and a thread that sends them.
#pragma once

#include "producer/router.h"
#include "producer/send_reporter.h"

#include <delayqueue/producer.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
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
  std::string key;  // see UniqueOptions; empty: none
  SendCallback done;

  std::size_t size() const { return payload.size() + headers.size(); }
};

class AsyncQueue {
 public:
  AsyncQueue(Router& router, SendReporter& reporter) : router_(router), reporter_(reporter) {}

  // Returns when all queued messages are sent or have failed.
  ~AsyncQueue();

  // Queues the message with this payload; its callback gets the result or the error. Any thread may call it. While too
  // many messages or bytes have no answer, it blocks, or with may_block false returns false, and leaves the payload as
  // it is. It does not block in the sending thread, which would wait for itself. The first call starts that thread; it
  // throws SetupError if it cannot, and queues nothing then.
  bool enqueue(AsyncSend send, std::string& payload, bool may_block);

  // Whether enqueue() would not block now.
  bool has_room(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    return fits(bytes);
  }

  // Waits until all messages that were queued before have their results; false: some have none after `timeout`. Does
  // not wait in the sending thread.
  bool flush(milliseconds timeout);

 private:
  void run();
  std::vector<AsyncSend> take_batch();
  std::vector<SendRequest> send(std::vector<AsyncSend>& sends);
  void give_results(const std::vector<AsyncSend>& sends, const std::vector<SendRequest>& requests);
  bool fits(std::size_t bytes) const;

  Router& router_;
  SendReporter& reporter_;
  std::mutex mutex_;  // guards all members below
  std::condition_variable changed_;
  std::condition_variable room_;
  std::condition_variable finished_;
  std::deque<AsyncSend> sends_;        // not taken by the thread yet
  std::size_t outstanding_ = 0;        // messages in `sends_` and in flight
  std::size_t outstanding_bytes_ = 0;  // of their payloads and headers
  std::uint64_t queued_ = 0;           // messages since ever
  std::uint64_t with_result_ = 0;      // of these; the messages get their results in the order of enqueue()
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace delayqueue
