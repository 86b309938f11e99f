#include "producer/group_commit.h"

#include "producer/send_batch.h"
#include "producer/sender.h"
#include "redis/reply.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace delayqueue {
namespace {

constexpr std::size_t kBatchesInFlight = 2;     // Redis executes one while the next one is built
constexpr milliseconds kLayoutInterval{2'000};  // between two reads of the layout
constexpr milliseconds kLongestYield{1};        // see yield()
constexpr std::size_t kFew = 8;                 // with so many requests that wait, the leader does not yield
constexpr std::uint64_t kBatchesWithoutYield = 500;
constexpr milliseconds kPatience{50};  // with a server that does not answer; see Elsewhere

// The same error as one that leaves the result in doubt.
std::exception_ptr in_doubt(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ConnectionError&) {
    return error;
  } catch (const Error& e) {
    return std::make_exception_ptr(ConnectionError(e.what()));
  } catch (...) {
    return error;
  }
}

// The threads of this process that are in send(), of any Producer.
std::atomic<int> senders{0};

// Counts a thread as long as it is in send().
class CountedSender {
 public:
  explicit CountedSender(std::atomic<int>& count) : count_(count) { ++count_; }
  ~CountedSender() { --count_; }
  CountedSender(const CountedSender&) = delete;
  CountedSender& operator=(const CountedSender&) = delete;

 private:
  std::atomic<int>& count_;
};

}  // namespace

GroupCommit::GroupCommit(SharedConnection& connection, std::chrono::microseconds busy_wait, Hooks hooks,
                         Answered& answered)
    : shared_connection_(connection), hooks_(std::move(hooks)), answered_(answered), busy_wait_(busy_wait) {
  // The other threads of this process do not exist in a child. If this fails, a child may never wait busily.
  [[maybe_unused]] static const int failed = ::pthread_atfork(nullptr, nullptr, [] { senders = 0; });
}

GroupCommit::~GroupCommit() = default;

void GroupCommit::send(std::vector<SendRequest>& requests, Elsewhere elsewhere) {
  const CountedSender in_process(senders);
  const CountedSender here(threads_);
  Sender sender;
  sender.left = sender.unloaded = requests.size();
  sender.sends_one = requests.size() == 1 && requests.front().messages.size() == 1;
  std::vector<SendRequest*> queued;
  queued.reserve(requests.size());
  for (SendRequest& request : requests) {
    request.sender = &sender;
    queued.push_back(&request);
  }
  std::unique_lock lock(mutex_);
  waiting_.insert(waiting_.end(), queued.begin(), queued.end());
  if (has_leader_) {
    lock.unlock();
    if (!wait(sender, requests, elsewhere)) return;
    lock.lock();
  }
  has_leader_ = sender.is_leader = true;
  if (expects_others()) yield(lock);
  while (sender.left > 0) {
    lock.unlock();
    wake_done();
    run_leader(sender);
    lock.lock();
  }
  Sender* const next = waiting_.empty() ? nullptr : waiting_.front()->sender;
  Sender* const done = std::exchange(done_senders_, nullptr);
  has_leader_ = next != nullptr;
  if (next != nullptr) next->is_leader = true;
  lock.unlock();
  if (next != nullptr) next->wake();  // before the others: no thread is sending now
  wake_all(done);
}

// Whether several threads whose sends are done have not returned yet. They were woken with this one, and may send again
// at once: if they run first, their next messages are in this batch, and not in one of their own after it.
bool GroupCommit::expects_others() const {
  return batch_count_ >= next_yield_ && waiting_.size() < kFew && threads_ > static_cast<int>(waiting_.size()) + 1;
}

// Lets other threads run first. Where all cores are busy, that may be a whole time slice of other work: then the next
// batches are sent without.
void GroupCommit::yield(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  const auto start = redis::Clock::now();
  std::this_thread::yield();
  const auto took = redis::Clock::now() - start;
  lock.lock();
  if (took > kLongestYield) next_yield_ = batch_count_ + kBatchesWithoutYield;
}

// Waits while another thread sends. Returns whether this one has become the leader; if not, its requests are done.
bool GroupCommit::wait(Sender& sender, std::vector<SendRequest>& requests, Elsewhere elsewhere) {
  while (elsewhere == Elsewhere::yes) {
    const std::uint64_t answered = answered_.batches;
    const milliseconds patience =
        kPatience + shared_connection_.write_concern().timeout() + 2 * answered_.last_round_trip.load();
    if (sender.wait(patience)) return sender.is_leader;
    if (answered_.batches != answered) continue;  // the server answers; others are served first
    if (withdraw(sender, requests, patience)) return false;
    elsewhere = Elsewhere::no;
  }
  sender.wait();
  return sender.is_leader;
}

// Fails the requests if nothing of them is in a batch yet.
bool GroupCommit::withdraw(Sender& sender, std::vector<SendRequest>& requests, milliseconds patience) {
  const std::string server = shared_connection_.endpoint().server();
  const std::lock_guard lock(mutex_);
  const auto waits = [](const SendRequest& request) { return request.loaded == 0 && request.error == nullptr; };
  if (sender.is_leader || !std::all_of(requests.begin(), requests.end(), waits)) return false;
  const auto is_own = [&](const SendRequest* request) { return request->sender == &sender; };
  waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(), is_own), waiting_.end());
  for (SendRequest& request : requests) {
    request.withdrawn = true;
    request.error = std::make_exception_ptr(ConnectionError(
        server + " has not answered other sends for " + std::to_string(patience.count()) + " ms; nothing was sent"));
  }
  return true;
}

void GroupCommit::wake_done() {
  std::unique_lock lock(mutex_);
  Sender* const done = std::exchange(done_senders_, nullptr);
  lock.unlock();
  wake_all(done);
}

void GroupCommit::run_leader(Sender& sender) {
  bool connected = false;
  try {
    shared_connection_.with_connection([&](redis::Connection& connection) {
      hooks_.prepare(connection);
      connected = true;
      std::deque<SendBatch> batches;  // destroyed before the connection
      try {
        pump(sender, connection, batches);
      } catch (...) {
        fail(batches);
        throw;
      }
      register_if_needed(connection);
    });
  } catch (...) {  // the requests have the error
    if (!connected) fail_waiting();
  }
}

// QueueAdmin::forget may have removed the queue from the set of queues since this process connected.
void GroupCommit::register_if_needed(redis::Connection& connection) {
  std::unique_lock lock(mutex_);
  if (!std::exchange(needs_registration_, false)) return;
  lock.unlock();
  shared_connection_.endpoint().register_queue(connection);
}

// Sends batches until the requests of `sender` are loaded, or another thread waits for the connection.
void GroupCommit::pump(Sender& sender, redis::Connection& connection, std::deque<SendBatch>& batches) {
  bool more = true;
  do {
    while (more && batches.size() < kBatchesInFlight) {
      more = load(batches.emplace_back(), sender) && !shared_connection_.is_wanted();
      if (batches.back().calls.empty()) {
        batches.pop_back();
      } else {
        submit(batches.back(), connection);
      }
    }
    if (batches.empty()) return;
    bool resent = true;
    while (resent && !batches.empty()) {
      receive(batches.front(), sender, connection.fd());
      complete(batches.front(), connection);
      resent = batches.front().pipeline->resent();  // later batches are resent, too: keep the order
      batches.pop_front();
    }
    if (more || !batches.empty()) wake_done();
  } while (more || !batches.empty());
}

// Fills the batch with steps of the waiting requests in turn. Returns whether `sender` has more messages to load.
bool GroupCommit::load(SendBatch& batch, const Sender& sender) {
  const std::lock_guard lock(mutex_);
  ++batch_count_;
  while (!waiting_.empty() && add_step(batch, *waiting_.front())) {
    SendRequest& request = *waiting_.front();
    waiting_.pop_front();
    if (request.loaded < request.messages.size()) {
      waiting_.push_back(&request);
    } else {
      --request.sender->unloaded;
    }
  }
  return sender.unloaded > 0;
}

// Adds the next step of the request. Returns false if the batch has no room for it.
bool GroupCommit::add_step(SendBatch& batch, SendRequest& request) {
  Sender& sender = *request.sender;
  const SendStep step = next_step(request);
  const auto call = batch.add(step, sender.last_batch == batch_count_ ? sender.last_call : 0);
  if (!call) return false;
  request.loaded = step.end;
  ++request.written;
  ++request.unanswered;
  sender.last_batch = batch_count_;
  sender.last_call = *call;
  return true;
}

void GroupCommit::submit(SendBatch& batch, redis::Connection& connection) {
  const store::Store& store = shared_connection_.store();
  redis::Pipeline& pipeline = batch.pipeline.emplace(connection);
  batch.add_requests(store);
  batch.sent_at = redis::Clock::now();
  if (hooks_.on_layout && batch.sent_at >= next_layout_) {
    batch.layout = store::read_layout(pipeline, store.keys());
    next_layout_ = batch.sent_at + kLayoutInterval;
  }
  if (hooks_.on_marker) batch.marker = store.take_marker(pipeline);
  const WriteConcern& concern = shared_connection_.write_concern();
  batch.confirmation =
      batch.has_only_new() ? concern.ask(pipeline) : concern.ask_after_write(pipeline, store.keys().stats);
  pipeline.send();
}

// A missing right, or another type of a key, is no error of the sends.
void GroupCommit::call_hooks(const SendBatch& batch) const {
  try {
    if (batch.layout) hooks_.on_layout(batch.layout->get());
  } catch (const Error&) {
  }
  try {
    auto due = batch.marker ? batch.marker->get() : std::nullopt;
    if (batch.marker && batch.pipeline->resent()) due = "0";  // the answer to the first ZPOPMIN is lost
    if (due) hooks_.on_marker(std::move(*due));
  } catch (const Error&) {
  }
}

// Reads the answers of the batch. If the leader is the only sender and sends one message, it first waits busily, where
// BusyWait allows it.
void GroupCommit::receive(SendBatch& batch, const Sender& leader, int socket) {
  if (senders > 1) busy_wait_.restart();
  if (senders > 1 || !leader.sends_one) return batch.pipeline->receive();
  const auto start = redis::Clock::now();
  const auto until = start + busy_wait_.begin(socket);
  bool arrived = false;
  while (!arrived && senders == 1 && redis::Clock::now() < until) arrived = batch.pipeline->receive_arrived();
  if (!arrived) batch.pipeline->receive();
  busy_wait_.end(redis::Clock::now() - start);
}

// Deletes the bodies that sends without effect may have left. Those that it cannot delete are found by the integrity
// check. Returns the error if the connection is lost. Then the deletion may arrive late, and a repeated send must not
// use these ids: they are cleared, and Spreader makes others.
std::exception_ptr GroupCommit::delete_bodies(const SendBatch& batch, redis::Connection& connection) const {
  for (const ScriptCall& script_call : batch.calls) {
    if (!script_call.stores_bodies_first || !script_call.answer->is_error()) continue;
    redis::Pipeline pipeline(connection);
    try {
      shared_connection_.store().delete_bodies(pipeline, script_call.ids());
      pipeline.run();
    } catch (const ReplyError&) {
    } catch (const Error&) {
      for (const SendStep& step : script_call.steps) step.clear_ids();
      return std::current_exception();
    }
  }
  return nullptr;
}

void GroupCommit::complete(SendBatch& batch, redis::Connection& connection) {
  answered_.last_round_trip = std::chrono::duration_cast<milliseconds>(redis::Clock::now() - batch.sent_at);
  ++answered_.batches;
  call_hooks(batch);
  std::exception_ptr broken = delete_bodies(batch, connection);  // the connection broke, or leads to the wrong server
  const std::string missing = shared_connection_.write_concern().missing(batch.confirmation);
  const std::lock_guard lock(mutex_);
  const std::vector<ScriptCall> calls = std::exchange(batch.calls, {});
  for (const ScriptCall& script_call : calls) {
    std::exception_ptr error;
    bool refused = false;  // no node has run the script
    store::Outcomes outcomes;
    try {
      outcomes = script_call.outcomes();
      needs_registration_ = needs_registration_ || script_call.is_first->get();
      if (!missing.empty()) throw ConnectionError("sent to " + connection.where() + ", but " + missing);
    } catch (const ReplyError&) {
      error = std::current_exception();
    } catch (const redis::SlotUnavailable&) {
      error = std::current_exception();
      refused = true;
    } catch (...) {
      error = broken = std::current_exception();
    }
    std::size_t next = 0;
    for (const SendStep& step : script_call.steps) {
      step.request->stored = step.request->stored || error == nullptr;
      if (refused) --step.request->written;
      for (std::size_t i = step.begin; i < step.end && !error; ++i) {
        step.request->sent[i].created = outcomes[next] == '1';
        step.request->sent[i].cancelled = outcomes[next++] == 'C';
      }
      finish_step(*step.request, error);
    }
  }
  if (broken != nullptr) std::rethrow_exception(broken);
}

// Fails the requests of these batches with the current exception. With any exception their messages may be stored:
// another node may have refused the client after a redirection, or a later batch could not be sent.
void GroupCommit::fail(const std::deque<SendBatch>& batches) {
  const std::exception_ptr error = in_doubt(std::current_exception());
  const std::lock_guard lock(mutex_);
  for (const SendBatch& batch : batches) {
    for (const ScriptCall& script_call : batch.calls) {
      for (const SendStep& step : script_call.steps) finish_step(*step.request, error);
    }
  }
}

// Fails all waiting requests with the current exception, an error of connecting. Otherwise each waiting thread would
// spend its own timeout on a server that does not respond.
void GroupCommit::fail_waiting() {
  const std::lock_guard lock(mutex_);
  while (!waiting_.empty()) {
    SendRequest& request = *waiting_.front();
    request.error = redis::copy_of(std::current_exception());
    finish(request);
  }
}

void GroupCommit::finish_step(SendRequest& request, const std::exception_ptr& error) {
  --request.unanswered;
  if (error != nullptr) request.fail(redis::copy_of(error));
  finish(request);
}

// Completes the request when its last step is done. The rest of a failed request is not sent.
void GroupCommit::finish(SendRequest& request) {
  if (request.error != nullptr && request.loaded < request.messages.size()) {
    waiting_.erase(std::remove(waiting_.begin(), waiting_.end(), &request), waiting_.end());
    request.loaded = request.messages.size();
    --request.sender->unloaded;
  }
  if (request.unanswered > 0 || request.loaded < request.messages.size()) return;
  Sender& sender = *request.sender;
  if (--sender.left > 0 || sender.is_leader) return;
  sender.next_done = std::exchange(done_senders_, &sender);
}

}  // namespace delayqueue
