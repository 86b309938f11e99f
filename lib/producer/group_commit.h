// Messages of many threads on their way over one connection: what waits together goes together.
//
// A thread that finds nobody sending sends: its own messages and those of all who wait. Those who come meanwhile wait,
// and one of them is the next. So a lone send is one round trip in its own thread, many threads share round trips and
// script calls, and no timer is needed for that.
#pragma once

#include "queue/shared_connection.h"

#include <delayqueue/producer.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <string_view>
#include <vector>

namespace delayqueue {

struct PendingMessage {
  std::string_view payload;
  const store::SendTerms* terms = nullptr;
};

// The messages of one send, and what became of them. It is cut into steps, each all or nothing: alike in terms, at most
// 200 messages or 256 KiB (but for a larger single one). Steps of several requests may share a script call.
struct SendRequest {
  std::vector<PendingMessage> messages;
  std::vector<Sent> sent;      // one of each message; their ids are to be given
  std::exception_ptr error{};  // what the first step that failed met with; those behind it may not have been sent

  // Throws what the sender is to see of `error`, if there is one: a ConnectionError has the ids.
  void check() const;

  // Of the GroupCommit.
  struct Sender* sender = nullptr;
  std::size_t loaded = 0;      // messages that are in batches, or were
  std::size_t unanswered = 0;  // steps that are not answered yet
};

class GroupCommit {
 public:
  explicit GroupCommit(SharedConnection& session) : shared_connection_(session) {}
  ~GroupCommit();

  // Any thread. Returns when all have been sent or have failed. Whoever waits has its turn, so that a large request does
  // not keep others waiting; requests of one call keep their order if they are of one step each.
  void send(std::vector<SendRequest>& requests);

 private:
  struct InFlightBatch;

  void run_leader(Sender& sender);
  void wake_done();
  static void wake(Sender* done);
  void pump(Sender& sender, redis::Connection& connection, std::deque<InFlightBatch>& batches);
  bool load(InFlightBatch& batch, const Sender& sender);
  bool add_call(InFlightBatch& batch, SendRequest& request);
  void submit(InFlightBatch& batch, redis::Connection& connection) const;
  void complete(InFlightBatch& batch, redis::Connection& connection);
  void fail(const std::deque<InFlightBatch>& batches);
  void fail_waiting();
  void register_first(redis::Connection& connection);
  void finish_call(SendRequest& request, const std::exception_ptr& error);
  void finish(SendRequest& request);

  SharedConnection& shared_connection_;
  std::mutex mutex_;                  // guards all below, and the GroupCommit' part of requests
  bool has_leader_ = false;           // a thread is sending
  std::deque<SendRequest*> waiting_;  // those with messages to load
  std::uint64_t batches_ = 0;         // so far
  bool first_ = false;                // something was sent to a queue that may not be known
  Sender* done_ = nullptr;            // those to be woken
};

}  // namespace delayqueue
