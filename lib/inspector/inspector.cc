#include <delayqueue/inspector.h>

#include "inspector/message_list.h"
#include "inspector/partitions.h"
#include "inspector/queue_limits.h"
#include "inspector/server_info.h"
#include "inspector/steps.h"
#include "inspector/worker_list.h"
#include "queue/event_sink.h"
#include "queue/go_events.h"
#include "queue/info_fields.h"
#include "queue/option_checks.h"
#include "queue/state.h"
#include "store/actions.h"
#include "store/headers.h"
#include "store/keys.h"
#include "store/pause.h"
#include "store/queries.h"
#include "store/record.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <utility>

namespace delayqueue {
namespace {

constexpr std::size_t kMostListed = 1000;
constexpr std::size_t kScannedQueues = 500;  // per step, approximately
constexpr std::size_t kLongestPayload = 512ULL * 1024 * 1024;
constexpr std::size_t kHeadersInStep = 100;  // messages whose headers one command reads: at most 800 KiB

Totals totals_of(const store::QueueCounts& counts) {
  const auto total = [&](const char* name) {
    const auto found = counts.stats.find(name);
    return found == counts.stats.end() ? 0 : found->second;
  };
  return {total("sent"),    total("delivered"), total("acked"),    total("nacked"), total("retried"), total("dead"),
          total("expired"), total("cancelled"), total("redriven"), total("purged"), total("skipped"), total("foreign")};
}

Counts counts_of(const store::QueueCounts& stored) {
  Counts counts;
  counts.pending = stored.pending;
  counts.ready = stored.ready;
  counts.unack = stored.unack;
  counts.retry = stored.retry;
  counts.dead = stored.dead;
  counts.garbage = stored.garbage;
  counts.due = stored.due;
  counts.overdue = stored.overdue;
  counts.oldest_due = store::from_us(stored.first_pending_us);
  counts.oldest_lease = store::from_us(stored.first_unack_us);
  counts.oldest_ready = store::from_us(stored.oldest_ready_us);
  counts.now = store::from_us(stored.now_us);
  counts.paused = stored.paused;
  if (stored.pause_left_ms) counts.paused_until = store::from_us(stored.now_us + *stored.pause_left_ms * 1000);
  counts.totals = totals_of(stored);
  counts.limits = limits_of(stored.limits);
  counts.in_flight = stored.in_flight;
  counts.next_delivery = stored.next_token;
  return counts;
}

void keep_earlier(std::optional<store::WallClock::time_point>& time,
                  const std::optional<store::WallClock::time_point>& other) {
  if (other && (!time || *other < *time)) time = other;
}

// Adds the counts of another partition.
void add(Counts& sum, const Counts& counts) {
  for (const auto count : {&Counts::pending, &Counts::ready, &Counts::unack, &Counts::retry, &Counts::dead,
                           &Counts::garbage, &Counts::due, &Counts::overdue}) {
    sum.*count += counts.*count;
  }
  for (const auto total :
       {&Totals::sent, &Totals::delivered, &Totals::acked, &Totals::nacked, &Totals::retried, &Totals::dead_lettered,
        &Totals::expired, &Totals::cancelled, &Totals::redriven, &Totals::purged, &Totals::skipped, &Totals::foreign}) {
    sum.totals.*total += counts.totals.*total;
  }
  keep_earlier(sum.oldest_due, counts.oldest_due);
  keep_earlier(sum.oldest_lease, counts.oldest_lease);
  keep_earlier(sum.oldest_ready, counts.oldest_ready);
  sum.now = std::max(sum.now, counts.now);
  if (counts.paused) {
    const bool ends = counts.paused_until && (!sum.paused || sum.paused_until);
    sum.paused_until = ends ? std::max(sum.paused_until, counts.paused_until) : std::nullopt;
  }
  sum.paused = sum.paused || counts.paused;
  if (!sum.limits.rate) sum.limits.rate = counts.limits.rate;
  if (!sum.limits.running) sum.limits.running = counts.limits.running;
  if (!sum.limits.length) sum.limits.length = counts.limits.length;
  sum.in_flight += counts.in_flight;
  sum.next_delivery = std::min(sum.next_delivery, counts.next_delivery);
  sum.partitions += counts.partitions;
}

// Whether nothing of the queue is stored that counts() reads.
bool is_blank(const Counts& counts) {
  const Totals& totals = counts.totals;
  return counts.pending + counts.ready + counts.unack + counts.retry + counts.dead + counts.garbage == 0 &&
         totals.sent + totals.delivered + totals.acked == 0 && !counts.paused;
}

redis::Answer<store::QueueCounts> ask_counts(redis::Pipeline& pipeline, const store::Moves& moves) {
  return store::counts(pipeline, moves.keys());
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  }
}

// The answers to the requests for the pause of a partition.
class PauseReading {
 public:
  PauseReading(redis::Pipeline& pipeline, const store::Moves& moves)
      : pipeline_(&pipeline),
        answer_(store::read_pause(pipeline, moves.keys())),
        pauser_(store::read_pauser(pipeline, moves.keys())),
        key_(moves.keys().paused) {
    pipeline.command("TIME");
    time_ = pipeline.size() - 1;
  }

  std::optional<Pause> get() const {
    const store::PauseState stored = answer_.get();
    if (!stored.paused) return std::nullopt;
    Pause pause;
    pause.reason =
        stored.wrong_type ? "unknown: " + key_ + " is no string; another program uses this key" : stored.reason;
    const auto now = delayqueue::time_of(pipeline_->reply(time_));
    if (stored.left) pause.until = store::from_us((now + *stored.left).count());
    // A generation is at least the time at which it was set; it is later only if the clock was set back.
    if (!stored.is_local() && stored.generation <= now.count()) pause.since = store::from_us(stored.generation);
    if (!stored.is_local() && pauser_.get().generation == stored.generation) pause.who = pauser_.get().who;
    return pause;
  }

 private:
  const redis::Pipeline* pipeline_;
  redis::Answer<store::PauseState> answer_;
  redis::Answer<store::Pauser> pauser_;
  std::string key_;
  std::size_t time_ = 0;
};

}  // namespace

class Inspector::Impl {
 public:
  Impl(const Client& client, const std::string& queue, const InspectorOptions& options)
      : partitions_(client, queue, options, LostCopies::leave) {}

  Partitions& partitions() { return partitions_; }
  SharedConnection& home() { return partitions_.home(); }

  // Adds size, TTL, headers and the first `bytes` of the payload to each message that has a body.
  void add_bodies(std::vector<MessageInfo>& messages, std::size_t bytes);

  std::optional<Event> next_event(redis::Deadline deadline);

  // Whether the queue is in the set of known queues, with a hash tag or without. True if the set cannot be read.
  bool is_listed();

 private:
  redis::Connection& channel();

  Partitions partitions_;
  std::mutex channel_mutex_;  // guards channel_
  std::unique_ptr<redis::Connection> channel_;
};

namespace {

// The requests for the headers and the unique keys of these messages.
class HeadersReading {
 public:
  HeadersReading(redis::Pipeline& pipeline, const store::Moves& moves, const std::vector<MessageInfo*>& messages)
      : pipeline_(&pipeline), messages_(&messages), at_(pipeline.size()) {
    for (std::size_t from = 0; from < messages.size(); from += kHeadersInStep) {
      std::vector<std::string> ids;
      for (std::size_t i = from; i < std::min(from + kHeadersInStep, messages.size()); ++i) {
        ids.push_back(messages[i]->id);
      }
      answers_.push_back(moves.headers(pipeline, ids));
      keys_.push_back(moves.unique_keys(pipeline, ids));
    }
  }

  // A key of another type has none.
  void read() const {
    for (std::size_t step = 0; step < answers_.size(); ++step) {
      read(at_ + 2 * step, answers_[step], step * kHeadersInStep, set_headers);
      read(at_ + 2 * step + 1, keys_[step], step * kHeadersInStep, set_key);
    }
  }

 private:
  using Answer = redis::Answer<std::vector<std::optional<std::string>>>;

  template <class Set>
  void read(std::size_t request, const Answer& answer, std::size_t first, Set set) const {
    if (is_wrong_type(*pipeline_, request)) return;
    const auto stored = answer.get();
    for (std::size_t i = 0; i < std::min(stored.size(), messages_->size() - first); ++i) {
      if (stored[i]) set(*(*messages_)[first + i], *stored[i]);
    }
  }
  static void set_headers(MessageInfo& message, const std::string& packed) {
    auto headers = store::unpacked(packed);
    message.headers_damaged = !headers;
    message.headers = std::move(headers).value_or(Headers());
  }
  // Another program may have written megabytes.
  static void set_key(MessageInfo& message, const std::string& key) {
    if (key.size() <= store::kLongestKey) message.key = key;
  }

  const redis::Pipeline* pipeline_;
  const std::vector<MessageInfo*>* messages_;
  std::size_t at_;
  std::vector<Answer> answers_{}, keys_{};
};

// The answers to the requests for the bodies of these messages, from request `at` on.
void read_bodies(const redis::Pipeline& pipeline, std::size_t at, const std::vector<MessageInfo*>& messages,
                 std::size_t bytes) {
  for (MessageInfo* const message : messages) {
    const std::size_t first = std::exchange(at, at + 3);
    const std::int64_t ttl = pipeline.reply(first).integer();  // -2: no body, -1: no TTL
    if (ttl == -2) continue;
    if (ttl >= 0) message->ttl = milliseconds(std::min<std::int64_t>(ttl, kLongest.count()));
    if (is_wrong_type(pipeline, first + 1)) continue;  // cannot be delivered, so it counts as missing
    message->size = static_cast<std::uint64_t>(std::max(0LL, pipeline.reply(first + 1).integer()));
    if (bytes > 0) message->payload = std::string(pipeline.reply(first + 2).text());
  }
}

}  // namespace

// One command reads one body, so none blocks the server for long. The headers are read first: they are deleted with the
// body, so a message whose body is read afterwards still had them.
void Inspector::Impl::add_bodies(std::vector<MessageInfo>& messages, std::size_t bytes) {
  const std::int64_t begin = bytes == 0 ? 1 : 0;  // the range 1 to 0 is empty
  const std::int64_t last = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::min(bytes, kLongestPayload)) - 1);
  std::map<unsigned, std::vector<MessageInfo*>> by_partition;
  for (MessageInfo& message : messages) by_partition[message.partition].push_back(&message);
  std::vector<unsigned> all;
  all.reserve(by_partition.size());
  for (const auto& one : by_partition) all.push_back(one.first);
  std::exception_ptr error;
  const auto add = [&](redis::Pipeline& pipeline, unsigned partition) -> Partitions::Read {
    const std::vector<MessageInfo*>& some = by_partition[partition];
    const HeadersReading headers(pipeline, partitions_.of(partition).moves(), some);
    const std::size_t at = pipeline.size();
    for (const MessageInfo* const message : some) {
      const std::string key = partitions_.of(partition).moves().keys().bodies + message->id;
      pipeline.command("PTTL").key(key);
      pipeline.command("STRLEN").key(key);
      pipeline.command("GETRANGE").key(key).arg(begin).arg(last);
    }
    return [&pipeline, headers, at, &some, bytes](const std::string&) {
      headers.read();
      read_bodies(pipeline, at, some, bytes);
    };
  };
  partitions_.exchange(all, add, [&](unsigned, const std::exception_ptr& why) {
    if (error == nullptr) error = why;
  });
  if (error != nullptr) std::rethrow_exception(error);
}

bool Inspector::Impl::is_listed() {
  const std::string name = home().endpoint().prefix() + ':' + home().endpoint().queue();
  try {
    return home().with_connection([&](redis::Connection& connection) {
      redis::Pipeline pipeline(connection);
      for (const std::string& member : {name, '{' + name + '}'}) {
        pipeline.command("SISMEMBER").key(home().moves().keys().queues).arg(member);
      }
      pipeline.run();
      return pipeline.reply(0).integer() + pipeline.reply(1).integer() > 0;
    });
  } catch (const ReplyError&) {  // this user may not read the set, or another program uses its key
    return true;
  }
}

redis::Connection& Inspector::Impl::channel() {
  if (channel_ != nullptr) return *channel_;
  auto connection = home().endpoint().connect();
  std::string subscribe;
  redis::append_command(subscribe, {"SUBSCRIBE", home().moves().keys().channel});
  connection->write(subscribe);
  const redis::ReplyPtr answer = connection->read();
  redis::throw_if_error(redis::Reply(answer.get()), connection->where());
  channel_ = std::move(connection);
  return *channel_;
}

std::optional<Event> Inspector::Impl::next_event(redis::Deadline deadline) {
  const std::lock_guard lock(channel_mutex_);
  try {
    while (const redis::ReplyPtr reply = channel().read_until(deadline)) {
      const redis::Reply push(reply.get());
      if (push.size() < 3 || push[0].text() != "message") continue;
      if (auto event = decode_event(push[2].text())) return event;
    }
  } catch (const Error&) {
    channel_.reset();
    throw;
  }
  return std::nullopt;
}

Inspector::Inspector(const Client& client, const QueueName& queue, const InspectorOptions& options)
    : impl_("Inspector", std::make_unique<Impl>(client, queue.str(), options)) {}
Inspector::~Inspector() = default;
Inspector::Inspector(Inspector&&) noexcept = default;
Inspector& Inspector::operator=(Inspector&&) noexcept = default;

Counts Inspector::counts() {
  const auto answers = impl_->partitions().ask_all(ask_counts);
  Counts sum = counts_of(answers.front().get());
  for (std::size_t i = 1; i < answers.size(); ++i) add(sum, counts_of(answers[i].get()));
  if (is_blank(sum)) sum.known = impl_->is_listed();
  return sum;
}

namespace {

PartitionInfo describe(Partitions& partitions, const PartitionAnswer<store::QueueCounts>& answer) {
  PartitionInfo one;
  one.partition = answer.partition;
  one.sent_to = answer.partition < partitions.layout().partitions();
  one.slot = partitions.of(answer.partition).endpoint().slot();
  one.server = answer.server;
  if (answer.error != nullptr) {
    one.error = text_of(answer.error);
  } else {
    one.counts = counts_of(answer.get());
  }
  return one;
}

}  // namespace

std::vector<PartitionInfo> Inspector::partitions() {
  const auto answers = impl_->partitions().ask_all(ask_counts);
  const store::Layout layout = impl_->partitions().layout().known();
  try {
    if (answers.front().partition == 0 && layout == store::Layout()) static_cast<void>(answers.front().get());
  } catch (const ReplyError&) {  // the server has answered, so that the number is known
  }
  std::vector<PartitionInfo> all;
  all.reserve(answers.size());
  for (const auto& answer : answers) all.push_back(describe(impl_->partitions(), answer));
  return all;
}

std::vector<PartitionInfo> Inspector::find_lost_partitions() {
  Partitions& partitions = impl_->partitions();
  const Partitions::Lost lost = partitions.find_lost();
  std::vector<unsigned> all = lost.uncopied;
  for (unsigned partition = lost.named.top; partition < lost.whole.top; ++partition) all.push_back(partition);
  std::sort(all.begin(), all.end());
  std::map<unsigned, PartitionAnswer<store::QueueCounts>> answers;
  for (const unsigned partition : all) answers[partition].partition = partition;
  const auto add = [&](redis::Pipeline& pipeline, unsigned partition) -> Partitions::Read {
    const auto asked = ask_counts(pipeline, partitions.of(partition).moves());
    return [&answer = answers[partition], asked](const std::string& server) {
      answer.value = asked.get();
      answer.server = server;
    };
  };
  const auto fail = [&](unsigned partition, const std::exception_ptr& error) { answers[partition].error = error; };
  partitions.exchange(std::move(all), add, fail);
  std::vector<PartitionInfo> found;
  for (const auto& one : answers) {
    PartitionInfo info = describe(partitions, one.second);
    const Counts& counts = info.counts;
    const bool empty = counts.pending + counts.ready + counts.unack + counts.retry + counts.dead == 0;
    if (!empty || !info.error.empty()) found.push_back(std::move(info));
  }
  return found;
}

MessagePage Inspector::list(State state) { return list(state, {}); }

MessagePage Inspector::list(State state, const ListOptions& options) {
  key_of(impl_->home().moves().keys(), state);  // throws for a state without a key
  if (options.limit < 1 || options.limit > kMostListed) {
    throw std::invalid_argument("limit: " + std::to_string(options.limit) + "; expected 1 to 1000");
  }
  MessageList list(impl_->partitions(), state, options.limit, options.newest);
  MessagePage page = options.cursor.empty() ? list.first(options.merge) : list.at(options.cursor);
  if (options.bodies) impl_->add_bodies(page.messages, options.payload);
  return page;
}

std::optional<MessageInfo> Inspector::find(const MessageRef& message) {
  if (!message.key()) return std::move(find_all(message, kLongestPayload).front());
  const std::string& key = message.key()->str();
  check_key("key", key);
  SharedConnection& home = impl_->home();
  const std::string id = home.ask([&](redis::Pipeline& pipeline) { return home.moves().last_with_key(pipeline, key); });
  if (id.empty()) return std::nullopt;
  std::optional<MessageInfo> found = find(id);
  const bool has_key = found && found->key == key && found->state != State::dead;
  return has_key ? std::move(found) : std::nullopt;
}

std::vector<std::optional<MessageInfo>> Inspector::find_all(const MessageRefs& wanted, std::size_t payload) {
  const std::vector<std::string> all = ids_of(wanted);
  const std::vector<unsigned> where = impl_->partitions().of_ids(all);
  std::vector<store::Found> places =
      impl_->partitions().by_partition(where, all, [](SharedConnection& connection, const auto& some) {
        return in_steps(connection, some, 1, [&](redis::Pipeline& pipeline, const auto& one) {
          return store::find(pipeline, connection.moves().keys(), one.front());
        });
      });
  std::vector<MessageInfo> messages;
  std::vector<std::size_t> at;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const State state = state_of(places[i].state);
    if (state == State::unknown) continue;
    places[i].entry.id = all[i];
    messages.push_back(info_of(std::move(places[i].entry), state, where[i]));
    at.push_back(i);
  }
  impl_->add_bodies(messages, payload);
  std::vector<std::optional<MessageInfo>> found(all.size());
  for (std::size_t i = 0; i < at.size(); ++i) found[at[i]] = std::move(messages[i]);
  return found;
}

std::vector<MessageInfo> Inspector::find_everywhere(const MessageRef& message) {
  const std::string stored = id_of(message);
  const auto answers = impl_->partitions().ask_all([&](redis::Pipeline& pipeline, const store::Moves& moves) {
    return store::find(pipeline, moves.keys(), stored);
  });
  std::vector<MessageInfo> messages;
  for (const auto& answer : answers) {
    store::Found found = answer.get();
    const State state = state_of(found.state);
    if (state == State::unknown) continue;
    found.entry.id = stored;
    messages.push_back(info_of(std::move(found.entry), state, answer.partition));
  }
  impl_->add_bodies(messages, kLongestPayload);
  return messages;
}

std::optional<Pause> Inspector::paused() {
  const auto answers = impl_->partitions().ask_all(
      [](redis::Pipeline& pipeline, const store::Moves& moves) { return PauseReading(pipeline, moves); });
  for (const auto& answer : answers) {
    if (answer.get()) return answer.get();
  }
  return std::nullopt;
}

QueueLimits Inspector::limits() {
  impl_->partitions().check_only();
  return limits_of(
      impl_->home()
          .ask([&](redis::Pipeline& pipeline) { return store::read_limits(pipeline, impl_->home().moves().keys()); })
          .limits);
}

std::vector<Action> Inspector::actions() {
  const store::Keys& keys = impl_->home().moves().keys();
  std::vector<Action> actions;
  for (store::ActionEntry& entry :
       impl_->home().ask([&](redis::Pipeline& pipeline) { return store::read_actions(pipeline, keys); })) {
    actions.push_back({store::from_us(entry.at_us), std::move(entry.who), entry.messages, std::move(entry.outcome),
                       std::move(entry.what)});
  }
  return actions;
}

Layout Inspector::layout() {
  LayoutKeeper& keeper = impl_->partitions().layout();
  keeper.read(LostCopies::leave);
  return {keeper.known().partitions, keeper.known().top};
}

std::optional<MessageInfo> Inspector::find_unpartitioned() {
  Partitions& partitions = impl_->partitions();
  partitions.layout().read(LostCopies::leave);
  const store::Layout layout = partitions.layout().known();
  if (layout.generation == 0 || layout.top == 1) return std::nullopt;
  const Endpoint& home = partitions.home().endpoint();
  const std::uint16_t name_crc = store::name_crc(home.queue(), home.prefix());
  const auto set_at = store::from_us(layout.generation);
  for (const State state : {State::pending, State::ready, State::unack, State::retry, State::dead}) {
    MessageList list(partitions, state, MessageList::kStep);
    std::optional<std::string> after = "";
    for (std::size_t read = 0; after && read < kMostListed; read += list.kStep) {
      store::Page page = list.read(0, *after, list.kStep);
      after = list.place_after(page, *after, list.kStep);
      for (store::Entry& entry : page.entries) {
        MessageInfo message = info_of(std::move(entry), state, 0);
        if (message.sent && *message.sent > set_at && !store::partition_of(message.id, name_crc)) return message;
      }
    }
  }
  return std::nullopt;
}

std::vector<Worker> Inspector::workers() { return read_workers(impl_->home()); }

std::optional<Event> Inspector::next_event(milliseconds wait) {
  return impl_->next_event(redis::Clock::now() + std::clamp(wait, milliseconds(0), kLongest));
}

ServerInfo Inspector::server() {
  Partitions& partitions = impl_->partitions();
  partitions.check_only();
  return partitions.of(partitions.only().value_or(0)).with_connection(read_server_info);
}

// Reads the set in steps, since it may be of any size.
std::vector<std::string> Inspector::queues() {
  const std::string& prefix = impl_->home().endpoint().prefix();
  const store::Keys& keys = impl_->home().moves().keys();
  const bool tagged = keys.base.rfind('{' + prefix + ':', 0) == 0;
  std::set<std::string> names;  // SSCAN may return a member twice
  std::string cursor = "0";
  do {
    impl_->home().with_connection([&](redis::Connection& connection) {
      redis::Pipeline pipeline(connection);
      pipeline.command("SSCAN").key(keys.queues).arg(cursor).arg("COUNT").arg(kScannedQueues);
      pipeline.run();
      const redis::Reply reply = pipeline.reply(0);
      for (std::size_t i = 0; i < reply[1].size(); ++i) {
        std::string name = store::queue_of(reply[1][i].text(), prefix);
        // An Inspector for such a name would be refused, so no queue has it.
        const bool invalid =
            name.empty() || store::is_partition_name(name) || (tagged && name.find_first_of("{}") != std::string::npos);
        if (!invalid) names.insert(std::move(name));
      }
      cursor = reply[0].text();
    });
  } while (cursor != "0");
  return {names.begin(), names.end()};
}

}  // namespace delayqueue
