#include <delayqueue/client.h>

#include "queue/option_checks.h"
#include "queue/utf8.h"
#include "redis/escaped.h"
#include "store/headers.h"
#include "store/keys.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <type_traits>

namespace delayqueue {
namespace {

using std::chrono::system_clock;

constexpr std::size_t kRedisStringLimit = 512ULL * 1024 * 1024;
constexpr std::chrono::microseconds kLongestBusyWait{1000};
constexpr std::size_t kLongestName = 255;  // of a queue, in bytes
constexpr std::size_t kMostKeyBytes = 128;

[[noreturn]] void wrong(const std::string& field, const std::string& value, const std::string& wanted) {
  throw std::invalid_argument(field + ": " + redis::escaped(value) + "; expected " + wanted);
}

std::string text(milliseconds value) { return std::to_string(value.count()) + " ms"; }

template <class Number>
void check_number(const char* field, Number value, std::common_type_t<Number> least, std::common_type_t<Number> most) {
  if (value >= least && value <= most) return;
  wrong(field, std::to_string(value), std::to_string(least) + " to " + std::to_string(most));
}

void check_durability(const Durability& durability) {
  if (durability.kind() == Durability::Kind::none) return;
  const bool by_replicas = durability.kind() == Durability::Kind::replicas;
  if (by_replicas) check_number("durability.replicas", durability.replica_count(), 1, 1000);
  check_at_least("durability.timeout", durability.timeout(), milliseconds(1));
}

void check_name(const char* field, const std::string& value, bool hash_tag) {
  if (value.empty()) wrong(field, "empty", "a name");
  if (hash_tag && value.find_first_of("{}") != std::string::npos) {
    wrong(field, '"' + value + '"', "no braces inside a hash tag");
  }
}

void check_new_name(const char* field, const std::string& name) {
  const std::string shown = '"' + name.substr(0, 64) + '"';
  if (name.size() > kLongestName) {
    wrong(field, shown + " of " + std::to_string(name.size()) + " bytes",
          "a name of at most " + std::to_string(kLongestName) + " bytes");
  }
  for (std::string_view rest = name; !rest.empty();) {
    const Character next = first_character(rest);
    const std::string at = "; its byte " + std::to_string(name.size() - rest.size() + 1) + " is ";
    if (next.length == 0) wrong(field, shown, "a name in UTF-8" + at + "no part of a character");
    if (is_control(next.code)) wrong(field, shown, "a name without control characters" + at + "one");
    rest.remove_prefix(next.length);
  }
}

}  // namespace

std::string QueueName::checked(const char* name) {
  if (name == nullptr) throw std::invalid_argument("queue: null; expected a name");
  return checked(std::string_view(name));
}

std::string QueueName::checked(std::string_view name) {
  std::string queue(name);
  check_queue(queue, false);
  check_new_name("queue", queue);
  return queue;
}

Durability Durability::replicas(int count, milliseconds timeout) { return {Kind::replicas, count, timeout}; }

Durability Durability::disk(milliseconds timeout) { return {Kind::disk, 0, timeout}; }

void check_at_least(const char* field, milliseconds value, milliseconds least) {
  if (value < least) wrong(field, text(value), "at least " + text(least));
  if (value > kLongest) wrong(field, text(value), "at most a hundred years");
}

void check_queue(const std::string& queue, bool hash_tag) {
  check_name("queue", queue, hash_tag);
  if (store::is_partition_name(queue)) {
    wrong("queue", '"' + queue + '"', "a name that does not end in #<number>.<number>, as those of partitions do");
  }
}

void validate(const KeyOptions& keys, bool hash_tag) { check_name("keys.prefix", keys.prefix, hash_tag); }

void validate(const ClientOptions& options) {
  if (options.credentials && !(options.user + options.password).empty()) {
    throw std::invalid_argument("credentials: set, but so is user or password; expected only one of them");
  }
  check_at_least("connect_timeout", options.connect_timeout, milliseconds(1));
  check_at_least("command_timeout", options.command_timeout, milliseconds(1));
  for (const char c : options.client_name) {
    if (c <= ' ' || c > '~') wrong("client_name", '"' + options.client_name + '"', "no spaces");
  }
}

void check_new_queue(const std::string& queue, const std::string& prefix) {
  check_new_name("queue", queue);
  check_new_name("keys.prefix", prefix);
}

void validate(const ProducerOptions& options) {
  check_number("retries", options.retries, 0, std::numeric_limits<int>::max());
  check_number("max_payload", options.max_payload, 0, kRedisStringLimit);
  if (options.tuning.busy_wait < std::chrono::microseconds(0) || options.tuning.busy_wait > kLongestBusyWait) {
    wrong("tuning.busy_wait", std::to_string(options.tuning.busy_wait.count()) + " us", "0 to 1000 us");
  }
  check_durability(options.durability);
  check_at_least("send_timeout", options.send_timeout, milliseconds(0));
  if (options.send_timeout.count() > 0 && options.durability.timeout() > options.send_timeout) {
    wrong("durability.timeout", text(options.durability.timeout()),
          "at most send_timeout, which is " + text(options.send_timeout));
  }
}

void validate(const ConsumerOptions& options, bool settles_later) {
  check_number("concurrency", options.concurrency, 1, settles_later ? 1'000'000 : kMostThreads);
  check_number("tuning.threads", options.tuning.threads, 0, kMostThreads);
  if (!settles_later && options.tuning.threads != 0) {
    wrong("tuning.threads", std::to_string(options.tuning.threads),
          "none: each handler that returns a Verdict has its own thread");
  }
  check_at_least("lease", options.lease, milliseconds(10));
  check_at_least("tuning.poll_interval", options.tuning.poll_interval, milliseconds(1));
  check_at_least("processing_timeout", options.processing_timeout, milliseconds(1));
  check_at_least("dead_retention", options.dead_retention, milliseconds(0));
  check_at_least("tuning.reconnect_grace", options.tuning.reconnect_grace, milliseconds(0));
  check_number("dead_limit", options.dead_limit, 0, std::numeric_limits<std::int64_t>::max());
  check_number("tuning.prefetch", options.tuning.prefetch, 0, 1'000'000);
  check_durability(options.durability);
  if (options.durability.timeout() >
      options.lease / 3) {  // the consumer may wait this long between two renewals of a lease
    wrong("durability.timeout", text(options.durability.timeout()),
          "at most a third of the lease of " + text(options.lease));
  }
}

store::Due due_of(milliseconds delay, const std::optional<system_clock::time_point>& at) {
  check_at_least("delay", delay, milliseconds(0));
  if (!at) return {delay, 0};
  if (delay.count() != 0) wrong("delay", text(delay), "none when `at` is set");
  const auto ms = std::chrono::ceil<milliseconds>(at->time_since_epoch());
  check_time("at", ms);
  return {std::nullopt, ms.count()};
}

void check_time(const char* field, milliseconds since_1970) {
  if (since_1970.count() >= 0 && since_1970.count() <= store::kLatestUs / 1000) return;
  wrong(field, text(since_1970) + " after 1970", "a time from 1970 to the end of 2199");
}

std::string packed_headers(const Headers& headers) {
  store::check_not_reserved(headers);
  return store::packed(headers);
}

void check_payload(std::string_view payload, const ProducerOptions& producer) {
  if (payload.size() <= producer.max_payload) return;
  throw std::invalid_argument("payload: " + std::to_string(payload.size()) +
                              " bytes; at most max_payload = " + std::to_string(producer.max_payload) + " are allowed");
}

store::SendTerms terms_of(const SendOptions& options, const ProducerOptions& producer) {
  store::SendTerms terms;
  terms.due = due_of(options.delay, options.at);
  terms.retries = options.retries.value_or(producer.retries);
  if (terms.retries < 0)
    throw std::invalid_argument("retries: " + std::to_string(terms.retries) + "; expected 0 or more");
  if (options.ttl) check_at_least("ttl", *options.ttl, milliseconds(1));
  terms.ttl = options.ttl.value_or(milliseconds(0));
  terms.new_ids = options.id.empty();
  terms.unique = key_terms_of(options.unique);
  return terms;
}

void check_key(const char* field, std::string_view key) {
  if (!key.empty() && key.size() <= kMostKeyBytes) return;
  wrong(field, key.empty() ? "empty" : std::to_string(key.size()) + " bytes", "1 to 128 bytes");
}

std::optional<store::KeyTerms> key_terms_of(const UniqueOptions& unique) {
  const bool keeps = unique.on_conflict == OnConflict::keep;
  const bool postpones = unique.on_conflict == OnConflict::postpone;
  const std::string conflict = keeps ? "keep" : postpones ? "postpone" : "replace";
  check_at_least("unique.window", unique.window, milliseconds(0));
  if (unique.max_wait) check_at_least("unique.max_wait", *unique.max_wait, milliseconds(1));
  if (unique.window.count() > 0 && !keeps) {
    wrong("unique.window", text(unique.window), "none with on_conflict = " + conflict + ", only with keep");
  }
  if (unique.max_wait && !postpones) {
    wrong("unique.max_wait", text(*unique.max_wait), "none with on_conflict = " + conflict + ", only with postpone");
  }
  if (unique.key.empty()) {
    if (unique.window.count() == 0 && keeps && unique.while_in_flight) return std::nullopt;
    wrong("unique.key", "empty", "1 to 128 bytes when another member of unique is set");
  }
  check_key("unique.key", unique.key);
  store::KeyTerms terms;
  terms.conflict = keeps ? store::Conflict::keep : postpones ? store::Conflict::postpone : store::Conflict::replace;
  terms.while_in_flight = keeps && unique.while_in_flight;
  terms.window = unique.window;
  terms.max_wait = unique.max_wait;
  return terms;
}

std::string id_of(const char* field, std::string_view id) {
  const auto canonical = store::canonical_id(id);
  if (!canonical) {
    wrong(field, '"' + std::string(id.substr(0, 64)) + '"', "a UUID like 0197f3a4-5b6c-7d8e-9f01-23456789abcd");
  }
  return *canonical;
}

std::string id_of(const SendOptions& options) { return options.id.empty() ? "" : id_of("id", options.id); }

std::string id_of(const MessageRef& message) {
  if (message.key()) wrong("id", "the key \"" + message.key()->str().substr(0, 64) + '"', "a UUID");
  return id_of("id", message.id());
}

std::vector<std::string> ids_of(const MessageRefs& messages) {
  std::vector<std::string> canonical;
  canonical.reserve(messages.size());
  for (const MessageRef& message : messages) canonical.push_back(id_of(message));
  return canonical;
}

}  // namespace delayqueue
