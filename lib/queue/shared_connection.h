// The connection of one object to its queue, or to a partition of it, which its threads share: one thread uses it at a
// time, in the order of their calls. It comes from the pool of the Client, so that objects share it while they do not
// call at the same time.
#pragma once

#include "queue/connection_pool.h"
#include "queue/endpoint.h"
#include "queue/write_concern.h"
#include "redis/failure.h"
#include "redis/pipeline.h"
#include "redis/reply.h"
#include "run/fair_mutex.h"
#include "store/moves.h"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

namespace delayqueue {

// While a server is away: whether a call tries to use it, or fails at once and leaves that to the thread of Outages.
enum class WhileAway { call_tries, call_fails };

class SharedConnection {
 public:
  SharedConnection(const Client& client, const std::string& queue, const Durability& durability = {},
                   RegisterQueue registers = RegisterQueue::yes, WhileAway while_away = WhileAway::call_tries)
      : endpoint_(client, queue, registers, SharePool::yes),
        moves_(endpoint_.keys(), {true, client.keys().go.remove_from_lists ? kMaxSearchedList : 0}),
        write_concern_(durability),
        while_away_(while_away) {}

  // To a partition of the queue of `home`.
  SharedConnection(const SharedConnection& home, unsigned partition)
      : endpoint_(home.endpoint_, partition),
        moves_(endpoint_.keys(), {true, home.moves_.search_lists()}),
        write_concern_(home.write_concern_),
        while_away_(home.while_away_) {}

  const store::Moves& moves() const { return moves_; }
  const WriteConcern& write_concern() const { return write_concern_; }
  Endpoint& endpoint() { return endpoint_; }

  // Runs `call` with a connection on which the queue is verified. Connects if the process has none that no other call
  // uses, or the server has closed it. After an exception other than ReplyError the connection is closed.
  template <class Call>
  auto with_connection(Call call) {
    const auto called_at = redis::Clock::now();
    const std::lock_guard lock(mutex_);
    ConnectionPool::Lent connection = take(called_at);
    try {
      if constexpr (std::is_void_v<decltype(call(*connection))>) {
        call(*connection);
        endpoint_.answered();
      } else {
        auto result = call(*connection);
        endpoint_.answered();
        return result;
      }
    } catch (const ReplyError&) {
      endpoint_.answered();
      throw;
    } catch (...) {  // replies may be unread
      note_failure((*connection).silent_since());
      connection.close();
      reconnects_ = true;
      throw;
    }
  }

  // Whether another thread of this object waits for the connection.
  bool is_wanted() { return mutex_.is_wanted(); }

  // Sends one request and returns its reply: `ask` adds the request to a pipeline. Throws ConnectionError if the change
  // does not become as durable as required. `has_written`: whether the request has written for certain, by its reply.
  // `in_doubt`: becomes true when it is written, and false again when Redis has refused it for now.
  template <class Ask>
  auto ask(Ask ask) {
    bool in_doubt = false;
    return this->ask(
        std::move(ask), [](const auto&) { return false; }, in_doubt);
  }
  template <class Ask, class HasWritten>
  auto ask(Ask ask, HasWritten has_written, bool& in_doubt) {
    return this->ask(std::move(ask), std::move(has_written), in_doubt, [](const auto&) { return true; });
  }
  // is_final(result): false: the call is to be made again, so nothing has to be confirmed.
  template <class Ask, class HasWritten, class IsFinal>
  auto ask(Ask ask, HasWritten has_written, bool& in_doubt, IsFinal is_final) {
    return with_connection([&](redis::Connection& connection) {
      redis::Pipeline pipeline(connection);
      const auto answer = ask(pipeline);
      const auto confirmation = write_concern_.ask_after_write(pipeline, moves_.keys().stats);
      in_doubt = true;
      pipeline.run();
      in_doubt = false;
      auto result = answer.get();
      if (!is_final(result)) return result;
      in_doubt = true;
      if (auto missing = write_concern_.missing(confirmation, has_written(result))) {
        missing->text = "done at " + connection.where() + ", but " + missing->text;
        redis::raise(*missing);
      }
      return result;
    });
  }

 private:
  // Callers that waited for a connect that failed share its error: each would otherwise spend its own timeout on a
  // server that does not respond.
  ConnectionPool::Lent take(redis::Clock::time_point called_at) {
    if (connect_failure_ && called_at <= failed_at_) redis::raise(*connect_failure_);
    if (while_away_ == WhileAway::call_fails) {
      if (auto away = endpoint_.away()) redis::raise({redis::Failure::Kind::connection, std::move(away->text)});
    }
    try {
      ConnectionPool::Lent connection = take_idle();
      if (connection.is_none()) connection = connect();
      connect_failure_.reset();
      return connection;
    } catch (const Error&) {
      connect_failure_ = redis::current_failure();
      failed_at_ = redis::Clock::now();
      throw;
    }
  }

  // A connection that the process has; or none. After a failed call the next one opens a connection: the others may
  // lead to the same server, which may be frozen or no longer the master.
  ConnectionPool::Lent take_idle() {
    if (reconnects_) return {};
    ConnectionPool::Lent connection = endpoint_.take_idle();
    try {
      if (!connection.is_none()) verify(connection);
    } catch (const ConnectionError&) {  // nothing of the call is sent yet, so it may use another connection
    }
    return connection;
  }

  ConnectionPool::Lent connect() {
    const auto began = redis::Clock::now();
    try {
      ConnectionPool::Lent connection = endpoint_.open();
      reconnects_ = false;
      verify(connection);
      return connection;
    } catch (const ConnectionError&) {
      note_failure(began);
      throw;
    }
  }

  // Of the exception that is being handled.
  void note_failure(redis::Clock::time_point since) {
    if (while_away_ == WhileAway::call_tries) return;
    const redis::Failure failure = redis::current_failure();
    if (failure.kind == redis::Failure::Kind::connection) endpoint_.failed(failure.text, since);
  }

  // Verifies the queue once on each connection: until now objects of other queues may have used it. An error of the
  // queue leaves the connection to them.
  void verify(ConnectionPool::Lent& connection) {
    if (verified_.count(connection.number()) != 0) return;
    try {
      endpoint_.verify(*connection);
      write_concern_.check(*connection);
    } catch (const ConnectionError&) {
      connection.close();
      reconnects_ = true;
      throw;
    }
    if (verified_.size() == kMaxVerified) verified_.clear();  // most of these connections are closed
    verified_.insert(connection.number());
  }

  static constexpr std::size_t kMaxSearchedList = 5000;  // LREM in a list of this length takes well under 2 ms
  static constexpr std::size_t kMaxVerified = 1000;

  Endpoint endpoint_;
  const store::Moves moves_;
  const WriteConcern write_concern_;
  const WhileAway while_away_;
  FairMutex mutex_;                                // guards all members below
  std::set<std::uint64_t> verified_;               // the numbers of connections on which the queue is verified
  bool reconnects_ = false;                        // the last connection failed: the next call opens one
  std::optional<redis::Failure> connect_failure_;  // of the last attempt to connect
  redis::Clock::time_point failed_at_;
};

}  // namespace delayqueue
