#include <delayqueue/inspector.h>

#include "inspector/server_info.h"
#include "inspector/steps.h"
#include "queue/event_sink.h"
#include "queue/go_events.h"
#include "queue/info_fields.h"
#include "queue/option_checks.h"
#include "queue/shared_connection.h"
#include "queue/state.h"
#include "redis/escaped.h"
#include "store/keys.h"
#include "store/queries.h"

#include <algorithm>
#include <charconv>
#include <mutex>
#include <set>
#include <stdexcept>

namespace delayqueue {
namespace {

constexpr std::size_t kMostListed = 1000;
constexpr std::size_t kScannedQueues = 500;  // per step, approximately
constexpr std::size_t kLongestPayload = 512ULL * 1024 * 1024;

Totals totals_of(const store::QueueCounts& counts) {
  const auto total = [&](const char* name) {
    const auto found = counts.stats.find(name);
    return found == counts.stats.end() ? 0 : found->second;
  };
  return {total("sent"),    total("delivered"), total("acked"),    total("nacked"), total("retried"), total("dead"),
          total("expired"), total("cancelled"), total("redriven"), total("purged"), total("foreign")};
}

std::optional<store::WallClock::time_point> time_of(const std::optional<std::int64_t>& us) {
  return us ? std::optional(store::from_us(*us)) : std::nullopt;
}

MessageInfo info_of(store::Entry entry, State state) {
  MessageInfo info;
  info.id = std::move(entry.id);
  info.state = state;
  info.at = time_of(entry.score_us);
  info.sent = store::time_of_id(info.id);
  info.held = state == State::unack && entry.score_us && store::is_lease(*entry.score_us);
  // attempts has no entry for a first delivery: a message in unack or dead without an entry was delivered once.
  const bool once = entry.deliveries == 0 && !entry.undelivered && (state == State::unack || state == State::dead);
  info.deliveries = once ? 1 : entry.deliveries;
  info.retries = entry.retries;
  info.reason = std::move(entry.reason);
  return info;
}

// A cursor is a letter for its state and a position in it, in hex.
char letter_of(State state) { return "?prutd"[static_cast<std::size_t>(state)]; }

std::string cursor_of(State state, std::size_t position) {
  char digits[16];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), position, 16).ptr;
  return letter_of(state) + std::string(std::begin(digits), end);
}

[[noreturn]] void refuse_cursor(const std::string& cursor) {
  throw std::invalid_argument("cursor: \"" + redis::escaped(cursor) +
                              "\"; expected `next` of a page of the same state");
}

std::size_t position_of(const std::string& cursor) {
  std::size_t position = 0;
  const auto [end, error] = std::from_chars(cursor.data() + 1, cursor.data() + cursor.size(), position, 16);
  if (error != std::errc() || end != cursor.data() + cursor.size()) refuse_cursor(cursor);
  return position;
}

std::size_t position_of(const std::string& cursor, State state) {
  if (cursor.empty()) return 0;
  if (cursor[0] != letter_of(state)) refuse_cursor(cursor);
  return position_of(cursor);
}

}  // namespace

class Inspector::Impl {
 public:
  Impl(const std::string& url, const std::string& queue, const InspectorOptions& options)
      : shared_connection_(url, queue, options.connection, options.queue, {}, RegisterQueue::if_exists) {}

  const store::Keys& keys() const { return shared_connection_.store().keys(); }
  SharedConnection& shared_connection() { return shared_connection_; }

  // Adds size, TTL and the first `bytes` of the payload to each message that has a body.
  void add_bodies(std::vector<MessageInfo>& messages, std::size_t bytes);

  std::optional<Event> next_event(redis::Deadline deadline);

 private:
  redis::Connection& channel();

  SharedConnection shared_connection_;
  std::mutex channel_mutex_;  // guards channel_
  std::unique_ptr<redis::Connection> channel_;
};

// One command reads one body, so none blocks the server for long.
void Inspector::Impl::add_bodies(std::vector<MessageInfo>& messages, std::size_t bytes) {
  const std::int64_t first = bytes == 0 ? 1 : 0;  // the range 1 to 0 is empty
  const std::int64_t last = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::min(bytes, kLongestPayload)) - 1);
  shared_connection_.with_connection([&](redis::Connection& connection) {
    redis::Pipeline pipeline(connection);
    for (const MessageInfo& message : messages) {
      const std::string key = keys().bodies + message.id;
      pipeline.command("PTTL").key(key);
      pipeline.command("STRLEN").key(key);
      pipeline.command("GETRANGE").key(key).arg(first).arg(last);
    }
    pipeline.run();
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const std::int64_t ttl = pipeline.reply(3 * i).integer();  // -2: no body, -1: no TTL
      if (ttl == -2) continue;
      if (ttl >= 0) messages[i].ttl = milliseconds(std::min<std::int64_t>(ttl, kLongest.count()));
      if (is_wrong_type(pipeline, 3 * i + 1)) continue;  // cannot be delivered, so it counts as missing
      messages[i].size = static_cast<std::uint64_t>(std::max(0LL, pipeline.reply(3 * i + 1).integer()));
      if (bytes > 0) messages[i].payload = std::string(pipeline.reply(3 * i + 2).text());
    }
  });
}

redis::Connection& Inspector::Impl::channel() {
  if (channel_ != nullptr) return *channel_;
  auto connection = shared_connection_.endpoint().connect();
  std::string subscribe;
  redis::append_command(subscribe, {"SUBSCRIBE", keys().channel});
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

Inspector::Inspector(const std::string& url, const std::string& queue, const InspectorOptions& options)
    : impl_("Inspector", std::make_unique<Impl>(url, queue, options)) {}
Inspector::~Inspector() = default;
Inspector::Inspector(Inspector&&) noexcept = default;
Inspector& Inspector::operator=(Inspector&&) noexcept = default;

Counts Inspector::counts() {
  const store::QueueCounts stored =
      impl_->shared_connection().ask([&](redis::Pipeline& pipeline) { return store::counts(pipeline, impl_->keys()); });
  Counts counts;
  counts.pending = stored.pending;
  counts.ready = stored.ready;
  counts.unack = stored.unack;
  counts.retry = stored.retry;
  counts.dead = stored.dead;
  counts.garbage = stored.garbage;
  counts.due = stored.due;
  counts.overdue = stored.overdue;
  counts.oldest_due = time_of(stored.first_pending_us);
  counts.oldest_lease = time_of(stored.first_unack_us);
  counts.now = store::from_us(stored.now_us);
  counts.paused = stored.paused;
  counts.totals = totals_of(stored);
  return counts;
}

MessagePage Inspector::list(State state) { return list(state, {}); }

MessagePage Inspector::list(State state, const ListOptions& options) {
  const std::string& key = key_of(impl_->keys(), state);
  if (options.limit < 1 || options.limit > kMostListed) {
    throw std::invalid_argument("limit: " + std::to_string(options.limit) + "; expected 1 to 1000");
  }
  std::size_t position = position_of(options.cursor, state);
  MessagePage page;
  bool more = true;
  while (more && page.messages.size() < options.limit) {
    const std::size_t most = std::min(options.limit - page.messages.size(), store::kBatch);
    store::Page part = impl_->shared_connection().ask([&](redis::Pipeline& pipeline) {
      return is_list(state) ? store::page_of_list(pipeline, impl_->keys(), key, position, most)
                            : store::page_of_zset(pipeline, impl_->keys(), key, position, most);
    });
    for (store::Entry& entry : part.entries) page.messages.push_back(info_of(std::move(entry), state));
    position += part.ids_read;
    more = part.ids_read == most;
  }
  impl_->add_bodies(page.messages, options.payload);
  if (more) page.next = cursor_of(state, position);
  return page;
}

std::string MessagePage::next_after(std::uint64_t freed) const {
  if (next.empty()) return next;
  const std::size_t position = position_of(next);
  return next.front() + cursor_of(State::unknown, position - std::min<std::uint64_t>(position, freed)).substr(1);
}

std::optional<MessageInfo> Inspector::find(std::string_view id) {
  return std::move(find(std::vector<std::string>{std::string(id)}, kLongestPayload).front());
}

std::vector<std::optional<MessageInfo>> Inspector::find(const std::vector<std::string>& ids, std::size_t payload) {
  const std::vector<std::string> all = ids_of(ids);
  std::vector<store::Found> places = in_steps(
      impl_->shared_connection(), all, 1,
      [&](redis::Pipeline& pipeline, const auto& one) { return store::find(pipeline, impl_->keys(), one.front()); });
  std::vector<MessageInfo> messages;
  std::vector<std::size_t> at;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const State state = state_of(places[i].state);
    if (state == State::unknown) continue;
    places[i].entry.id = all[i];
    messages.push_back(info_of(std::move(places[i].entry), state));
    at.push_back(i);
  }
  impl_->add_bodies(messages, payload);
  std::vector<std::optional<MessageInfo>> found(all.size());
  for (std::size_t i = 0; i < at.size(); ++i) found[at[i]] = std::move(messages[i]);
  return found;
}

std::optional<Pause> Inspector::paused() {
  return impl_->shared_connection().with_connection([&](redis::Connection& connection) -> std::optional<Pause> {
    redis::Pipeline pipeline(connection);
    pipeline.command("GETRANGE").key(impl_->keys().paused).arg("0").arg("-1");
    pipeline.command("PTTL").key(impl_->keys().paused);
    pipeline.command("TIME");
    pipeline.run();
    const std::int64_t left = pipeline.reply(1).integer();
    if (left == -2) return std::nullopt;
    const bool wrong_type = is_wrong_type(pipeline, 0);
    Pause pause{wrong_type ? "unknown: " + impl_->keys().paused + " is no string; another program uses this key"
                           : std::string(pipeline.reply(0).text()),
                {}};
    const redis::Reply time = pipeline.reply(2);
    if (left >= 0) pause.until = store::from_us((time_of(time) + std::min(milliseconds(left), kLongest)).count());
    return pause;
  });
}

Layout Inspector::layout() {
  LayoutKeeper keeper = layout_of(impl_->shared_connection());
  keeper.read(LostCopies::leave);
  return {keeper.known().partitions, keeper.known().top};
}

std::optional<Event> Inspector::next_event(milliseconds wait) {
  return impl_->next_event(redis::Clock::now() + std::min(wait, kLongest));
}

ServerInfo Inspector::server() { return impl_->shared_connection().with_connection(read_server_info); }

// Reads the set in steps, since it may be of any size.
std::vector<std::string> Inspector::queues() {
  const std::string& prefix = impl_->shared_connection().endpoint().prefix();
  const bool tagged = impl_->keys().base.rfind('{' + prefix + ':', 0) == 0;
  std::set<std::string> names;  // SSCAN may return a member twice
  std::string cursor = "0";
  do {
    impl_->shared_connection().with_connection([&](redis::Connection& connection) {
      redis::Pipeline pipeline(connection);
      pipeline.command("SSCAN").key(impl_->keys().queues).arg(cursor).arg("COUNT").arg(kScannedQueues);
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
