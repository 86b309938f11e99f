#include "filter.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "parse.h"
#include "signals.h"

namespace dqctl {

using delayqueue::MessageInfo;
using delayqueue::State;

std::optional<milliseconds> age_of(const MessageInfo& message, Time now) {
  const std::optional<Time> since = message.at ? message.at : message.sent;
  if (!since) return std::nullopt;
  return span_between(*since, now);
}

std::string when_text(const MessageInfo& message, Time now) {
  const std::optional<Time> when = message.at ? message.at : message.sent;
  if (!when) return "?";
  const bool may_lie_ahead = message.state == State::pending || message.state == State::unack;
  return may_lie_ahead ? ago_text(*when, now) : since_text(*when, now);
}

bool Filter::passes(const MessageInfo& message, Time now) const {
  if (older_than) {
    const auto age = age_of(message, now);
    if (!age || *age < *older_than) return false;
  }
  if (reason && !matches_glob(*reason, message.reason)) return false;
  if (!match) return true;
  return message.size && matches_glob(*match, std::string_view(message.payload).substr(0, kMatchedBytes));
}

std::string Filter::advice() const {
  for (const auto& [name, pattern] : {std::pair("--reason", &reason), std::pair("--match", &match)}) {
    if (!*pattern || (*pattern)->find_first_of("*?") != std::string::npos) continue;
    return std::string(name) + " " + in_quotes(**pattern) +
           " matches only exactly this text; to find it anywhere: " + name + " " + in_quotes("*" + **pattern + "*");
  }
  return "";
}

bool Filter::ends(const MessageInfo& message, Time now) const {
  return older_than && message.at && span_between(*message.at, now) < *older_than;
}

void add_filter(Command& command, Filter& filter) {
  command
      .duration("--older-than", filter.older_than,
                "Only messages that were due at least this long ago (dead: became dead letters; "
                "unack: lease or backoff ended; ready, retry: sent)")
      .text("--match", filter.match, "GLOB",
            "Only messages whose whole payload matches (* any bytes, ? one); compares its first 64 KiB")
      .text("--reason", filter.reason, "GLOB", "Only messages whose last failure has a matching reason");
}

Walk::Walk(delayqueue::Inspector& inspector, State state, Filter filter, Time now, std::size_t payload,
           std::size_t page, std::string cursor)
    : inspector_(inspector),
      state_(state),
      filter_(std::move(filter)),
      now_(now),
      shown_payload_(payload),
      following_(std::move(cursor)) {
  options_.payload = filter_.match ? std::max(payload, Filter::kMatchedBytes) : payload;
  options_.merge = !filter_.any();  // a filter may end the walk through a partition early
  // Limits a page to a few megabytes.
  const std::size_t most = options_.payload <= 1024 ? 1000 : std::max<std::size_t>(1, (4U << 20) / options_.payload);
  options_.limit = std::max<std::size_t>(1, std::min(page, most));
}

bool Walk::fetch() {
  if (last_ || interrupted() || examined_ >= most_examined_) return false;
  begin_ = following_;
  options_.cursor = begin_;
  delayqueue::MessagePage page = inspector_.list(state_, options_);
  taken_ = 0;
  following_ = page.next;
  partition_ = page.next_partition;
  last_ = page.next.empty();
  page_.assign(std::make_move_iterator(page.messages.begin()), std::make_move_iterator(page.messages.end()));
  return true;
}

std::optional<MessageInfo> Walk::next() {
  while (true) {
    while (page_.empty()) {
      if (!fetch()) return std::nullopt;
    }
    MessageInfo message = std::move(page_.front());
    page_.pop_front();
    ++taken_;
    ++examined_;
    if (filter_.ends(message, now_)) {
      page_.clear();
      following_ = partition_;
      last_ = following_.empty();
      continue;
    }
    if (!filter_.passes(message, now_)) continue;
    if (message.payload.size() > shown_payload_) message.payload.resize(shown_payload_);
    return message;
  }
}

std::string Walk::cursor() {
  if (page_.empty()) return following_;
  delayqueue::ListOptions again;
  again.cursor = begin_;
  again.limit = taken_;
  again.payload = 0;
  again.merge = options_.merge;
  return inspector_.list(state_, again).next;
}

std::string whole_characters(std::string bytes) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, bytes.size()); ++back) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if (byte < 0x80) break;
    if (byte < 0xC0) continue;
    const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    if (length > back) bytes.resize(bytes.size() - back);
    break;
  }
  return bytes;
}

std::string payload_text(const MessageInfo& message, std::size_t most) {
  if (!message.size) return "missing";
  const std::size_t shown = std::min(message.payload.size(), most);
  if (shown >= *message.size) return printable(message.payload);
  return printable(whole_characters(message.payload.substr(0, shown))) + "…";
}

std::optional<MessageInfo> first_message(delayqueue::Inspector& inspector, State state, std::uint64_t count) {
  if (count == 0) return std::nullopt;
  delayqueue::ListOptions one;
  one.limit = 1;
  one.payload = 0;
  delayqueue::MessagePage page = inspector.list(state, one);
  if (page.empty()) return std::nullopt;
  return std::move(page.messages.front());
}

const char* time_name(const MessageInfo& message) {
  if (message.state == State::pending) return "due";
  if (message.state == State::dead) return "dead since";
  return message.held ? "lease ends" : "backoff ends";
}

std::string headers_json(const delayqueue::Headers& headers) {
  std::string list;
  for (const auto& [name, value] : headers) {
    list += list.empty() ? "" : ",";
    list += Object().add("name", name).add("value", value).text();
  }
  return '[' + list + ']';
}

Object message_fields(const MessageInfo& message) {
  Object object;
  object.add("id", message.id).add("state", delayqueue::to_string(message.state)).add("at", message.at);
  object.add("sent", message.sent).add("held", message.held).add("deliveries", message.deliveries);
  object.add("retries", message.retries).add("reason", message.reason).add("size", message.size);
  object.add("ttl_ms", message.ttl ? std::optional(message.ttl->count()) : std::nullopt);
  if (message.partition > 0) object.add("partition", message.partition);
  return object;
}

Object message_object(const MessageInfo& message, const char* payload_name) {
  Object object = message_fields(message);
  if (!message.headers.empty()) object.add_json("headers", headers_json(message.headers));
  if (message.headers_damaged) object.add("headers_damaged", true);
  if (!message.key.empty()) object.add("key", message.key);
  if (!message.size) return object;
  const bool is_whole = message.payload.size() >= *message.size;
  object.add(payload_name, is_whole ? message.payload : whole_characters(message.payload));
  return object;
}

}  // namespace dqctl
