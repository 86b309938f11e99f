// Group commit: threads that send at the same time share round trips and script calls of one connection.
//
// The first thread becomes the leader: it sends its own messages and those of all threads that wait. Threads that come
// meanwhile wait, and one of them is the next leader. So a single send is one round trip in the calling thread, and no
// timer is needed to collect messages.
#pragma once

#include "producer/busy_wait.h"
#include "queue/shared_connection.h"

#include <delayqueue/producer.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <string_view>
#include <vector>

namespace delayqueue {

// A message that is not sent yet.
struct PendingMessage {
  std::string_view payload;
  const store::SendTerms* terms = nullptr;
};

// The messages of one send, and their results. A request is cut into atomic steps. The messages of a step have the same
// terms; a step has at most 200 messages and 256 KiB, unless a single message is larger. Steps of several requests may
// share a script call.
struct SendRequest {
  std::vector<PendingMessage> messages;
  std::vector<Sent> sent;      // one for each message; the caller sets the ids
  std::exception_ptr error{};  // of a failed step; later steps may not have been sent

  // Throws `error`, if there is one. A ConnectionError gets the ids of all messages.
  void check() const;

  // Private to GroupCommit.
  struct Sender* sender = nullptr;
  std::size_t loaded = 0;      // messages that were put into batches so far
  std::size_t unanswered = 0;  // steps in flight
};

class GroupCommit {
 public:
  // busy_wait: see ProducerOptions.
  GroupCommit(SharedConnection& connection, std::chrono::microseconds busy_wait);
  ~GroupCommit();

  // Sends the requests. Returns when all have been sent or have failed. Any thread may call it. Waiting requests take
  // turns step by step, so that a large request does not delay the others. The requests of one call are sent in order
  // if each has one step.
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
  void receive(InFlightBatch& batch, const Sender& leader, int socket);
  void complete(InFlightBatch& batch, redis::Connection& connection);
  void fail(const std::deque<InFlightBatch>& batches);
  void fail_waiting();
  void register_if_needed(redis::Connection& connection);
  void finish_call(SendRequest& request, const std::exception_ptr& error);
  void finish(SendRequest& request);

  SharedConnection& shared_connection_;
  BusyWait busy_wait_;  // used by the leader only
  std::mutex mutex_;    // guards all members below, and the private members of requests
  bool has_leader_ = false;
  std::deque<SendRequest*> waiting_;  // requests with messages that are in no batch yet
  std::uint64_t batch_count_ = 0;     // batches loaded so far
  bool needs_registration_ = false;   // a message went to a queue that may not be registered
  Sender* done_senders_ = nullptr;    // list of senders to wake: their requests are done
};

}  // namespace delayqueue
