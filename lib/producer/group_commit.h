// Group commit: threads that send over one connection at the same time share its round trips and script calls.
//
// The first thread becomes the leader: it sends its own messages and those of all threads that wait. Threads that come
// meanwhile wait, and one of them is the next leader. So a single send is one round trip in the calling thread, and no
// timer is needed to collect messages. If threads of the last batch have not run since they were woken, the leader
// yields once before a small batch, so that messages which they send at once are in it.
//
// It returns what became of each message, and decides nothing: see Router.
#pragma once

#include "producer/busy_wait.h"
#include "queue/layout_keeper.h"
#include "queue/shared_connection.h"
#include "redis/failure.h"
#include "redis/time_limit.h"
#include "store/moves.h"

#include <delayqueue/sender.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace delayqueue {

// What became of a message.
enum class SendOutcome {
  // No server has run its script call, so it may be sent elsewhere. If its slice has no failure: the script has stored
  // nothing of it, because it must also be given the body of `holder`.
  not_written,
  in_doubt,     // its bytes may have left, so it may be stored
  refused,      // Redis has refused its script call
  not_durable,  // the server has executed it, but not confirmed in time that it is as durable as required
  created,      // these as in SendResult: the server has executed its script call
  existed,
  cancelled,
  kept,
  replaced,
};

// A message that is sent, and its outcome.
struct PendingMessage {
  std::string id{};  // GroupCommit clears an id that must not be sent again
  std::string_view payload{};
  const store::SendTerms* terms = nullptr;
  std::string_view headers{};  // packed
  std::string_view key{};      // see UniqueOptions; empty: none
  std::string holder{};        // the id of the message that had the key at the last call of the script
  SendOutcome outcome = SendOutcome::not_written;
  bool was_in_doubt = false;  // after an earlier attempt of the call

  std::size_t size() const { return payload.size() + headers.size(); }
  bool is_executed() const { return outcome >= SendOutcome::created; }
  SendResult send_result() const {
    return outcome == SendOutcome::created     ? SendResult::created
           : outcome == SendOutcome::cancelled ? SendResult::cancelled
           : outcome == SendOutcome::kept      ? SendResult::kept
           : outcome == SendOutcome::replaced  ? SendResult::replaced
                                               : SendResult::existed;
  }
  bool is_of_holder() const { return outcome == SendOutcome::kept || outcome == SendOutcome::replaced; }
  // The id of the message that is there now. To repeat the send, `id` is needed.
  const std::string& sent_id() const { return is_of_holder() ? holder : id; }
  Sent result() const& { return {sent_id(), send_result()}; }
  Sent result() && { return {std::move(is_of_holder() ? holder : id), send_result()}; }
};

// Messages of one call that go to the same partition: see Router. No two have the same key. They are sent in atomic
// steps. The messages of a step have the same terms; a step has at most 200 messages and 256 KiB, unless a single
// message is larger. Steps of several slices may share a script call. After a failed step the rest is not sent.
struct Slice {
  std::vector<PendingMessage*> messages{};
  // See SendTerms::bodies_first. One script for all new messages: of two scripts, one that the server has not loaded
  // would run after the other, and change the order.
  std::optional<bool> bodies_first{};
  // How long the server may be silent, besides the timeouts of the connection; 0: as long as these say.
  milliseconds patience{0};

  std::optional<redis::Failure> failure{};  // of a step
  bool withdrawn = false;                   // it did not wait for a server that does not answer: see Elsewhere

  // Sets `failure`. Of two the one that leaves the result in doubt is kept, because its error has the ids.
  void fail(const redis::Failure& with);

  bool may_be_written() const;  // some of it
  bool is_executed() const;     // the same

  // Of GroupCommit only.
  struct WaitingThread* thread = nullptr;
  std::size_t loaded = 0;      // messages that were put into batches so far
  std::size_t unanswered = 0;  // steps in flight
};

struct InFlightBatch;
struct SendStep;

class GroupCommit {
 public:
  // Whether slices may be sent elsewhere instead: those that wait while the server does not answer fail soon, and are
  // not written. Otherwise they wait until it has answered, or the command timeout is over.
  enum class Elsewhere { no, yes };

  // What the server has answered, by any GroupCommit for it: it is alive while the count grows.
  struct Answered {
    std::atomic<std::uint64_t> batches{0};
    std::atomic<milliseconds> last_round_trip{milliseconds(0)};
  };

  // busy_wait: see ProducerOptions. `copy`: kept up to date before messages are sent, and read with a send from time to
  // time; null: there is none. takes_markers: see send(). All that is referred to must outlive this object.
  GroupCommit(SharedConnection& connection, std::chrono::microseconds busy_wait, Answered& answered,
              LayoutCopy* copy = nullptr, bool takes_markers = false);
  ~GroupCommit();

  // Sends the slices. Returns when all have been sent or have failed. Any thread may call it. Waiting slices take turns
  // step by step, so that a large one does not delay the others. The slices of one call are sent in order if each has
  // one step.
  //
  // Returns the wake-up markers that sends of any thread have left, if takes_markers: when their messages are due, as
  // scores. They were taken out of the queue, so the caller must forward them.
  [[nodiscard]] std::vector<std::string> send(const std::vector<Slice*>& slices, Elsewhere elsewhere = Elsewhere::no);

  int threads() const { return threads_; }  // that are in send()

 private:
  bool expects_others() const;
  void yield(std::unique_lock<std::mutex>& lock);
  bool wait(WaitingThread& thread, const std::vector<Slice*>& slices, Elsewhere elsewhere);
  bool withdraw(WaitingThread& thread, const std::vector<Slice*>& slices, milliseconds patience);
  void run_leader(WaitingThread& leader);
  void wake_done();
  WaitingThread* take_done();
  void pump(WaitingThread& leader, redis::Connection& connection, std::deque<InFlightBatch>& batches,
            redis::TimeLimit::Scope& limit);
  bool load(InFlightBatch& batch, const WaitingThread& leader);
  bool add_step(InFlightBatch& batch, Slice& slice);
  void submit(InFlightBatch& batch, redis::Connection& connection);
  void receive(InFlightBatch& batch, const WaitingThread& leader, int socket);
  void complete(InFlightBatch& batch, redis::Connection& connection);
  std::optional<std::string> read_extras(const InFlightBatch& batch);
  std::optional<redis::Failure> delete_bodies(const InFlightBatch& batch, redis::Connection& connection) const;
  void fail(const std::deque<InFlightBatch>& batches, redis::Failure failure);
  void fail_waiting(const redis::Failure& failure);
  void register_if_needed(redis::Connection& connection);
  redis::Failure full_queue(std::uint64_t length) const;
  void finish_step(const SendStep& step, const std::optional<redis::Failure>& failure);
  void finish(Slice& slice);

  SharedConnection& shared_connection_;
  LayoutCopy* const copy_;
  const bool takes_markers_;
  Answered& answered_;
  std::atomic<int> threads_{0};             // in send()
  redis::Clock::time_point next_layout_{};  // when to read the layout again; used by the leader only, as is the next
  BusyWait busy_wait_;
  std::mutex mutex_;  // guards all members below, and the private members of slices
  bool has_leader_ = false;
  std::deque<Slice*> waiting_;             // with messages that are in no batch yet
  std::uint64_t batch_count_ = 0;          // batches loaded so far
  std::uint64_t next_yield_ = 0;           // the batch from which on leaders yield again
  bool needs_registration_ = false;        // a message went to a queue that may not be registered
  std::vector<std::string> markers_;       // that no thread has returned yet
  WaitingThread* done_threads_ = nullptr;  // list of threads to wake: their slices are done
};

}  // namespace delayqueue
