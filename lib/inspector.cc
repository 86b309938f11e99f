#include <delayqueue/inspector.h>

#include "channel.h"
#include "check.h"
#include "checkup.h"
#include "report.h"
#include "risks.h"
#include "session.h"
#include "state.h"
#include "store/views.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace delayqueue {
namespace {

using store::Keys;

constexpr std::size_t kMostListed = 1000;

bool is_list(State state) { return state == State::ready || state == State::retry; }

const std::string& key_of(const Keys& keys, State state) {
  switch (state) {
    case State::pending:
      return keys.pending;
    case State::ready:
      return keys.ready;
    case State::unack:
      return keys.unack;
    case State::retry:
      return keys.retry;
    case State::dead:
      return keys.dead;
    case State::unknown:
      break;
  }
  throw std::invalid_argument("state: unknown; expected pending, ready, unack, retry or dead");
}

Totals totals_of(const store::QueueCounts& counts) {
  const auto total = [&](const char* name) {
    const auto found = counts.stats.find(name);
    return found == counts.stats.end() ? 0 : found->second;
  };
  return {total("sent"), total("delivered"), total("acked"),     total("nacked"),   total("retried"),
          total("dead"), total("expired"),   total("cancelled"), total("redriven"), total("purged")};
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
  // What is noted of a held or finished delivery starts with the second; the first leaves no note.
  info.deliveries = entry.deliveries != 0 ? entry.deliveries : (state == State::unack || state == State::dead ? 1 : 0);
  info.retries = entry.retries;
  info.reason = std::move(entry.reason);
  return info;
}

std::size_t position_of(const std::string& cursor) {
  std::size_t position = 0;
  const auto [end, error] = std::from_chars(cursor.data(), cursor.data() + cursor.size(), position);
  if (cursor.empty() || (error == std::errc() && end == cursor.data() + cursor.size())) return position;
  throw std::invalid_argument("cursor: \"" + cursor + "\"; expected the `next` of the page before");
}

}  // namespace

class Inspector::Impl {
 public:
  Impl(const std::string& url, const std::string& queue, const InspectorOptions& options)
      : session_(url, queue, options.connection, options.queue) {}

  const Keys& keys() const { return session_.store().keys(); }
  const store::Store& store() const { return session_.store(); }
  Session& session() { return session_; }

  void add_bodies(std::vector<MessageInfo>& messages, std::size_t bytes);
  void collect(const std::vector<std::string>& garbage);
  std::optional<Event> next_event(redis::Deadline deadline);

 private:
  redis::Connection& channel();

  Session session_;
  std::mutex channel_mutex_;  // guards channel_
  std::unique_ptr<redis::Connection> channel_;
};

// Sizes and first bytes, each command no longer than its own body.
void Inspector::Impl::add_bodies(std::vector<MessageInfo>& messages, std::size_t bytes) {
  session_.with_connection([&](redis::Connection& connection) {
    redis::Pipeline pipeline(connection);
    for (const MessageInfo& message : messages) {
      const std::string key = keys().bodies + message.id;
      pipeline.command("EXISTS").key(key);
      pipeline.command("STRLEN").key(key);
      pipeline.command("GETRANGE").key(key).arg("0").arg(static_cast<std::int64_t>(bytes) - 1);
    }
    pipeline.run();
    for (std::size_t i = 0; i < messages.size(); ++i) {
      if (pipeline.reply(3 * i).integer() == 0) continue;
      messages[i].size = static_cast<std::uint64_t>(pipeline.reply(3 * i + 1).integer());
      if (bytes > 0) messages[i].payload = std::string(pipeline.reply(3 * i + 2).text());
    }
  });
}

void Inspector::Impl::collect(const std::vector<std::string>& garbage) {
  if (garbage.empty()) return;
  session_.ask([&](redis::Pipeline& pipeline) { return store().gc(pipeline, garbage); });
}

redis::Connection& Inspector::Impl::channel() {
  if (channel_ != nullptr) return *channel_;
  auto connection = session_.endpoint().connect();
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
    : impl_(std::make_unique<Impl>(url, queue, options)) {}
Inspector::~Inspector() = default;
Inspector::Inspector(Inspector&&) noexcept = default;
Inspector& Inspector::operator=(Inspector&&) noexcept = default;

Counts Inspector::counts() {
  const store::QueueCounts seen =
      impl_->session().ask([&](redis::Pipeline& pipeline) { return store::counts(pipeline, impl_->keys()); });
  Counts counts;
  counts.pending = seen.pending;
  counts.ready = seen.ready;
  counts.unack = seen.unack;
  counts.retry = seen.retry;
  counts.dead = seen.dead;
  counts.garbage = seen.garbage;
  counts.due = seen.due;
  counts.overdue = seen.overdue;
  counts.oldest_due = time_of(seen.first_pending_us);
  counts.oldest_lease = time_of(seen.first_unack_us);
  counts.now = store::from_us(seen.now_us);
  counts.paused = seen.paused;
  counts.totals = totals_of(seen);
  return counts;
}

MessagePage Inspector::list(State state, const ListOptions& options) {
  const std::string& key = key_of(impl_->keys(), state);
  if (options.limit < 1 || options.limit > kMostListed) {
    throw std::invalid_argument("limit: " + std::to_string(options.limit) + "; expected 1 to 1000");
  }
  std::size_t position = position_of(options.cursor);
  MessagePage page;
  bool more = true;
  while (more && page.messages.size() < options.limit) {
    const std::size_t most = std::min(options.limit - page.messages.size(), store::kBatch);
    store::Page part = impl_->session().ask([&](redis::Pipeline& pipeline) {
      return is_list(state) ? store::page_of_list(pipeline, impl_->keys(), key, position, most)
                            : store::page_of_zset(pipeline, impl_->keys(), key, position, most);
    });
    for (store::Entry& entry : part.entries) page.messages.push_back(info_of(std::move(entry), state));
    position += part.passed;
    more = part.passed == most;
  }
  impl_->add_bodies(page.messages, options.payload);
  if (more) page.next = std::to_string(position);
  return page;
}

std::optional<MessageInfo> Inspector::find(std::string_view id) {
  const std::string canonical = id_of("id", id);
  store::Found found =
      impl_->session().ask([&](redis::Pipeline& pipeline) { return store::find(pipeline, impl_->keys(), canonical); });
  const State state = state_of(found.state);
  if (state == State::unknown) return std::nullopt;
  found.entry.id = canonical;
  std::vector<MessageInfo> messages = {info_of(std::move(found.entry), state)};
  impl_->add_bodies(messages, 512ULL * 1024 * 1024);
  return std::move(messages.front());
}

Redriven Inspector::redrive(std::string_view id, const RedriveOptions& options) {
  const std::vector<std::string> ids = {id_of("id", id)};
  if (options.retries < 0) {
    throw std::invalid_argument("retries: " + std::to_string(options.retries) + "; expected 0 or more");
  }
  const store::Outcomes outcome = impl_->session().ask([&](redis::Pipeline& pipeline) {
    const auto answer = impl_->store().redrive(pipeline, ids, options.retries);
    impl_->store().wake(pipeline);
    return answer;
  });
  if (outcome == "S") return Redriven::redriven;
  return outcome == "B" ? Redriven::no_body : Redriven::unknown;
}

std::uint64_t Inspector::purge(State state, const PurgeOptions& options) {
  if (state == State::unack || state == State::unknown) {
    throw std::invalid_argument(std::string("state: ") + to_string(state) + "; expected pending, ready, retry or dead");
  }
  check_at_least("older_than", options.older_than, milliseconds(0));
  if (is_list(state) && options.older_than.count() != 0) {
    throw std::invalid_argument("older_than: not known of messages in ready and retry; expected 0");
  }
  const std::string& key = key_of(impl_->keys(), state);
  const Counts before = counts();
  const std::uint64_t there = state == State::pending ? before.pending
                              : state == State::dead  ? before.dead
                              : state == State::ready ? before.ready
                                                      : before.retry;
  std::uint64_t left = options.limit == 0 ? there : std::min(options.limit, there);
  std::uint64_t purged = 0;
  while (left > 0) {
    const std::size_t most = std::min<std::uint64_t>(left, store::kBatch);
    const store::Purged step = impl_->session().ask([&](redis::Pipeline& pipeline) {
      const auto age = options.older_than.count() == 0 ? std::nullopt : std::optional(options.older_than);
      return is_list(state) ? impl_->store().purge_list(pipeline, key, most)
                            : impl_->store().purge_zset(pipeline, key, most, age, 0);
    });
    impl_->collect(step.garbage);
    purged += step.purged;
    left -= std::min<std::uint64_t>(left, step.passed);
    if (step.passed < most) break;
  }
  return purged;
}

Released Inspector::release(std::string_view id, bool force) {
  const std::vector<std::string> ids = {id_of("id", id)};
  const store::Outcomes outcome = impl_->session().ask([&](redis::Pipeline& pipeline) {
    const auto answer = impl_->store().release_waiting(pipeline, ids, force);
    impl_->store().wake(pipeline);
    return answer;
  });
  if (outcome == "S") return Released::released;
  return outcome == "H" ? Released::held : Released::unknown;
}

void Inspector::pause(milliseconds for_, const std::string& why) {
  check_at_least("for", for_, milliseconds(0));
  impl_->session().with_connection([&](redis::Connection& connection) {
    redis::Pipeline pipeline(connection);
    pipeline.command("SET").key(impl_->keys().paused).arg(why);
    if (for_.count() > 0) pipeline.arg("PX").arg(for_.count());
    pipeline.run();
    pipeline.reply(0);
  });
}

void Inspector::resume() {
  impl_->session().with_connection([&](redis::Connection& connection) {
    redis::Pipeline pipeline(connection);
    pipeline.command("DEL").key(impl_->keys().paused);
    impl_->store().wake(pipeline);
    pipeline.run();
    pipeline.reply(0);
  });
}

CheckReport Inspector::check(const CheckOptions& options) {
  check_at_least("settle", options.settle, milliseconds(0));
  if (options.retries < 0) {
    throw std::invalid_argument("retries: " + std::to_string(options.retries) + "; expected 0 or more");
  }
  return Checkup(impl_->session(), options).run();
}

std::optional<Event> Inspector::next_event(milliseconds wait) {
  return impl_->next_event(redis::Clock::now() + std::min(wait, kLongest));
}

std::vector<Risk> Inspector::risks() {
  return impl_->session().with_connection([](redis::Connection& connection) {
    std::vector<Risk> risks = find_risks(connection);
    for (Risk& risk : compare_clocks(connection)) risks.push_back(std::move(risk));
    return risks;
  });
}

std::vector<std::string> Inspector::queues() {
  std::vector<std::string> names = impl_->session().with_connection([&](redis::Connection& connection) {
    redis::Pipeline pipeline(connection);
    pipeline.command("SMEMBERS").key(impl_->keys().queues);
    pipeline.run();
    const redis::Reply reply = pipeline.reply(0);
    std::vector<std::string> found;
    for (std::size_t i = 0; i < reply.size(); ++i) {
      found.push_back(store::queue_of(reply[i].text(), impl_->session().endpoint().prefix()));
    }
    return found;
  });
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace delayqueue
