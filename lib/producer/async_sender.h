// Sends what nobody waits for: takes messages over, and keeps a promise for each.
#pragma once

#include "producer/group_commit.h"

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
    store::SendTerms terms;
    std::promise<Sent> promise{};
  };

  // Called in the courier's thread after messages were sent, when those who wait for them know; throws nothing.
  using Tell = std::function<void(const std::vector<Sent>&)>;

  AsyncSender(GroupCommit& outbox, Tell tell) : group_commit_(outbox), tell_(std::move(tell)) {}

  // Returns when all that was given is sent or has failed.
  ~AsyncSender();

  // Any thread. Blocks while too much is on its way, but not in the courier's own thread, which would wait for itself.
  // The first call starts that thread.
  std::future<Sent> enqueue(AsyncSend send);

 private:
  void run();
  std::vector<AsyncSend> take_batch();
  std::vector<Sent> flush(std::vector<AsyncSend>& sends);
  bool has_room(std::size_t bytes) const;

  GroupCommit& group_commit_;
  const Tell tell_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::condition_variable room_;
  std::deque<AsyncSend> sends_;  // to be taken
  std::size_t count_ = 0;        // of all sends, those on their way included
  std::size_t bytes_ = 0;        // of their payloads
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace delayqueue
