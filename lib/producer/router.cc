#include "producer/router.h"

#include "os/resources.h"
#include "producer/repeat.h"
#include "redis/escaped.h"
#include "redis/pipeline.h"
#include "redis/time_limit.h"
#include "store/record.h"

#include <delayqueue/error.h>

#include <algorithm>
#include <deque>
#include <future>
#include <string_view>

namespace delayqueue {

using redis::Failure;

namespace {

constexpr int kThreadsOfFirst = 4;  // that send at once, before the second connection is used
constexpr int kMostMoves = 8;       // of a message
constexpr int kMostAgain = 100;     // script calls for a message that store nothing of it
constexpr std::size_t kMostHolders = 1024;
constexpr int kMostForwards = 8;  // round trips of one thread that forwards markers
constexpr std::size_t kPartBytes = 256 * 1024;

// Lets the next call have threads.
class EndOfThreads {
 public:
  explicit EndOfThreads(std::atomic<bool>& has_threads) : has_threads_(has_threads) {}
  ~EndOfThreads() { has_threads_ = false; }
  EndOfThreads(const EndOfThreads&) = delete;
  EndOfThreads& operator=(const EndOfThreads&) = delete;

 private:
  std::atomic<bool>& has_threads_;
};

// The pause before a repeat. The first one is made at once: a connection may have broken that was idle for long.
class RepeatPause {
 public:
  void again() { pause_ = std::clamp(2 * pause_, kShortest, kLongest); }
  milliseconds length() const { return pause_; }

  // Returns false, and does not sleep, if there is no time for a repeat.
  bool sleep(redis::Clock::time_point end) const {
    if (redis::Clock::now() + pause_ >= end) return false;
    if (pause_.count() > 0) std::this_thread::sleep_for(pause_);
    return true;
  }

 private:
  static constexpr milliseconds kShortest{10};
  static constexpr milliseconds kLongest{250};

  milliseconds pause_{0};
};

// Whether Redis has refused a command within a script, which may have stored messages before it. So they must not be
// sent elsewhere. Without a right to the keys Redis does not run the script.
bool is_in_script(const Failure& denied) {
  const auto has = [&](std::string_view part) { return denied.text.find(part) != std::string::npos; };
  return has("executing the script can't") || has("ACL failure in script");  // Redis 6.2 and 7.0; 7.2 and later
}

bool has_cancelled(const std::string& state) { return state != "unknown" && state != "unack"; }
bool has_rescheduled(const std::string& outcome) { return outcome == "moved"; }

// A delay counts from the first attempt.
store::Due left_of(store::Due due, redis::Clock::duration passed) {
  if (due.delay) due.delay = std::max(*due.delay - std::chrono::floor<milliseconds>(passed), milliseconds(0));
  return due;
}

// The outcome of a reschedule, and the marker that it may have left in its partition.
struct Rescheduled {
  std::string outcome;
  std::optional<std::string> marker;
};

struct RescheduleAnswer {
  redis::Answer<std::string> outcome;
  std::optional<redis::Answer<std::optional<std::string>>> marker;

  Rescheduled get() const {
    Rescheduled all{outcome.get(), std::nullopt};
    static_cast<void>(redis::attempt([&] {  // the user may not be allowed to take it
      if (marker) all.marker = marker->get();
    }));
    return all;
  }
};

}  // namespace

void SendRequest::fail(const Failure& with) {
  if (!failure || !with.is_reply()) failure = with;
}

std::exception_ptr SendRequest::error() const {
  std::vector<std::string> ids;
  ids.reserve(messages.size());
  bool not_sent = true;
  bool any_in_doubt = false;  // also if the last attempt was refused
  for (const PendingMessage& message : messages) {
    ids.push_back(message.id);
    not_sent = not_sent && message.outcome == SendOutcome::not_written;
    any_in_doubt = any_in_doubt || message.outcome == SendOutcome::in_doubt;
  }
  Failure of_all = any_in_doubt ? redis::in_doubt(*failure) : *failure;
  if (failure->is_reply() && any_in_doubt) of_all.text += "; an earlier attempt of the call may have stored messages";
  return redis::error_of_send(of_all, std::move(ids), not_sent);
}

// So that Producers do not all begin with the same partition.
void PartitionTurns::begin() {
  if (!has_begun_) current_ = random_seed();
  has_begun_ = true;
}

// ---- The partitions -------------------------------------------------------------------------------------------------

// A partition: its connections, and the threads that send to it.
struct Router::Partition {
  Partition(const Client& client, const std::string& queue, const ProducerOptions& options, LayoutKeeper& keeper)
      : connection(client, queue, options.durability, RegisterQueue::yes,
                   options.send_timeout.count() > 0 ? WhileAway::call_fails : WhileAway::call_tries),
        copy(keeper, connection.endpoint(), 0),
        first(connection, options.tuning.busy_wait, answered, &copy),
        second_connection(connection, 0),
        second(second_connection, options.tuning.busy_wait, answered, &copy) {}

  // Idle consumers wait for wake-ups in partition 0 only. So the markers that sends leave in another one, for messages
  // which are due earlier than all others there, are taken out and forwarded to partition 0.
  Partition(const SharedConnection& home, unsigned number, std::chrono::microseconds busy_wait, LayoutKeeper& keeper)
      : connection(home, number),
        copy(keeper, connection.endpoint(), number),
        first(connection, busy_wait, answered, &copy, true),
        second_connection(home, number),
        second(second_connection, busy_wait, answered, &copy, true) {}

  // The group commit that the calling thread joins. Many threads that send at the same time use two, each with its
  // own connection: while Redis executes what some of them have sent, the others wake and send again.
  GroupCommit& commit() {
    const int threads = first.threads();
    const bool use_second = threads >= kThreadsOfFirst && threads > second.threads() && answered.batches > 0;
    return use_second ? second : first;
  }

  SharedConnection connection;
  LayoutCopy copy;
  GroupCommit::Answered answered;
  GroupCommit first;
  SharedConnection second_connection;
  GroupCommit second;
};

Router::Router(const Client& client, const std::string& queue, const ProducerOptions& options,
               FailureReporter& failures)
    : busy_wait_(options.tuning.busy_wait),
      send_timeout_(options.send_timeout),
      name_crc_(store::name_crc(queue, client.keys().prefix)),
      has_one_partition_(client.keys().go.bodies_under_dp),
      home_(std::make_unique<Partition>(client, queue, options, keeper_)),
      keeper_(queue, home_->connection.endpoint().key_options(),
              [this](unsigned number, const auto& call) {
                partition(number).connection.with_connection([&](redis::Connection& connection) { call(connection); });
              }),
      reporter_(failures),
      breaker_(failures) {
  home_->connection.endpoint().outages().listen(
      this, [this](const std::string& server, const std::string& why) { on_outage(server, why); });
}

Router::~Router() {
  home_->connection.endpoint().outages().ignore(this);
  breaker_.stop();
  if (prober_interrupt_ != nullptr) prober_interrupt_->raise();
  if (prober_.joinable()) prober_.join();
}

SharedConnection& Router::home() { return home_->connection; }

Router::Partition& Router::partition(unsigned number) {
  if (number == 0) return *home_;
  const std::lock_guard lock(partitions_mutex_);
  std::unique_ptr<Partition>& found = partitions_[number];
  if (found == nullptr) found = std::make_unique<Partition>(home_->connection, number, busy_wait_, keeper_);
  return *found;
}

std::string Router::server_of(unsigned number) { return partition(number).connection.endpoint().server(); }

// The number of partitions that messages are sent to.
unsigned Router::count() const { return has_one_partition_ ? 1 : keeper_.partitions(); }

// The queue has the partitions that partition 0 tells. If that has lost its copy, messages go to partition 0 until
// another client has restored it, and consumers serve that partition in any case. So a queue without partitions needs
// no other server.
std::optional<Failure> Router::read_first_layout() {
  auto failure = redis::attempt([&] { read_copy(0); });
  if (failure) {
    if (!failure->is_connection() || has_one_partition_ || server_of(0).empty()) return failure;
    static_cast<void>(redis::attempt([&] { read_copy(1); }));  // may be on another server
    if (count() == 1) return failure;
  }
  knows_layout_ = true;
  return std::nullopt;
}

void Router::read_copy(unsigned number) {
  Partition& read = partition(number);
  read.connection.with_connection([](redis::Connection&) {});  // which reads it when it verifies the queue
  read.copy.remember_verified();
}

unsigned Router::named_by(const std::string& id) const {
  return has_one_partition_ ? 0 : store::partition_of(id, name_crc_).value_or(0);
}

unsigned Router::partition_of(const std::string& id) {
  return named_by(id) == 0 ? 0 : keeper_.partitions_of({id}).front();
}

// The partition that an id is in which names this one, as far as is known.
unsigned Router::known(unsigned named) const { return named < keeper_.known().top ? named : 0; }

SharedConnection& Router::connection_of(const std::string& id) { return partition(known(named_by(id))).connection; }

// ---- Calls by id ----------------------------------------------------------------------------------------------------

std::string Router::cancel(const std::string& id) {
  return repeat_in(named_by(id), false, [&](bool& in_doubt, Clock::duration /*passed*/) {
    SharedConnection& connection = partition(partition_of(id)).connection;
    return connection.ask([&](redis::Pipeline& pipeline) { return connection.moves().cancel(pipeline, id); },
                          has_cancelled, in_doubt);
  });
}

std::string Router::cancel_by_key(const std::string& key) {
  return repeat_in(0, false, [&](bool& in_doubt, Clock::duration /*passed*/) {
    const auto change = [&](redis::Pipeline& pipeline, const std::string& id) {
      return home().moves().cancel_by_key(pipeline, id, key);
    };
    return change_by_key(key, change, has_cancelled, in_doubt);
  });
}

// After a lost answer it is not repeated: another message may have the key by then.
std::string Router::reschedule_by_key(const std::string& key, const store::Due& due) {
  return repeat_in(0, false, [&](bool& in_doubt, Clock::duration passed) {
    const auto change = [&](redis::Pipeline& pipeline, const std::string& id) {
      return home().moves().reschedule_by_key(pipeline, id, key, left_of(due, passed));
    };
    return change_by_key(key, change, has_rescheduled, in_doubt);
  });
}

// Changes the message that has the key: the script must be given its body, so again if it is another one meanwhile.
template <class Change, class HasWritten>
std::string Router::change_by_key(const std::string& key, Change change, HasWritten has_written, bool& in_doubt) {
  std::string id = home().with_connection([&](redis::Connection& connection) {
    redis::Pipeline pipeline(connection);
    const auto last = home().moves().last_with_key(pipeline, key);
    pipeline.run();
    return last.get();
  });
  const auto is_final = [](const store::ByKey& answer) { return answer.call_id.empty(); };
  for (int calls = 0; calls < kMostAgain; ++calls) {
    if (id.empty()) return "unknown";
    const store::ByKey done =
        home().ask([&](redis::Pipeline& pipeline) { return change(pipeline, id); },
                   [&](const store::ByKey& answer) { return has_written(answer.answer); }, in_doubt, is_final);
    if (is_final(done)) return done.answer;
    id = done.call_id;
  }
  throw ReplyError("the message with the unique key \"" + redis::escaped(key) + "\" was another one in each of " +
                   std::to_string(kMostAgain) + " attempts; nothing was changed; call again");
}

std::string Router::reschedule(const std::string& id, const store::Due& due) {
  return repeat_in(named_by(id), true, [&](bool& in_doubt, Clock::duration passed) {
    const unsigned number = partition_of(id);
    SharedConnection& connection = partition(number).connection;
    const store::Due left = left_of(due, passed);
    const auto add = [&](redis::Pipeline& pipeline) {
      RescheduleAnswer answers{connection.moves().reschedule(pipeline, id, left), std::nullopt};
      if (number > 0) answers.marker = connection.moves().take_marker(pipeline);
      return answers;
    };
    const auto has_written = [](const Rescheduled& done) { return has_rescheduled(done.outcome); };
    Rescheduled answer = connection.ask(add, has_written, in_doubt);
    if (answer.marker) forward(number, {std::move(*answer.marker)});
    return answer.outcome;
  });
}

// For a call that changes a message of this partition. Calls the function until it succeeds, or a repeat makes no
// sense, or there is no time for it.
template <class Call>
std::string Router::repeat_in(unsigned named, bool repeats_in_doubt, Call call) {
  const auto began = Clock::now();
  const bool repeats = send_timeout_.count() > 0;
  const auto end = repeats ? began + send_timeout_ : Clock::time_point::max();
  const redis::TimeLimit::Scope limit(end);
  int attempts = 1;
  bool was_in_doubt = false;  // after an earlier attempt
  for (RepeatPause pause;; pause.again(), ++attempts) {
    bool in_doubt = false;
    std::string result;
    auto failure = redis::attempt([&] { result = call(in_doubt, Clock::now() - began); });
    if (!failure) return result;
    const SendOutcome outcome = in_doubt ? SendOutcome::in_doubt : SendOutcome::not_written;
    const bool may_repeat = next_step(outcome, *failure, false) == NextStep::repeat && (repeats_in_doubt || !in_doubt);
    if (!repeats || !may_repeat) redis::raise(was_in_doubt ? redis::in_doubt(*failure) : *failure);
    was_in_doubt = was_in_doubt || in_doubt;
    if (!pause.sleep(end) || !wait(named, end)) {
      explain(*failure, named, attempts, began);
      redis::raise(*failure);
    }
  }
}

// ---- Sending --------------------------------------------------------------------------------------------------------

// Messages of one request that go to the same partition.
struct Router::Part {
  SendRequest* whole;  // that it is a part of
  bool spreads;        // to any partition; else to the one of the ids
  unsigned partition = 0;
  Slice slice{};
  std::size_t bytes = 0;  // of payloads and headers
  int moves = 0;          // to another partition
  bool waits = false;     // it stays where it is, also if the server does not answer
  std::size_t turn = 0;   // it is sent after all parts of earlier turns: see Turns
  bool has_keys = false;
  int again = 0;  // how often messages were sent again, because nothing of them was stored

  bool has_room(std::size_t size) const {
    return !spreads || (slice.messages.size() < store::kBatch && bytes + size <= kPartBytes);
  }

  bool may_move() const { return spreads && !waits; }

  void add(PendingMessage& message) {
    slice.messages.push_back(&message);
    bytes += message.size();
    has_keys = has_keys || !message.key.empty();
  }
};

// Of two messages with a key or an id, the second one is sent after the first one is done, and so are all behind it.
// So what is sent later takes effect later.
class Router::Turns {
 public:
  std::size_t turn_of(const PendingMessage& message) {
    if (message.key.empty()) return turn_;
    const bool has_own_id = !message.terms->new_ids;
    if (used_.count(message.key) > 0 || (has_own_id && used_.count(message.id) > 0)) {
      ++turn_;
      used_.clear();
    }
    used_.emplace(message.key);
    if (has_own_id) used_.insert(message.id);
    return turn_;
  }

 private:
  std::size_t turn_ = 0;
  std::set<std::string, std::less<>> used_{};  // in this turn
};

void Router::send(std::vector<SendRequest>& requests, Clock::time_point began) {
  if (send_timeout_.count() == 0) return attempt(requests);
  for (SendRequest& request : requests) request.patience = send_timeout_;
  const redis::TimeLimit::Scope limit(began + send_timeout_);
  attempt(requests);
  const auto has_failed = [](const SendRequest& request) { return request.failure.has_value(); };
  if (std::any_of(requests.begin(), requests.end(), has_failed)) repeat(requests, began);
}

void Router::attempt(std::vector<SendRequest>& requests) {
  if (!knows_layout_) {
    if (const auto failure = read_first_layout()) {
      for (SendRequest& request : requests) fail(request, *failure);
      return;
    }
  }
  std::vector<Part> parts = parts_of(requests);  // in the order of their turns
  for (auto part = parts.begin(); part != parts.end();) {
    const std::size_t turn = part->turn;
    Parts next;
    for (; part != parts.end() && part->turn == turn; ++part) next.push_back(&*part);
    if (turn > 0) remove_overtaking(requests, next);
    while (!next.empty()) next = send_round(std::move(next));
  }
}

// If a message overtook an earlier one with its key that is to be repeated, the repeat would overwrite what it has
// stored: so its part fails, too, and is repeated behind that.
void Router::remove_overtaking(const std::vector<SendRequest>& requests, Parts& parts) {
  std::map<std::string_view, const Failure*> repeated;  // by the keys of such earlier messages
  for (const SendRequest& request : requests) {
    if (!request.failure || !is_outage(*request.failure)) continue;
    for (const PendingMessage& message : request.messages) {
      if (!message.key.empty() && !message.is_executed()) repeated.emplace(message.key, &*request.failure);
    }
  }
  if (repeated.empty()) return;
  const auto overtakes = [&](Part* part) {
    for (const PendingMessage* const message : part->slice.messages) {
      const auto earlier = repeated.find(message->key);
      if (earlier == repeated.end() || has_failed(*part)) continue;
      part->slice.failure = *earlier->second;
      part->slice.failure->text =
          "not sent, because an earlier message with the same key was not: " + part->slice.failure->text;
      finish(*part);
      return true;
    }
    return false;
  };
  parts.erase(std::remove_if(parts.begin(), parts.end(), overtakes), parts.end());
}

// ---- Repeats --------------------------------------------------------------------------------------------------------

// The messages of a request that are sent again, as a request of their own.
struct Router::Repeat {
  struct Place {
    std::size_t in_whole;
    bool keeps_id;  // it may be stored, or the caller has named it
  };

  SendRequest* whole;
  std::vector<Place> places{};
  SendRequest request{};
  std::deque<store::SendTerms> terms{};  // of those whose new ids may exist by now

  void begin(milliseconds patience);
  bool end();
};

void Router::Repeat::begin(milliseconds patience) {
  request.bodies_first = whole->bodies_first;
  request.patience = patience;
  const store::SendTerms* copied = nullptr;
  for (const Place& place : places) {
    PendingMessage message = std::move(whole->messages[place.in_whole]);
    message.was_in_doubt = message.was_in_doubt || message.outcome == SendOutcome::in_doubt;
    message.outcome = SendOutcome::not_written;
    if (message.terms->new_ids && place.keeps_id) {
      if (copied != message.terms) terms.push_back(*message.terms);
      copied = message.terms;
      terms.back().new_ids = false;
      message.terms = &terms.back();
    } else if (message.terms->new_ids) {
      message.id.clear();
    }
    request.messages.push_back(std::move(message));
  }
}

// Moves the results to the whole. Returns whether there is one more.
bool Router::Repeat::end() {
  bool has_progress = false;
  for (std::size_t i = 0; i < places.size(); ++i) {
    PendingMessage& sent = request.messages[i];
    PendingMessage& of_whole = whole->messages[places[i].in_whole];
    sent.outcome = merged(sent.outcome, sent.was_in_doubt);
    has_progress = has_progress || sent.is_executed();
    sent.terms = of_whole.terms;
    of_whole = std::move(sent);
  }
  whole->failure = std::move(request.failure);
  return has_progress;
}

// A request with a message that Redis has refused has failed, also if others of its messages could be repeated.
std::vector<Router::Repeat> Router::repeats_of(std::vector<SendRequest>& requests) const {
  std::vector<Repeat> repeats;
  for (SendRequest& request : requests) {
    if (!request.failure) continue;
    std::set<unsigned> in_doubt;
    for (const PendingMessage& message : request.messages) {
      if (message.outcome == SendOutcome::in_doubt) in_doubt.insert(named_by(message.id));
    }
    Repeat repeat{&request};
    bool fails = false;
    for (std::size_t i = 0; i < request.messages.size() && !fails; ++i) {
      const PendingMessage& message = request.messages[i];
      const NextStep step = next_step(message.outcome, *request.failure, message.terms->new_ids);
      fails = step == NextStep::fail;
      // What is not written stays behind what may be written to the same partition: this keeps the order.
      const bool stays = step == NextStep::repeat || in_doubt.count(named_by(message.id)) > 0;
      if (step != NextStep::none) repeat.places.push_back({i, stays});
    }
    if (!fails && !repeat.places.empty()) repeats.push_back(std::move(repeat));
  }
  return repeats;
}

// A batch may take longer than send_timeout: the time counts from the last message that was sent.
void Router::repeat(std::vector<SendRequest>& requests, Clock::time_point began) {
  const auto has_progress_in = [](const SendRequest& request) {
    return std::any_of(request.messages.begin(), request.messages.end(),
                       [](const PendingMessage& message) { return message.is_executed(); });
  };
  auto end = std::any_of(requests.begin(), requests.end(), has_progress_in) ? Clock::now() : began;
  end += send_timeout_;
  int attempts = 1;
  for (RepeatPause pause;; pause.again(), ++attempts) {
    std::vector<Repeat> repeats = repeats_of(requests);
    if (repeats.empty()) return;
    if (!pause.sleep(end) || !wait(repeats, end)) {
      for (const Repeat& repeat : repeats_of(requests)) {
        const std::set<unsigned> stay = stay_of(repeat);
        explain(*repeat.whole->failure, stay.empty() ? 0 : *stay.begin(), attempts, began);
      }
      return;
    }
    const redis::TimeLimit::Scope limit(end);
    const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
    std::vector<SendRequest> again;
    again.reserve(repeats.size());
    for (Repeat& repeat : repeats) {
      repeat.begin(std::max(left, milliseconds(1)));
      again.push_back(std::move(repeat.request));
    }
    attempt(again);
    bool has_progress = false;
    for (std::size_t i = 0; i < repeats.size(); ++i) {
      repeats[i].request = std::move(again[i]);
      has_progress = repeats[i].end() || has_progress;
    }
    if (has_progress) end = Clock::now() + send_timeout_;
  }
}

// The partitions that messages of the repeat stay in.
std::set<unsigned> Router::stay_of(const Repeat& repeat) const {
  std::set<unsigned> stay;
  for (const Repeat::Place& place : repeat.places) {
    if (place.keeps_id) stay.insert(named_by(repeat.whole->messages[place.in_whole].id));
  }
  return stay;
}

// When it is too late to send again what stays in these partitions, or if there are none, what goes to any: at `end`,
// or when the server has been away for send_timeout. Adds the servers.
Router::Clock::time_point Router::end_of(const std::set<unsigned>& stay, bool any_moves, Clock::time_point end,
                                         std::vector<std::string>& servers) {
  const Outages& outages = home_->connection.endpoint().outages();
  for (const unsigned named : stay) {
    servers.push_back(server_of(known(named)));
    if (const auto away = outages.away(servers.back())) end = std::min(end, away->end(send_timeout_));
  }
  if (!any_moves) return end;
  auto last = Clock::time_point::min();
  for (unsigned number = 0; number < count(); ++number) {
    servers.push_back(server_of(number));
    const auto away = outages.away(servers.back());
    last = std::max(last, away ? away->end(send_timeout_) : Clock::time_point::max());
  }
  return stay.empty() ? std::min(end, last) : end;
}

// Waits until a partition of the call can be used. Returns false when it is too late for a repeat.
bool Router::wait(unsigned named, Clock::time_point until) {
  const Outages& outages = home_->connection.endpoint().outages();
  if (!outages.any()) return true;
  std::vector<std::string> servers;
  until = end_of({named}, false, until, servers);
  return outages.wait(servers, until) && Clock::now() < until;
}

// The same for several calls, each of which is judged by its own servers. Removes those that it is too late for.
bool Router::wait(std::vector<Repeat>& repeats, Clock::time_point until) {
  const Outages& outages = home_->connection.endpoint().outages();
  if (!outages.any()) return true;
  const auto now = Clock::now();
  auto last = now;
  std::set<std::string> all;
  std::vector<Repeat> in_time;
  for (Repeat& repeat : repeats) {
    const bool any_moves = std::any_of(repeat.places.begin(), repeat.places.end(),
                                       [](const Repeat::Place& place) { return !place.keeps_id; });
    std::vector<std::string> servers;
    const auto end = end_of(stay_of(repeat), any_moves, until, servers);
    if (end <= now) continue;
    last = std::max(last, end);
    all.insert(servers.begin(), servers.end());
    in_time.push_back(std::move(repeat));
  }
  repeats = std::move(in_time);
  return !repeats.empty() && outages.wait({all.begin(), all.end()}, last) && Clock::now() < last;
}

// Adds how long the server has been away, or how often the call was repeated.
void Router::explain(Failure& failure, unsigned named, int attempts, Clock::time_point began) {
  if (auto away = home_->connection.endpoint().outages().away(server_of(known(named)))) {
    failure.text = std::move(away->text);
  } else if (attempts > 1) {
    const auto ms = std::chrono::duration_cast<milliseconds>(Clock::now() - began).count();
    failure.text += " (" + std::to_string(attempts) + " attempts in " + std::to_string(ms) + " ms)";
  }
}

// Makes ids that name this partition: the only place that does. `replaces`: for all messages, else for those that have
// none. If it fails, all is as before.
std::optional<Failure> Router::give_ids(const std::vector<PendingMessage*>& messages, unsigned number,
                                        bool replaces) const {
  const auto gets_one = [&](const PendingMessage* message) { return replaces || message->id.empty(); };
  const auto count = static_cast<std::size_t>(std::count_if(messages.begin(), messages.end(), gets_one));
  if (count == 0) return std::nullopt;
  std::vector<std::string> ids;
  auto failure = redis::attempt([&] { ids = store::new_ids(count, {name_crc_, static_cast<std::uint8_t>(number)}); });
  if (failure) return failure;
  auto next = ids.begin();
  for (PendingMessage* const message : messages) {
    if (gets_one(message)) message->id = std::move(*next++);
  }
  return std::nullopt;
}

// Nothing of the request was sent. It gets ids, which the caller needs to repeat it.
void Router::fail(SendRequest& request, Failure failure) const {
  std::vector<PendingMessage*> messages;
  for (PendingMessage& message : request.messages) messages.push_back(&message);
  if (auto refused = give_ids(messages, 0, false)) failure = std::move(*refused);
  request.fail(failure);
}

// Fails the requests that have an id whose partition cannot be told, and no others.
std::vector<Router::Part> Router::parts_of(std::vector<SendRequest>& requests) {
  std::vector<Part> parts;
  parts.reserve(requests.size());
  Turns turns;
  for (SendRequest& request : requests) {
    const std::size_t before = parts.size();
    auto failure = redis::attempt([&] { add_parts(request, turns, parts); });
    if (!failure) continue;
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(before), parts.end());
    fail(request, std::move(*failure));
  }
  return parts;
}

// Messages with keys are in partition 0, where their ids are, too: see Producer.
void Router::add_parts(SendRequest& whole, Turns& turns, std::vector<Part>& parts) {
  const bool spreads_new = count() > 1;
  const auto first = static_cast<std::ptrdiff_t>(parts.size());
  for (PendingMessage& message : whole.messages) {
    const bool is_new = message.terms->new_ids;
    const bool spreads = is_new && spreads_new && message.key.empty();
    const unsigned number = is_new ? 0 : partition_of(message.id);
    if (number > 0 && !message.key.empty()) {
      throw std::invalid_argument("id: " + message.id + " is of partition " + std::to_string(number) +
                                  ", and a message with a unique key must be in partition 0; expected another id, " +
                                  "such as one of new_id()");
    }
    const std::size_t turn = turns.turn_of(message);
    const auto end = std::find_if(parts.rbegin(), parts.rend() - first,  // the parts are in the order of their turns
                                  [&](const Part& part) { return part.turn < turn; });
    const auto latest = std::find_if(
        parts.rbegin(), end, [&](const Part& part) { return part.spreads == spreads && part.partition == number; });
    Part* part = latest != end && latest->has_room(message.size()) ? &*latest : nullptr;
    if (part == nullptr) {
      part = &parts.emplace_back(Part{&whole, spreads, number});
      part->slice.bodies_first = whole.bodies_first;
      part->slice.patience = whole.patience;
      part->turn = turn;
    }
    part->add(message);
  }
  for (auto part = parts.begin() + first; part != parts.end(); ++part) {
    if (part->spreads) part->partition = choose(*part);
    if (const auto failure = give_ids(part->slice.messages, part->partition, false)) redis::raise(*failure);
  }
}

// Sends the parts once, to several servers at the same time if that is worth threads. One call at a time does so: if
// several calls are under way, they keep all servers busy without, and more requests would only wait at the servers.
// Returns the parts that are sent again: to another partition, or to name the messages that have their keys.
Router::Parts Router::send_round(Parts parts) {
  if (parts.size() == 1) return send_one_by_one(parts);
  const unsigned first = parts.front()->partition;
  const auto position_of = [first](const Part* part) { return (part->partition - first) % store::kMostPartitions; };
  const auto is_before = [&](const Part* a, const Part* b) { return position_of(a) < position_of(b); };
  if (!std::is_sorted(parts.begin(), parts.end(), is_before)) std::stable_sort(parts.begin(), parts.end(), is_before);
  const bool one_request = parts.front()->whole == parts.back()->whole;  // send_async() sends several
  if (!one_request) return send_one_by_one(parts);
  const std::vector<std::string> servers = servers_of(parts);
  const std::set<std::string> with_thread = worth_threads(parts, servers);
  if (with_thread.empty() || has_threads_.exchange(true)) return send_one_by_one(parts);
  const EndOfThreads end(has_threads_);
  Parts here;
  std::map<std::string, Parts> apart;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    (with_thread.count(servers[i]) > 0 ? apart[servers[i]] : here).push_back(parts[i]);
  }
  return send_in_threads(here, apart);
}

// `here`: what the calling thread sends. It also sends for the threads that the system refuses.
Router::Parts Router::send_in_threads(const Parts& here, const std::map<std::string, Parts>& apart) {
  std::vector<std::future<Parts>> threads;
  std::vector<const Parts*> refused;
  for (const auto& server : apart) {
    const Parts& parts = server.second;
    const auto failure = redis::attempt(
        [&] { threads.push_back(std::async(std::launch::async, [this, &parts] { return send_one_by_one(parts); })); });
    if (failure) refused.push_back(&parts);
  }
  Parts moved = send_one_by_one(here);
  const auto add = [&](const Parts& more) { moved.insert(moved.end(), more.begin(), more.end()); };
  for (const Parts* const parts : refused) add(send_one_by_one(*parts));
  for (auto& thread : threads) add(thread.get());
  return moved;
}

// The server of each part. It is asked for once for each partition, so that the parts of one stay together while its
// slot moves.
std::vector<std::string> Router::servers_of(const Parts& parts) {
  std::vector<std::string> servers;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool is_same = i > 0 && parts[i]->partition == parts[i - 1]->partition;
    servers.push_back(is_same ? servers.back() : server_of(parts[i]->partition));
  }
  return servers;
}

// The servers that get enough of these parts to be worth a thread; less one for the calling thread, if it would have
// nothing else to do.
std::set<std::string> Router::worth_threads(const Parts& parts, const std::vector<std::string>& servers) {
  struct Load {
    std::size_t messages = 0;
    std::size_t bytes = 0;
  };
  std::map<std::string, Load> loads;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    loads[servers[i]].messages += parts[i]->slice.messages.size();
    loads[servers[i]].bytes += parts[i]->bytes;
  }
  std::set<std::string> worth;
  for (const auto& [server, load] : loads) {
    if (load.messages >= store::kBatch || load.bytes >= kPartBytes) worth.insert(server);
  }
  if (worth.size() == loads.size()) worth.erase(servers.front());
  return worth;
}

// Sends to one partition after the other, in the order of the parts: threads that all began with the partitions of the
// same server would meet there. Returns the parts that are sent again.
Router::Parts Router::send_one_by_one(const Parts& parts) {
  Parts moved;
  for (auto next = parts.begin(); next != parts.end();) {
    const unsigned number = (*next)->partition;
    Parts together;
    for (; next != parts.end() && (*next)->partition == number; ++next) {
      (move_before_send(**next) ? moved : together).push_back(*next);
    }
    send_together(number, together);
    for (Part* const part : together) {
      if (move_after_failure(*part) || is_sent_again(*part)) {
        moved.push_back(part);
      } else {
        finish(*part);
      }
    }
  }
  return moved;
}

// Sends parts to this partition. The rest of a request that has failed is not sent.
void Router::send_together(unsigned number, const Parts& parts) {
  std::vector<Slice*> slices;
  slices.reserve(parts.size());
  const unsigned partitions = count();
  bool may_leave = partitions > 1;
  for (Part* const part : parts) {
    if (has_failed(*part)) continue;
    may_leave = may_leave && part->may_move();
    slices.push_back(&part->slice);
  }
  if (slices.empty()) return;
  for (Part* const part : parts) name_holders(*part);
  std::vector<std::string> markers;
  const auto failure = redis::attempt([&] {
    Partition& to = partition(number);
    may_leave = may_leave && !to.connection.endpoint().server().empty();  // there may be others
    markers = to.commit().send(slices, may_leave ? GroupCommit::Elsewhere::yes : GroupCommit::Elsewhere::no);
  });
  if (failure) {  // nothing was sent
    for (Slice* const slice : slices) slice->fail(*failure);
  }
  for (const Part* const part : parts) remember_holders(*part);
  if (partitions > 1) turns_.go_on_from(number, partitions, [this](unsigned other) { return allows(other); });
  if (!markers.empty()) forward(number, std::move(markers));
}

// Keeps those messages of the part that are sent again, since their script call was executed and stored nothing of
// them: see SendOutcome::not_written. Returns whether there are any.
bool Router::is_sent_again(Part& part) {
  if (part.slice.failure || has_failed(part)) return false;
  Slice again;
  for (PendingMessage* const message : part.slice.messages) {
    if (message->outcome == SendOutcome::not_written) again.messages.push_back(message);
  }
  if (again.messages.empty()) return false;
  if (++part.again == kMostAgain) {
    for (PendingMessage* const message : again.messages) message->outcome = SendOutcome::refused;
    part.slice.failure = {Failure::Kind::reply, "cannot send the message with the unique key \"" +
                                                    redis::escaped(again.messages.front()->key) + "\": in each of " +
                                                    std::to_string(kMostAgain) +
                                                    " attempts another message had the key; send it again"};
    return false;
  }
  again.bodies_first = part.slice.bodies_first;
  again.patience = part.slice.patience;
  part.slice = std::move(again);
  return true;
}

// The script must be given the body of the message that has the key. If that is known, one call is enough.
void Router::name_holders(Part& part) {
  if (!part.has_keys) return;
  const std::lock_guard lock(holders_mutex_);
  for (PendingMessage* const message : part.slice.messages) {
    const auto known = message->holder.empty() ? holders_.find(message->key) : holders_.end();
    if (known != holders_.end()) message->holder = known->second;
  }
}

void Router::remember_holders(const Part& part) {
  if (!part.has_keys) return;
  const std::lock_guard lock(holders_mutex_);
  for (const PendingMessage* const message : part.slice.messages) {
    if (message->key.empty() || !message->is_executed()) continue;
    if (holders_.size() == kMostHolders) holders_.clear();
    holders_[std::string(message->key)] = message->sent_id();
  }
}

// The result of the part stays. A message whose id must not be sent again gets another one.
void Router::finish(Part& part) {
  if (!part.slice.failure) return;
  const auto refused = give_ids(part.slice.messages, part.partition, false);
  const std::lock_guard lock(failures_mutex_);
  part.whole->fail(*part.slice.failure);
  if (refused) part.whole->fail(*refused);
}

bool Router::has_failed(const Part& part) {
  const std::lock_guard lock(failures_mutex_);
  return part.whole->failure.has_value();
}

// ---- Partitions that fail -------------------------------------------------------------------------------------------

bool Router::allows(unsigned number) {
  return allows_all() || (breaker_.allows(number) && !partition(number).connection.endpoint().away());
}

bool Router::allows_all() { return breaker_.allows_all() && !home_->connection.endpoint().outages().any(); }

unsigned Router::choose(const Part& part) {
  return turns_.choose(part.slice.messages.size(), count(), [this](unsigned number) { return allows(number); });
}

// If the circuit breaker no longer allows the partition of the part, because an earlier part has failed, gives the part
// to a partition that is allowed. Returns whether it did.
bool Router::move_before_send(Part& part) {
  if (allows_all() || !part.may_move() || part.moves >= kMostMoves || has_failed(part)) return false;
  if (allows(part.partition)) return false;
  const unsigned next = choose(part);
  if (!allows(next) || give_ids(part.slice.messages, next, true)) return false;
  part.partition = next;
  ++part.moves;
  moved_ += part.slice.messages.size();
  return true;
}

// If the part has failed, and nothing of it was or may have been stored, gives it to another partition. Returns whether
// it did.
bool Router::move_after_failure(Part& part) {
  const auto next = next_for(part);
  if (!next) return false;
  if (auto refused = give_ids(part.slice.messages, *next, true)) {
    part.slice.failure = std::move(refused);
    return false;
  }
  Slice again;
  again.messages = std::move(part.slice.messages);
  again.bodies_first = part.slice.bodies_first;
  again.patience = part.slice.patience;
  for (PendingMessage* const message : again.messages) message->outcome = SendOutcome::not_written;
  part.slice = std::move(again);
  part.partition = *next;
  ++part.moves;
  moved_ += part.slice.messages.size();
  return true;
}

// The partition to which the part is moved; none: its result stays. Tells the circuit breaker of failures.
std::optional<unsigned> Router::next_for(Part& part) {
  if (!part.slice.failure || count() == 1 || has_failed(part)) return std::nullopt;
  const Failure& failure = *part.slice.failure;
  if (failure.is_access_denied()) {
    if (part.partition == 0 || is_in_script(failure)) return std::nullopt;
    if (has_prober()) breaker_.access_denied(part.partition, failure.text);
    return part.spreads && !part.slice.is_executed() ? std::optional(0U) : std::nullopt;
  }
  if (!failure.is_connection()) return std::nullopt;
  bool has_others = true;
  if (failure.kind == Failure::Kind::slot_unavailable) {  // other partitions of the server can be used
    if (has_prober()) breaker_.partition_failed(part.partition, failure.text);
  } else {
    has_others = server_failed(part.partition, failure);
  }
  if (!part.spreads || part.slice.may_be_written()) return std::nullopt;
  const unsigned next = choose(part);
  part.waits = !has_others || part.moves >= kMostMoves || !allows(next);
  if (!part.waits || part.slice.withdrawn) return next;
  return std::nullopt;
}

// Its partitions get no new messages. Returns false if no other server is known.
bool Router::server_failed(unsigned number, const Failure& failure) {
  Endpoint& endpoint = partition(number).connection.endpoint();
  if (endpoint.server().empty()) return false;
  return failure.kind == Failure::Kind::not_durable || endpoint.away() || endpoint.failed(failure.text, Clock::now());
}

// Logs an outage of a server that has partitions of this queue.
void Router::on_outage(const std::string& server, const std::string& why) {
  if (server.empty()) return;  // the calls throw
  const std::string what = "new messages go to the partitions at " + server;
  const FailureReporter::Source source = &*away_.insert(server).first;
  if (why.empty()) return reporter_.recovered(source, what + " again", {server, ""});
  const std::string text = "no " + what + " until a request succeeds there: " + why;
  for (unsigned number = 0; number < count(); ++number) {
    if (server_of(number) == server) return reporter_.failed(source, text, true, {server, ""});
  }
}

// Whether there is a thread that probes. If the system refuses it, a circuit could not be closed again, so none is
// opened; the next failure tries again.
bool Router::has_prober() {
  const std::lock_guard lock(prober_mutex_);
  if (prober_.joinable()) return true;
  const auto failure = redis::attempt([&] {
    prober_interrupt_ = std::make_unique<Interrupt>();
    prober_ = start_thread("probes of partitions", [this, &raised = *prober_interrupt_] {
      const Interrupt::Scope scope(raised);
      while (const auto circuit = breaker_.wait_for_probe()) breaker_.probed(*circuit, probe(circuit->partition));
    });
  });
  return !failure;
}

// The first key exists, and the second one never does: so this is refused as the moves are while the slot migrates.
bool Router::probe(unsigned number) {
  return !redis::attempt([&] {
    Endpoint& endpoint = partition(number).connection.endpoint();
    const auto connection = endpoint.connect();
    redis::Pipeline pipeline(*connection);
    pipeline.command("EXISTS").key(endpoint.keys().settings).key(endpoint.keys().staged, "probe");
    pipeline.run();
    pipeline.reply(0);
  });
}

// ---- Markers --------------------------------------------------------------------------------------------------------

// Forwards the markers that were taken out of this partition, or leaves that to a thread which forwards already. One
// thread forwards the markers of all, so that a server which does not answer holds up few threads. The others go on
// sending, so it stops after some round trips, or it might never return. From its last one on another thread may begin,
// so that no marker is left behind. One that is lost makes its message as late as the next poll.
void Router::forward(unsigned number, std::vector<std::string> dues) {
  std::unique_lock lock(markers_mutex_);
  for (std::string& due : dues) markers_.emplace_back(number, std::move(due));
  if (is_forwarding_) return;
  for (int round = 1; !markers_.empty(); ++round) {
    const auto markers = std::exchange(markers_, {});
    is_forwarding_ = round < kMostForwards;
    lock.unlock();
    send_markers(markers);
    if (round == kMostForwards) return;
    lock.lock();
    is_forwarding_ = false;
  }
}

void Router::send_markers(const std::vector<std::pair<unsigned, std::string>>& markers) {
  const auto failure = redis::attempt([&] {
    if (!allows(0)) return;
    home_->connection.with_connection([&](redis::Connection& connection) {
      redis::Pipeline pipeline(connection);
      for (const auto& [number, due] : markers) home_->connection.moves().wake_for(pipeline, number, due);
      pipeline.run();
    });
  });
  if (failure && failure->is_connection()) server_failed(0, *failure);
}

}  // namespace delayqueue
