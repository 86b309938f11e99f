// One connection to one queue, shared by threads that call in turn.
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
                   RegisterQueue registers = RegisterQueue::works)
      : endpoint_(url, queue, connection, options, registers),
        store_(endpoint_.keys(), {true, options.remove_from_lists ? kSearchedList : 0}),
        write_concern_(durability) {}

  const store::Store& store() const { return store_; }
  const WriteConcern& durable() const { return write_concern_; }
  Endpoint& endpoint() { return endpoint_; }

  // Runs `call` with a connection, made anew if the last one broke or was closed by the server in the meantime.
  template <class Call>
  auto with_connection(Call call) {
    const auto asked = redis::Clock::now();
    const std::lock_guard lock(mutex_);
    if (connection_ != nullptr && connection_->is_stale()) connection_.reset();
    if (connection_ == nullptr) connect(asked);
    try {
      return call(*connection_);
    } catch (const ReplyError&) {
      throw;
    } catch (...) {  // answers may be left unread
      connection_.reset();
      throw;
    }
  }

  // Whether another thread waits for the connection.
  bool is_wanted() { return mutex_.is_wanted(); }

  // One request and its answer: `ask` adds it to a pipeline. What it changed is as durable as was asked for, or
  // ConnectionError.
  template <class Ask>
  auto ask(Ask ask) {
    return with_connection([&](redis::Connection& connection) {
      redis::Pipeline pipeline(connection);
      const auto answer = ask(pipeline);
      const auto durable = write_concern_.ask(pipeline);
      pipeline.run();
      auto result = answer.get();
      if (const std::string missing = write_concern_.missing(durable); !missing.empty()) {
        throw ConnectionError("done at " + connection.where() + ", but " + missing);
      }
      return result;
    });
  }

 private:
  // Those who waited while another's attempt failed have failed with it: a silent server must not cost each its time.
  void connect(redis::Clock::time_point asked) {
    if (failure_ != nullptr && asked <= failed_) std::rethrow_exception(failure_);
    try {
      auto connection = endpoint_.connect();
      write_concern_.check(*connection);
      connection_ = std::move(connection);
      failure_ = nullptr;
    } catch (const Error&) {
      failure_ = std::current_exception();
      failed_ = redis::Clock::now();
      throw;
    }
  }

  static constexpr std::size_t kSearchedList = 5000;  // LREM of so many takes well under 2 ms

  Endpoint endpoint_;
  const store::Store store_;
  const WriteConcern write_concern_;
  FairMutex mutex_;  // guards the rest
  std::unique_ptr<redis::Connection> connection_;
  std::exception_ptr failure_;  // of the last attempt to connect
  redis::Clock::time_point failed_;
};

}  // namespace delayqueue
