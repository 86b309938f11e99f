#include "chaos/mix.h"

namespace chaos {
namespace {

constexpr std::array<std::pair<Kind, const char*>, 11> kNames{{{Kind::ok, "ok"},
                                                               {Kind::few, "few"},
                                                               {Kind::slow, "slow"},
                                                               {Kind::hang, "hang"},
                                                               {Kind::nack_once, "nack_once"},
                                                               {Kind::throw_once, "throw_once"},
                                                               {Kind::crash_once, "crash_once"},
                                                               {Kind::snooze, "snooze"},
                                                               {Kind::nack, "nack"},
                                                               {Kind::reject, "reject"},
                                                               {Kind::poison, "poison"}}};

// Weights of the kinds in 2,000 messages.
constexpr std::array<std::pair<Kind, int>, 10> kShares{{{Kind::few, 100},
                                                        {Kind::slow, 40},
                                                        {Kind::hang, 4},
                                                        {Kind::nack_once, 60},
                                                        {Kind::throw_once, 40},
                                                        {Kind::crash_once, 2},
                                                        {Kind::snooze, 40},
                                                        {Kind::nack, 60},
                                                        {Kind::reject, 30},
                                                        {Kind::poison, 1}}};

Kind draw_kind(Random& random) {
  std::int64_t ticket = between(random, 0, 1999);
  for (const auto& [kind, share] : kShares) {
    if (ticket < share) return kind;
    ticket -= share;
  }
  return Kind::ok;
}

}  // namespace

const char* to_string(Kind kind) {
  for (const auto& [one, name] : kNames) {
    if (one == kind) return name;
  }
  return "?";
}

bool ends_acked(Kind kind) { return kind != Kind::few && !ends_dead(kind); }

bool ends_dead(Kind kind) { return kind == Kind::nack || kind == Kind::reject || kind == Kind::poison; }

std::string payload_of(const Task& task) {
  const std::string words = task.token + ' ' + to_string(task.kind) + ' ' + std::to_string(task.number);
  return task.token.back() < '8' ? words + ' ' + std::string(10'000, 'x') : words;
}

Task task_of(const std::string& payload) {
  std::istringstream words(payload);
  Task task;
  std::string name;
  words >> task.token >> name >> task.number;
  for (const auto& [kind, known] : kNames) {
    if (name != known) continue;
    task.kind = kind;
    return task;
  }
  throw std::runtime_error("payload of an unknown format: " + payload.substr(0, 100));
}

delayqueue::Headers headers_of(const std::string& token, bool used) {
  if (!used) return {};
  if (token.at(0) >= '8') return {};
  delayqueue::Headers headers{{"token", token}, {"Token", std::string("\0\r\n= \xff", 6)}, {"empty", ""}};
  if (token.at(1) < '2') headers.set("long", std::string(300, token[2]));  // a length of two bytes
  return headers;
}

std::int64_t between(Random& random, std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(random);
}

bool one_in(Random& random, std::int64_t many) { return between(random, 1, many) == 1; }

std::string new_token(Random& random) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string token = "xxxxxxxx-xxxx-4xxx-axxx-xxxxxxxxxxxx";
  for (char& c : token) {
    if (c == 'x') c = kDigits[between(random, 0, 15)];
  }
  return token;
}

Order draw(Random& random, std::int64_t now_ms, std::int64_t lease_ms, bool crashes) {
  Order order;
  order.task = {new_token(random), draw_kind(random), 0};
  Kind& kind = order.task.kind;
  if (!crashes && (kind == Kind::crash_once || kind == Kind::poison || kind == Kind::hang)) kind = Kind::ok;
  if (kind == Kind::slow) order.task.number = between(random, lease_ms / 5, 5 * lease_ms / 2);
  if (kind == Kind::snooze) order.task.number = now_ms + between(random, 0, 3000);
  if (kind == Kind::nack) order.task.number = between(random, 0, 100);
  order.retries = kPlenty;
  if (kind == Kind::few || ends_dead(kind)) order.retries = static_cast<int>(between(random, 0, 2));
  if (one_in(random, 2)) order.delay_ms = between(random, 1, 5000);
  order.absolute = one_in(random, 10);
  if (one_in(random, 20)) order.ttl_ms = 3'600'000;
  order.own_id = !one_in(random, 3);
  if (one_in(random, 5)) order.key = std::to_string(between(random, 1, 30));
  if (one_in(random, 15)) order.cancel_after_ms = between(random, 0, 5000);
  if (one_in(random, 15)) {
    order.reschedule_after_ms = between(random, 0, 4000);
    order.reschedule_by_ms = between(random, 0, 3000);
  }
  return order;
}

}  // namespace chaos
