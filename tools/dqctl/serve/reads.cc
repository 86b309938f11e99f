#include "serve/reads.h"

#include <delayqueue/error.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "filter.h"
#include "lines.h"
#include "partition_object.h"
#include "signals.h"

namespace dqctl {
namespace {

using delayqueue::Inspector;
using delayqueue::MessageInfo;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLongestFind{3};
constexpr std::size_t kMostListed = 200;       // messages of a page
constexpr std::uint64_t kMostExamined = 1000;  // messages that a page with a filter reads
constexpr std::size_t kListedPayload = 64;     // bytes
constexpr std::size_t kMostListedPayload = 4096;
constexpr std::size_t kMostBytesOfPayload = 64 * 1024;
constexpr std::size_t kLongestCursor = 4096;  // it may have a place in each of 256 partitions
constexpr std::size_t kLongestPattern = 1024, kLongestText = 256;

}  // namespace

void check_id(const std::string& id) {
  if (is_id(id)) return;
  throw HttpError(400, "id: " + cut(in_quotes(id), 60) + "; expected a UUID");
}

std::shared_ptr<const Readings> Reads::reachable() const {
  auto readings = poller_.fresh();
  if (!readings->failing_since) return readings;
  throw HttpError(503, "cannot read Redis since " + utc_text(*readings->failing_since) + ": " + readings->error);
}

std::shared_ptr<Inspector> Reads::existing(const std::string& queue) const {
  const auto readings = reachable();
  auto inspector = clients_.inspector(queue);
  if (readings->find(queue) != nullptr) return inspector;
  const std::vector<std::string> names = inspector->queues();  // it may be new, or beyond those that are polled
  if (std::binary_search(names.begin(), names.end(), queue)) return inspector;
  throw HttpError(404, "there is no queue " + cut(in_quotes(queue), 60));
}

std::size_t Reads::payload_bytes(const Query& query, std::size_t most, std::size_t otherwise) const {
  const std::size_t bytes = query.number("payload", 0, most, payloads_ ? otherwise : 0);
  if (bytes > 0 && !payloads_) {
    throw HttpError(403, "payloads are hidden here; start dqctl serve with --payloads, or use dqctl show");
  }
  return bytes;
}

Object Reads::shown(const MessageInfo& message, const char* payload_name) const {
  return payloads_ ? message_object(message, payload_name) : message_fields(message);
}

Object Reads::messages(const std::string& queue, const Query& query) const {
  const auto state_name = query.text("state", kLongestText);
  if (!state_name) throw HttpError(400, "state: missing; expected pending, ready, unack, retry or dead");
  const delayqueue::State state = parse_state("state", *state_name);
  const std::size_t limit = query.number("limit", 1, kMostListed, 20);
  const std::size_t payload = payload_bytes(query, kMostListedPayload, kListedPayload);
  Filter filter;
  filter.reason = query.text("reason", kLongestPattern);
  const auto inspector = existing(queue);
  // The time of Redis is for --older-than, which this filter does not have.
  Walk walk(*inspector, state, filter, {}, payload, filter.any() ? kMostListed : limit,
            query.text("cursor", kLongestCursor).value_or(""));
  walk.stop_after(kMostExamined);
  std::vector<Object> objects;
  while (objects.size() < limit) {
    const std::optional<MessageInfo> message = walk.next();
    if (!message) break;
    objects.push_back(shown(*message, "payload_start"));
  }
  const std::string next = walk.cursor();
  Object object;
  object.add("queue", queue).add("state", delayqueue::to_string(state)).add("messages", objects);
  next.empty() ? object.add_null("next") : object.add("next", next);
  return object.add("examined", walk.examined());
}

Object Reads::message(const std::string& queue, const std::string& id, const Query& query) const {
  check_id(id);
  const std::size_t payload = payload_bytes(query, kMostBytesOfPayload, kMostBytesOfPayload);
  const auto inspector = existing(queue);
  const Time now = inspector->counts().now;
  const auto found = inspector->find_all(id, payload).front();
  if (!found) throw HttpError(404, "there is no message " + id + " in " + cut(in_quotes(queue), 60));
  return Object().add("queue", queue).add("message", shown(*found, "payload")).add("now", now);
}

Object Reads::partitions(const std::string& queue) const {
  const std::vector<delayqueue::PartitionInfo> all = existing(queue)->partitions();
  std::vector<Object> objects;
  std::size_t used = 0;
  for (const delayqueue::PartitionInfo& one : all) {
    objects.push_back(partition_object(one));
    if (one.sent_to) ++used;
  }
  return Object().add("queue", queue).add("count", used).add("top", all.size()).add("partitions", objects);
}

Object Reads::find(const Query& query) const {
  const auto text = query.text("text", kLongestText);
  if (!text || text->empty()) throw HttpError(400, "text: missing; expected a UUID, or a part of the name of a queue");
  const auto readings = reachable();
  std::vector<std::string> names;
  std::vector<Object> messages;
  bool complete = readings->left_out == 0;
  const auto until = Clock::now() + kLongestFind;
  for (const auto& reading : readings->queues) {
    if (reading->queue.find(*text) != std::string::npos) names.push_back(reading->queue);
    if (!is_id(*text)) continue;
    if (!reading->error.empty() || interrupted() || Clock::now() >= until) {
      complete = false;
      continue;
    }
    try {
      const auto found = clients_.inspector(reading->queue)->find_all(*text, kListedPayload).front();
      if (found) messages.push_back(Object().add("queue", reading->queue).append(shown(*found, "payload_start")));
    } catch (const delayqueue::Error&) {
      complete = false;
    }
  }
  return Object().add("text", *text).add("queues", names).add("messages", messages).add("complete", complete);
}

}  // namespace dqctl
