#include "producer/group_commit.h"

#include "os/resources.h"
#include "queue/write_concern.h"
#include "redis/pipeline.h"
#include "store/layout.h"

#include <delayqueue/error.h>

#include <pthread.h>
#include <semaphore.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <set>
#include <thread>
#include <utility>

namespace delayqueue {

using redis::Failure;

namespace {

constexpr std::size_t kBatchesInFlight = 2;     // Redis executes one while the next one is built
constexpr milliseconds kLayoutInterval{2'000};  // between two reads of the layout
constexpr milliseconds kLongestYield{1};        // see yield()
constexpr std::size_t kFew = 8;                 // with so many slices that wait, the leader does not yield
constexpr std::uint64_t kBatchesWithoutYield = 500;
constexpr milliseconds kPatience{50};  // with a server that does not answer; see Elsewhere

constexpr std::size_t kCallBytes = 256 * 1024;
// Limits of a batch, which is one write and one read: short for the waiting threads, long enough to repay a round trip.
constexpr std::size_t kBatchBytes = 4 * kCallBytes;
constexpr std::size_t kBatchMessages = 4 * store::kBatch;
constexpr std::size_t kBatchCalls = 32;

// The threads of this process that are in send(), of any Producer.
std::atomic<int> sending_threads{0};

// Counts a thread as long as it is in send().
class CountedThread {
 public:
  explicit CountedThread(std::atomic<int>& count) : count_(count) { ++count_; }
  ~CountedThread() { --count_; }
  CountedThread(const CountedThread&) = delete;
  CountedThread& operator=(const CountedThread&) = delete;

 private:
  std::atomic<int>& count_;
};

bool same_terms(const store::SendTerms& a, const store::SendTerms& b) {
  return &a == &b || (a.due.delay == b.due.delay && a.due.at_ms == b.due.at_ms && a.retries == b.retries &&
                      a.ttl == b.ttl && a.new_ids == b.new_ids && a.unique == b.unique);
}

// Whether the script call has stored nothing of this message, and may be made again: see Moves::send_keyed().
bool stored_nothing(char answer) { return answer == '?' || answer == 'F'; }

// What the script has answered for a message. `holder`: see store::KeyedSent.
void set_outcome(PendingMessage& message, char answer, const std::string& holder) {
  const bool is_by_itself = message.was_in_doubt && holder == message.id;  // by an earlier attempt of the call
  message.outcome = answer == '1'                    ? SendOutcome::created
                    : answer == 'C'                  ? SendOutcome::cancelled
                    : answer == 'U' && !is_by_itself ? SendOutcome::kept
                    : answer == 'R'                  ? SendOutcome::replaced
                    : stored_nothing(answer)         ? SendOutcome::not_written
                                                     : SendOutcome::existed;
  if (answer == '?' || answer == 'U' || answer == 'R') message.holder = holder;
}

// Of messages whose script call was answered with an error. A server that cannot serve now, such as a replica, or one
// that loads its data, has refused the first write of the script, so nothing is written.
SendOutcome outcome_of(const Failure& failure) {
  if (failure.is_connection()) return SendOutcome::not_written;
  return failure.is_reply() ? SendOutcome::refused : SendOutcome::in_doubt;
}

// Of messages whose script call was executed, but not confirmed.
SendOutcome outcome_of_unconfirmed(const Failure& missing) {
  return missing.kind == Failure::Kind::not_durable ? SendOutcome::not_durable : SendOutcome::in_doubt;
}

}  // namespace

// ---- What is sent ---------------------------------------------------------------------------------------------------

void Slice::fail(const Failure& with) {
  if (!failure || !with.is_reply()) failure = with;
}

bool Slice::may_be_written() const {
  return std::any_of(messages.begin(), messages.end(),
                     [](const PendingMessage* message) { return message->outcome != SendOutcome::not_written; });
}

bool Slice::is_executed() const {
  return std::any_of(messages.begin(), messages.end(),
                     [](const PendingMessage* message) { return message->is_executed(); });
}

// Consecutive messages of a slice, which one script call sends: all of them or, if it fails, none.
struct SendStep {
  Slice* slice;
  std::size_t begin, end;
  std::size_t bytes = 0;

  std::size_t messages() const { return end - begin; }
  const store::SendTerms& terms() const { return *slice->messages[begin]->terms; }

  template <class Function>
  void for_each(Function function) const {
    for (std::size_t i = begin; i < end; ++i) function(*slice->messages[i]);
  }
};

namespace {

// The first messages of the slice that are in no batch yet. There must be some.
SendStep next_step(Slice& slice) {
  SendStep step{&slice, slice.loaded, slice.loaded};
  for (; step.end < slice.messages.size() && step.messages() < store::kBatch; ++step.end) {
    const PendingMessage& message = *slice.messages[step.end];
    const std::size_t size = message.size();
    const bool is_first = step.end == step.begin;
    if (!is_first && (step.bytes + size > kCallBytes || !same_terms(*message.terms, step.terms()))) break;
    step.bytes += size;
  }
  return step;
}

struct SendCall {
  const store::SendTerms* terms;
  std::optional<bool> bodies_first;  // of the slices
  std::vector<SendStep> steps{};
  std::size_t messages = 0;
  std::size_t bytes = 0;
  std::optional<redis::Answer<store::Outcomes>> answer{};
  std::optional<redis::Answer<store::KeyedSent>> keyed{};  // in its place, if the messages have unique keys
  std::set<std::string_view> keys{};                       // these, and ids that may exist
  std::optional<redis::Answer<bool>> is_first{};           // see Moves::is_first
  bool stores_bodies_first = false;                        // see Moves::stores_bodies_first

  template <class Function>
  void for_each(Function function) const {
    for (const SendStep& step : steps) step.for_each(function);
  }

  std::vector<std::string> ids() const {
    std::vector<std::string> all;
    for_each([&](const PendingMessage& message) { all.push_back(message.id); });
    return all;
  }

  bool fits(const SendStep& step) const {
    return same_terms(*terms, step.terms()) && bodies_first == step.slice->bodies_first &&
           messages + step.messages() <= store::kBatch && bytes + step.bytes <= kCallBytes && !has_key_of(step);
  }

  // Of two messages with a key the script would have to know what the first does.
  bool has_key_of(const SendStep& step) const {
    bool has = false;
    if (keys.empty()) return false;
    step.for_each([&](const PendingMessage& one) { has = has || keys.count(one.key) + keys.count(one.id) > 0; });
    return has;
  }

  void add(const SendStep& step) {
    steps.push_back(step);
    messages += step.messages();
    bytes += step.bytes;
    if (!terms->unique) return;
    step.for_each([&](const PendingMessage& message) {
      keys.insert(message.key);
      if (!terms->new_ids) keys.insert(message.id);
    });
  }

  // One outcome for each message. Throws the error with which Redis answered, or ReplyError if it answered for another
  // number of messages.
  store::KeyedSent outcomes() const {
    store::KeyedSent sent = keyed ? keyed->get() : store::KeyedSent{answer->get(), {}, is_first->get()};
    if (sent.outcomes.size() != messages) {
      throw ReplyError("send: the server answered for " + std::to_string(sent.outcomes.size()) +
                       " messages; expected " + std::to_string(messages));
    }
    return sent;
  }
};

}  // namespace

// One write: script calls, each with steps of several slices that have the same terms.
struct InFlightBatch {
  std::vector<SendCall> calls{};
  std::size_t messages = 0;
  std::size_t bytes = 0;
  std::optional<std::uint64_t> length{};  // the most messages of the partition; unset: there is no limit
  std::optional<redis::Pipeline> pipeline{};
  redis::Clock::time_point sent_at{};
  std::optional<redis::Answer<store::SenderSettings>> settings{};
  std::optional<redis::Answer<std::optional<std::string>>> marker{};
  WriteConcern::Asked confirmation{};

  // Adds the step to this script call or a later one. Returns which one it is; nothing if there is no room. A message
  // that is larger than a call may be gets a batch for itself, because the server may refuse it by closing the
  // connection. A script stores all of its call or, if the queue is full, nothing: so with a limit of the length a step
  // shares none.
  std::optional<std::size_t> add(const SendStep& step, std::size_t first_call) {
    if (!calls.empty()) {
      if (step.bytes > kCallBytes || calls.front().bytes > kCallBytes) return std::nullopt;
      if (bytes + step.bytes > kBatchBytes || messages + step.messages() > kBatchMessages) return std::nullopt;
    }
    const auto first = calls.begin() + static_cast<std::ptrdiff_t>(first_call);
    auto call =
        length ? calls.end() : std::find_if(first, calls.end(), [&](const SendCall& one) { return one.fits(step); });
    if (call == calls.end()) {
      if (calls.size() == kBatchCalls) return std::nullopt;
      calls.push_back({&step.terms(), step.slice->bodies_first});
      call = calls.end() - 1;
    }
    call->add(step);
    messages += step.messages();
    bytes += step.bytes;
    return static_cast<std::size_t>(call - calls.begin());
  }

  // Whether no message can exist already.
  bool has_only_new() const {
    return std::all_of(calls.begin(), calls.end(),
                       [](const SendCall& call) { return call.terms->new_ids && !call.terms->unique; });
  }

  // Adds the script calls to the pipeline.
  void add_requests(const store::Moves& moves) {
    std::vector<store::NewMessage> together;
    for (SendCall& call : calls) {
      together.clear();
      call.for_each([&](const PendingMessage& message) {
        together.push_back({message.id, message.payload, message.headers, message.key, message.holder});
      });
      store::SendTerms terms = *call.terms;
      terms.bodies_first = call.bodies_first;
      if (terms.unique || length) {
        store::KeyTerms key_terms = terms.unique.value_or(store::KeyTerms());
        key_terms.length = length;
        call.keyed = moves.send_keyed(*pipeline, together, terms, key_terms);
      } else {
        call.stores_bodies_first = moves.stores_bodies_first(together, terms);
        call.answer = moves.send(*pipeline, together, terms);
        call.is_first = store::Moves::is_first(*pipeline);
      }
    }
  }
};

// A thread in GroupCommit::send(), and how it sleeps until its slices are done, or it becomes the leader. The semaphore
// is thread-safe; the mutex of the GroupCommit guards the other members.
struct WaitingThread {
  WaitingThread() {
    if (::sem_init(&semaphore, 0, 0) != 0) throw SetupError("cannot make a semaphore: " + reason(errno));
  }
  ~WaitingThread() { ::sem_destroy(&semaphore); }
  WaitingThread(const WaitingThread&) = delete;
  WaitingThread& operator=(const WaitingThread&) = delete;

  void wait() {
    while (::sem_wait(&semaphore) != 0 && errno == EINTR) {
    }
  }

  // Returns false if it was not woken in time.
  bool wait(milliseconds limit) {
    timespec until{};
    ::clock_gettime(CLOCK_REALTIME, &until);
    const std::int64_t ns = until.tv_nsec + limit.count() % 1000 * 1'000'000;
    until.tv_sec += limit.count() / 1000 + ns / 1'000'000'000;
    until.tv_nsec = ns % 1'000'000'000;
    int result = 0;
    while ((result = ::sem_timedwait(&semaphore, &until)) != 0 && errno == EINTR) {
    }
    return result == 0;
  }

  // *this may be destroyed as soon as its thread is woken.
  void wake() { ::sem_post(&semaphore); }

  // Wakes `first` and those after it, by next_done.
  static void wake_all(WaitingThread* first) {
    while (first != nullptr) std::exchange(first, first->next_done)->wake();
  }

  bool is_leader = false;
  bool sends_one = false;  // one message in all
  WaitingThread* next_done = nullptr;
  std::size_t left = 0;      // slices that are not done
  std::size_t unloaded = 0;  // slices with messages that are in no batch yet
  milliseconds patience{0};  // of its slices
  // The batch and the script call in it that got the last step. Later steps go there or into a later one, to keep the
  // order.
  std::uint64_t last_batch = 0;
  std::size_t last_call = 0;
  std::vector<std::string> markers{};  // that it returns
  sem_t semaphore{};                   // not a condition variable: a woken thread should not have to lock a mutex
};

// ---- The leader and the threads that wait ---------------------------------------------------------------------------

GroupCommit::GroupCommit(SharedConnection& connection, std::chrono::microseconds busy_wait, Answered& answered,
                         LayoutCopy* copy, bool takes_markers)
    : shared_connection_(connection),
      copy_(copy),
      takes_markers_(takes_markers),
      answered_(answered),
      busy_wait_(busy_wait) {
  // The other threads of this process do not exist in a child. If this fails, a child may never wait busily.
  [[maybe_unused]] static const int failed = ::pthread_atfork(nullptr, nullptr, [] { sending_threads = 0; });
}

GroupCommit::~GroupCommit() = default;

std::vector<std::string> GroupCommit::send(const std::vector<Slice*>& slices, Elsewhere elsewhere) {
  const CountedThread in_process(sending_threads);
  const CountedThread here(threads_);
  WaitingThread thread;
  thread.left = thread.unloaded = slices.size();
  thread.sends_one = slices.size() == 1 && slices.front()->messages.size() == 1;
  for (Slice* const slice : slices) {
    slice->thread = &thread;
    thread.patience = slice->patience;
  }
  std::unique_lock lock(mutex_);
  waiting_.insert(waiting_.end(), slices.begin(), slices.end());
  if (has_leader_) {
    lock.unlock();
    if (!wait(thread, slices, elsewhere)) return std::move(thread.markers);
    lock.lock();
  }
  has_leader_ = thread.is_leader = true;
  if (expects_others()) yield(lock);
  while (thread.left > 0) {
    lock.unlock();
    wake_done();
    run_leader(thread);
    lock.lock();
  }
  WaitingThread* const next = waiting_.empty() ? nullptr : waiting_.front()->thread;
  WaitingThread* const done = std::exchange(done_threads_, nullptr);
  std::vector<std::string> markers = std::exchange(markers_, {});
  has_leader_ = next != nullptr;
  if (next != nullptr) next->is_leader = true;
  lock.unlock();
  if (next != nullptr) next->wake();  // before the others: no thread is sending now
  WaitingThread::wake_all(done);
  return markers;
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

// Waits while another thread sends. Returns whether this one has become the leader; if not, its slices are done.
bool GroupCommit::wait(WaitingThread& thread, const std::vector<Slice*>& slices, Elsewhere elsewhere) {
  while (elsewhere == Elsewhere::yes) {
    const std::uint64_t answered = answered_.batches;
    const milliseconds patience =
        kPatience + shared_connection_.write_concern().timeout() + 2 * answered_.last_round_trip.load();
    if (thread.wait(patience)) return thread.is_leader;
    if (answered_.batches != answered) continue;  // the server answers; others are served first
    if (withdraw(thread, slices, patience)) return false;
    elsewhere = Elsewhere::no;
  }
  thread.wait();
  return thread.is_leader;
}

// Fails the slices if nothing of them is in a batch yet.
bool GroupCommit::withdraw(WaitingThread& thread, const std::vector<Slice*>& slices, milliseconds patience) {
  const Failure failure{Failure::Kind::connection, shared_connection_.endpoint().server() +
                                                       " has not answered other sends for " +
                                                       std::to_string(patience.count()) + " ms; nothing was sent"};
  const std::lock_guard lock(mutex_);
  const auto waits = [](const Slice* slice) { return slice->loaded == 0 && !slice->failure; };
  if (thread.is_leader || !std::all_of(slices.begin(), slices.end(), waits)) return false;
  const auto is_own = [&](const Slice* slice) { return slice->thread == &thread; };
  waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(), is_own), waiting_.end());
  for (Slice* const slice : slices) {
    slice->withdrawn = true;
    slice->failure = failure;
  }
  return true;
}

// The threads whose slices are done. One of them returns the markers.
WaitingThread* GroupCommit::take_done() {
  const std::lock_guard lock(mutex_);
  if (done_threads_ != nullptr) done_threads_->markers = std::exchange(markers_, {});
  return std::exchange(done_threads_, nullptr);
}

void GroupCommit::wake_done() { WaitingThread::wake_all(take_done()); }

void GroupCommit::run_leader(WaitingThread& leader) {
  bool is_ready = false;
  redis::TimeLimit::Scope limit(leader.patience.count() > 0 ? redis::Clock::now() + leader.patience
                                                            : redis::Deadline::max());
  const auto failure = redis::attempt([&] {
    shared_connection_.with_connection([&](redis::Connection& connection) {
      if (copy_ != nullptr) copy_->prepare(connection);
      is_ready = true;
      std::deque<InFlightBatch> batches;  // destroyed before the connection
      if (const auto broken = redis::attempt([&] { pump(leader, connection, batches, limit); })) {
        fail(batches, *broken);
        redis::raise(*broken);  // the connection is closed
      }
      register_if_needed(connection);
    });
  });
  if (failure && !is_ready) fail_waiting(*failure);
}

// QueueAdmin::forget may have removed the queue from the set of queues since this process connected.
void GroupCommit::register_if_needed(redis::Connection& connection) {
  std::unique_lock lock(mutex_);
  if (!std::exchange(needs_registration_, false)) return;
  lock.unlock();
  shared_connection_.endpoint().register_queue(connection);
}

// ---- Batches --------------------------------------------------------------------------------------------------------

// Sends batches until the slices of the leader are loaded, or another thread waits for the connection.
void GroupCommit::pump(WaitingThread& leader, redis::Connection& connection, std::deque<InFlightBatch>& batches,
                       redis::TimeLimit::Scope& limit) {
  const auto extend = [&] {
    if (leader.patience.count() > 0) limit.extend(redis::Clock::now() + leader.patience);
  };
  bool more = true;
  do {
    while (more && batches.size() < kBatchesInFlight) {
      more = load(batches.emplace_back(), leader) && !shared_connection_.is_wanted();
      if (batches.back().calls.empty()) {
        batches.pop_back();
        break;
      }
      submit(batches.back(), connection);
      if (batches.back().bytes >= kCallBytes) extend();  // a slow link has taken them
    }
    if (batches.empty()) return;
    bool resent = true;
    while (resent && !batches.empty()) {
      receive(batches.front(), leader, connection.fd());
      complete(batches.front(), connection);
      resent = batches.front().pipeline->resent();  // later batches are resent, too: keep the order
      batches.pop_front();
    }
    if (more || !batches.empty()) {
      extend();
      wake_done();
    }
  } while (more || !batches.empty());
}

// Fills the batch with steps of the waiting slices in turn. Returns whether the leader has more messages to load.
bool GroupCommit::load(InFlightBatch& batch, const WaitingThread& leader) {
  const std::lock_guard lock(mutex_);
  ++batch_count_;
  if (copy_ != nullptr) batch.length = copy_->length();
  while (!waiting_.empty() && add_step(batch, *waiting_.front())) {
    Slice& slice = *waiting_.front();
    waiting_.pop_front();
    if (slice.loaded < slice.messages.size()) {
      waiting_.push_back(&slice);
    } else {
      --slice.thread->unloaded;
    }
  }
  return leader.unloaded > 0;
}

// Adds the next step of the slice. Returns false if the batch has no room for it. A queue that is full may refuse a
// step and have room for a later one: so with a limit of the length a slice has one step in flight.
bool GroupCommit::add_step(InFlightBatch& batch, Slice& slice) {
  if (batch.length && slice.unanswered > 0) return false;
  WaitingThread& thread = *slice.thread;
  const SendStep step = next_step(slice);
  const auto call = batch.add(step, thread.last_batch == batch_count_ ? thread.last_call : 0);
  if (!call) return false;
  slice.loaded = step.end;
  ++slice.unanswered;
  step.for_each([](PendingMessage& message) { message.outcome = SendOutcome::in_doubt; });  // until the answer is read
  thread.last_batch = batch_count_;
  thread.last_call = *call;
  return true;
}

void GroupCommit::submit(InFlightBatch& batch, redis::Connection& connection) {
  const store::Moves& moves = shared_connection_.moves();
  redis::Pipeline& pipeline = batch.pipeline.emplace(connection);
  batch.add_requests(moves);
  batch.sent_at = redis::Clock::now();
  if (copy_ != nullptr && copy_->is_read_again() && batch.sent_at >= next_layout_) {
    batch.settings = store::read_sender_settings(pipeline, moves.keys());
    next_layout_ = batch.sent_at + kLayoutInterval;
  }
  if (takes_markers_) batch.marker = moves.take_marker(pipeline);
  const WriteConcern& concern = shared_connection_.write_concern();
  batch.confirmation =
      batch.has_only_new() ? concern.ask(pipeline) : concern.ask_after_write(pipeline, moves.keys().stats);
  pipeline.send();
}

// Reads the answers of the batch. If the leader is the only sender and sends one message, it first waits busily, where
// BusyWait allows it.
void GroupCommit::receive(InFlightBatch& batch, const WaitingThread& leader, int socket) {
  if (sending_threads > 1) busy_wait_.restart();
  if (sending_threads > 1 || !leader.sends_one) return batch.pipeline->receive();
  const auto start = redis::Clock::now();
  const auto until = start + busy_wait_.begin(socket);
  bool arrived = false;
  while (!arrived && sending_threads == 1 && redis::Clock::now() < until) arrived = batch.pipeline->receive_arrived();
  if (!arrived) batch.pipeline->receive();
  busy_wait_.end(redis::Clock::now() - start);
}

void GroupCommit::complete(InFlightBatch& batch, redis::Connection& connection) {
  answered_.last_round_trip = std::chrono::duration_cast<milliseconds>(redis::Clock::now() - batch.sent_at);
  ++answered_.batches;
  std::optional<std::string> marker = read_extras(batch);
  std::optional<Failure> broken = delete_bodies(batch, connection);  // or the connection leads to the wrong server
  const std::optional<Failure> missing = shared_connection_.write_concern().missing(batch.confirmation);
  std::unique_lock lock(mutex_);
  if (marker) markers_.push_back(std::move(*marker));
  const std::vector<SendCall> calls = std::exchange(batch.calls, {});
  for (const SendCall& call : calls) {
    store::KeyedSent sent;
    auto failure = redis::attempt([&] {
      sent = call.outcomes();
      needs_registration_ = needs_registration_ || sent.is_first;
    });
    // If the limit has changed, the messages are sent again, by the new one.
    const bool is_full = call.keyed && sent.outcomes.find('F') != store::Outcomes::npos;
    if (is_full && copy_->length() == batch.length) failure = full_queue(*batch.length);
    const bool stored = !call.keyed || !std::all_of(sent.outcomes.begin(), sent.outcomes.end(), stored_nothing);
    const bool is_unconfirmed = !failure && missing && stored;
    if (is_unconfirmed) failure = {missing->kind, "sent to " + connection.where() + ", but " + missing->text};
    if (failure) {
      const SendOutcome outcome = is_unconfirmed ? outcome_of_unconfirmed(*missing) : outcome_of(*failure);
      std::size_t i = 0;
      call.for_each([&](PendingMessage& message) {
        message.outcome = is_unconfirmed && stored_nothing(sent.outcomes[i++]) ? SendOutcome::not_written : outcome;
      });
      // The server may not be the master any more. Where a slot moves, other slots can be used.
      if (!failure->is_reply() && failure->kind != Failure::Kind::slot_unavailable) broken = failure;
    } else {
      std::size_t i = 0;
      call.for_each([&](PendingMessage& message) {
        set_outcome(message, sent.outcomes[i], call.keyed ? sent.ids[i] : std::string());
        ++i;
      });
    }
    for (const SendStep& step : call.steps) finish_step(step, failure);
  }
  lock.unlock();
  if (broken) redis::raise(*broken);
  shared_connection_.endpoint().answered();
}

Failure GroupCommit::full_queue(std::uint64_t length) const {
  const bool is_share = copy_->partitions() > 1;
  return {Failure::Kind::queue_full, "cannot send to " + shared_connection_.endpoint().queue() + ": " +
                                         (is_share ? "the partition has its share of the limit of the length, "
                                                   : "the queue has the limit of its length, ") +
                                         std::to_string(length) + " messages; send later, or raise the limit"};
}

// The layout and the marker. A missing right, or another type of a key, is no error of the sends.
std::optional<std::string> GroupCommit::read_extras(const InFlightBatch& batch) {
  static_cast<void>(redis::attempt([&] {
    if (batch.settings) copy_->remember(batch.settings->get());
  }));
  std::optional<std::string> due;
  static_cast<void>(redis::attempt([&] {
    if (batch.marker) due = batch.marker->get();
    if (batch.marker && batch.pipeline->resent()) due = "0";  // the answer to the first ZPOPMIN is lost
  }));
  return due;
}

// Deletes the bodies that sends without effect may have left. Those that it cannot delete are found by the integrity
// check. Returns the failure if the connection is lost. Then the deletion may arrive late, and a repeated send must not
// use these ids: they are cleared.
std::optional<Failure> GroupCommit::delete_bodies(const InFlightBatch& batch, redis::Connection& connection) const {
  for (const SendCall& call : batch.calls) {
    if (!call.stores_bodies_first || !call.answer->is_error()) continue;
    redis::Pipeline pipeline(connection);
    auto failure = redis::attempt([&] {
      shared_connection_.moves().delete_bodies(pipeline, call.ids());
      pipeline.run();
    });
    if (!failure || failure->is_reply()) continue;
    call.for_each([](PendingMessage& message) { message.id.clear(); });
    return failure;
  }
  return std::nullopt;
}

// Fails the slices of these batches. With any failure their messages may be stored: another node may have refused the
// client after a redirection, or a later batch could not be sent.
void GroupCommit::fail(const std::deque<InFlightBatch>& batches, Failure failure) {
  const Failure of_all = redis::in_doubt(std::move(failure));
  const std::lock_guard lock(mutex_);
  for (const InFlightBatch& batch : batches) {
    for (const SendCall& call : batch.calls) {
      for (const SendStep& step : call.steps) finish_step(step, of_all);
    }
  }
}

// Fails all waiting slices with a failure to connect. Otherwise each waiting thread would spend its own timeout on a
// server that does not respond.
void GroupCommit::fail_waiting(const Failure& failure) {
  const std::lock_guard lock(mutex_);
  while (!waiting_.empty()) {
    Slice& slice = *waiting_.front();
    slice.failure = failure;
    finish(slice);
  }
}

void GroupCommit::finish_step(const SendStep& step, const std::optional<Failure>& failure) {
  --step.slice->unanswered;
  if (failure) step.slice->fail(*failure);
  finish(*step.slice);
}

// Completes the slice when its last step is done. The rest of a failed slice is not sent.
void GroupCommit::finish(Slice& slice) {
  if (slice.failure && slice.loaded < slice.messages.size()) {
    waiting_.erase(std::remove(waiting_.begin(), waiting_.end(), &slice), waiting_.end());
    slice.loaded = slice.messages.size();
    --slice.thread->unloaded;
  }
  if (slice.unanswered > 0 || slice.loaded < slice.messages.size()) return;
  WaitingThread& thread = *slice.thread;
  if (--thread.left > 0 || thread.is_leader) return;
  thread.next_done = std::exchange(done_threads_, &thread);
}

}  // namespace delayqueue
