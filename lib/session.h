// One connection to one queue, shared by threads that call in turn.
#pragma once

#include "endpoint.h"
#include "redis/pipeline.h"
#include "store/store.h"

#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace delayqueue {

class Session {
 public:
  Session(const std::string& url, const std::string& queue, const ConnectionOptions& connection,
          const QueueOptions& options)
      : endpoint_(url, queue, connection, options),
        store_(endpoint_.keys(), {true, options.remove_from_lists ? kSearchedList : 0}) {}

  const store::Store& store() const { return store_; }
  Endpoint& endpoint() { return endpoint_; }

  // Runs `call` with a connection, made anew if the last one broke or was closed by the server in the meantime.
  template <class Call>
  auto with_connection(Call call) {
    const std::lock_guard lock(mutex_);
    if (connection_ != nullptr && connection_->is_stale()) connection_.reset();
    if (connection_ == nullptr) connection_ = endpoint_.connect();
    try {
      return call(*connection_);
    } catch (const ConnectionError&) {
      connection_.reset();
      throw;
    }
  }

  // One request and its answer: `ask` adds it to a pipeline.
  template <class Ask>
  auto ask(Ask ask) {
    return with_connection([&](redis::Connection& connection) {
      redis::Pipeline pipeline(connection);
      const auto answer = ask(pipeline);
      pipeline.run();
      return answer.get();
    });
  }

 private:
  static constexpr std::size_t kSearchedList = 5000;  // LREM of so many takes well under 2 ms

  Endpoint endpoint_;
  const store::Store store_;
  std::mutex mutex_;  // guards connection_
  std::unique_ptr<redis::Connection> connection_;
};

}  // namespace delayqueue
