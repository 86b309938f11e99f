// One connection to one queue that several threads share; one thread uses it at a time, in the order of their calls.
#pragma once

#include "queue/endpoint.h"
#include "queue/write_concern.h"
#include "redis/pipeline.h"
#include "run/fair_mutex.h"
#include "store/moves.h"

#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace delayqueue {

class SharedConnection {
 public:
  SharedConnection(const std::string& url, const std::string& queue, const ConnectionOptions& connection,
                   const QueueOptions& options, const Durability& durability = {},
                   RegisterQueue registers = RegisterQueue::yes)
      : endpoint_(url, queue, connection, options, registers),
        store_(endpoint_.keys(), {true, options.go.remove_from_lists ? kMaxSearchedList : 0}),
        write_concern_(durability) {}

  const store::Store& store() const { return store_; }
  const WriteConcern& write_concern() const { return write_concern_; }
  Endpoint& endpoint() { return endpoint_; }

  // Runs `call` with the connection. First connects if there is no connection, or the server has closed the last one.
  // After an exception other than ReplyError the connection is closed.
  template <class Call>
  auto with_connection(Call call) {
    const auto called_at = redis::Clock::now();
    const std::lock_guard lock(mutex_);
    if (connection_ != nullptr && connection_->is_stale()) connection_.reset();
    if (connection_ == nullptr) connect(called_at);
    try {
      return call(*connection_);
    } catch (const ReplyError&) {
      throw;
    } catch (...) {  // replies may be unread
      connection_.reset();
      throw;
    }
  }

  // Whether another thread waits for the connection.
  bool is_wanted() { return mutex_.is_wanted(); }

  // Sends one request and returns its reply: `ask` adds the request to a pipeline. Throws ConnectionError if the change
  // does not become as durable as required.
  template <class Ask>
  auto ask(Ask ask) {
    return with_connection([&](redis::Connection& connection) {
      redis::Pipeline pipeline(connection);
      const auto answer = ask(pipeline);
      const auto confirmation = write_concern_.ask(pipeline);
      pipeline.run();
      auto result = answer.get();
      if (const std::string missing = write_concern_.missing(confirmation); !missing.empty()) {
        throw ConnectionError("done at " + connection.where() + ", but " + missing);
      }
      return result;
    });
  }

 private:
  // Callers that waited for a connect that failed share its error: each would otherwise spend its own timeout on a
  // server that does not respond.
  void connect(redis::Clock::time_point called_at) {
    if (connect_error_ != nullptr && called_at <= failed_at_) std::rethrow_exception(connect_error_);
    try {
      auto connection = endpoint_.connect();
      write_concern_.check(*connection);
      connection_ = std::move(connection);
      connect_error_ = nullptr;
    } catch (const Error&) {
      connect_error_ = std::current_exception();
      failed_at_ = redis::Clock::now();
      throw;
    }
  }

  static constexpr std::size_t kMaxSearchedList = 5000;  // LREM in a list of this length takes well under 2 ms

  Endpoint endpoint_;
  const store::Store store_;
  const WriteConcern write_concern_;
  FairMutex mutex_;  // guards all members below
  std::unique_ptr<redis::Connection> connection_;
  std::exception_ptr connect_error_;  // of the last attempt to connect; null: it succeeded
  redis::Clock::time_point failed_at_;
};

}  // namespace delayqueue
