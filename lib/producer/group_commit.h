// Group commit: threads that send to one partition of a queue at the same time share round trips and script calls of
// one connection.
//
// The first thread becomes the leader: it sends its own messages and those of all threads that wait. Threads that come
// meanwhile wait, and one of them is the next leader. So a single send is one round trip in the calling thread, and no
// timer is needed to collect messages. If threads of the last batch have not run since they were woken, the leader
// yields once before a small batch, so that messages which they send at once are in it.
#pragma once

#include "producer/busy_wait.h"
#include "producer/send_request.h"
#include "queue/shared_connection.h"

#include <delayqueue/producer.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <string_view>
#include <vector>

namespace delayqueue {

struct SendBatch;

class GroupCommit {
 public:
  // What the thread that sends does besides.
  struct Hooks {
    // Called before messages are sent over this connection. Throws: then the requests fail, and nothing of them is
    // sent.
    std::function<void(redis::Connection&)> prepare{};
    // Receives the copy of the layout in this partition, which is read with a send from time to time. Must not throw.
    // Empty: it is not read.
    std::function<void(const store::Layout&)> on_layout{};
    // Receives the marker that sends have left in this partition: when its message is due, as a score. The marker is
    // taken out of the partition. Must not throw. Empty: it is left there.
    std::function<void(std::string due)> on_marker{};
  };

  // Whether requests may be sent to another partition instead: those that wait while the server does not answer fail
  // soon, with `written` 0. Otherwise they wait until it has answered, or the command timeout is over.
  enum class Elsewhere { no, yes };

  // What the server has answered, by any GroupCommit for it: it is alive while the count grows.
  struct Answered {
    std::atomic<std::uint64_t> batches{0};
    std::atomic<milliseconds> last_round_trip{milliseconds(0)};
  };

  // busy_wait: see ProducerOptions. `answered` must outlive this object.
  GroupCommit(SharedConnection& connection, std::chrono::microseconds busy_wait, Hooks hooks, Answered& answered);
  ~GroupCommit();

  // Sends the requests. Returns when all have been sent or have failed. Any thread may call it. Waiting requests take
  // turns step by step, so that a large request does not delay the others. The requests of one call are sent in order
  // if each has one step.
  void send(std::vector<SendRequest>& requests, Elsewhere elsewhere = Elsewhere::no);

  int threads() const { return threads_; }  // that are in send()

 private:
  bool expects_others() const;
  void yield(std::unique_lock<std::mutex>& lock);
  bool wait(Sender& sender, std::vector<SendRequest>& requests, Elsewhere elsewhere);
  bool withdraw(Sender& sender, std::vector<SendRequest>& requests, milliseconds patience);
  void run_leader(Sender& sender);
  void wake_done();
  void pump(Sender& sender, redis::Connection& connection, std::deque<SendBatch>& batches);
  bool load(SendBatch& batch, const Sender& sender);
  bool add_step(SendBatch& batch, SendRequest& request);
  void submit(SendBatch& batch, redis::Connection& connection);
  void call_hooks(const SendBatch& batch) const;
  std::exception_ptr delete_bodies(const SendBatch& batch, redis::Connection& connection) const;
  void receive(SendBatch& batch, const Sender& leader, int socket);
  void complete(SendBatch& batch, redis::Connection& connection);
  void fail(const std::deque<SendBatch>& batches);
  void fail_waiting();
  void register_if_needed(redis::Connection& connection);
  void finish_step(SendRequest& request, const std::exception_ptr& error);
  void finish(SendRequest& request);

  SharedConnection& shared_connection_;
  const Hooks hooks_;
  Answered& answered_;
  std::atomic<int> threads_{0};             // in send()
  redis::Clock::time_point next_layout_{};  // when to read the layout again; used by the leader only, as is the next
  BusyWait busy_wait_;
  std::mutex mutex_;  // guards all members below, and the private members of requests
  bool has_leader_ = false;
  std::deque<SendRequest*> waiting_;  // requests with messages that are in no batch yet
  std::uint64_t batch_count_ = 0;     // batches loaded so far
  std::uint64_t next_yield_ = 0;      // the batch from which on leaders yield again
  bool needs_registration_ = false;   // a message went to a queue that may not be registered
  Sender* done_senders_ = nullptr;    // list of senders to wake: their requests are done
};

}  // namespace delayqueue
