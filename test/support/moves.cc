#include "support/moves.h"

#include "redis/socket.h"
#include "store/scripts.h"

#include <doctest/doctest.h>

namespace test {
namespace {

using namespace std::chrono_literals;
using delayqueue::ClientOptions;
using delayqueue::redis::Address;
using delayqueue::redis::Connection;
using delayqueue::redis::Deadline;
using delayqueue::redis::open_transport;
using delayqueue::redis::Patience;
using delayqueue::redis::Transport;
using delayqueue::store::make_keys;
using delayqueue::store::Receipt;

constexpr std::int64_t kMinute = 60'000'000;

std::string digits(std::int64_t number) { return std::to_string(number); }

std::string to_score(std::int64_t us) {
  char text[40];
  std::snprintf(text, sizeof text, "%lld.%06lld", static_cast<long long>(us / 1'000'000),
                static_cast<long long>(us % 1'000'000));
  return text;
}

std::int64_t to_us(const std::string& score) { return std::llround(std::strtod(score.c_str(), nullptr) * 1e6); }

// A transport that sends the scripts of moves changed, so that Redis refuses one of their writes.
class BreakingTransport : public Transport {
 public:
  BreakingTransport(std::unique_ptr<Transport> link, std::shared_ptr<const int> write, const std::string& socket)
      : link_(std::move(link)), write_(std::move(write)) {
    for (const std::string& name : Redis(socket).cmd({"ACL", "CAT", "write"}).strings()) writes_ += name + " ";
  }

  void write(const std::vector<std::string_view>& pieces, Patience& patience) override {
    if (*write_ < 0) return link_->write(pieces, patience);
    std::string bytes;
    for (const auto piece : pieces) bytes += piece;
    for (const auto* script : delayqueue::store::scripts::all()) {
      const std::string call = "$7\r\nEVALSHA\r\n$40\r\n" + std::string(script->sha1) + "\r\n";
      const std::size_t at = bytes.find(call);
      if (at == std::string::npos) continue;
      const std::string body = refusal() + std::string(script->body);
      bytes.replace(at, call.size(), "$4\r\nEVAL\r\n$" + std::to_string(body.size()) + "\r\n" + body + "\r\n");
    }
    link_->write({std::string_view(bytes)}, patience);
  }

  std::size_t read(char* to, std::size_t size, Patience& patience) override { return link_->read(to, size, patience); }
  int fd() const override { return link_->fd(); }
  bool readable(Deadline deadline) override { return link_->readable(deadline); }

 private:
  std::string refusal() const {
    return "local allowed, refused, server, writes = " + std::to_string(*write_) + ", nil, redis, {}\n" +
           "for name in string.gmatch('" + writes_ + R"lua(', '%S+') do writes[string.upper(name)] = true end
      local function refuses(name)
        if not writes[name] then return false end
        allowed = allowed - 1
        if allowed == -1 then refused = name end
        return name == refused
      end
      local redis = {error_reply = server.error_reply}
      function redis.call(name, ...)
        if refuses(name) then error('NOPERM ' .. name .. ' is refused') end
        return server.call(name, ...)
      end
      function redis.pcall(name, ...)
        if refuses(name) then return {err = 'NOPERM ' .. name .. ' is refused'} end
        return server.pcall(name, ...)
      end
      )lua";
  }

  const std::unique_ptr<Transport> link_;
  const std::shared_ptr<const int> write_;
  std::string writes_;  // names of the commands that write, each with a space behind it
};

std::unique_ptr<Connection> connect(const Scene::Setup& setup, const std::shared_ptr<int>& broken_write) {
  Address address;
  address.path = setup.socket;
  ClientOptions options;
  options.connect_timeout = options.command_timeout = 60s;  // a busy machine may stop for long
  if (!setup.breakable) return std::make_unique<Connection>(address, setup.login, options);
  const Deadline deadline = std::chrono::steady_clock::now() + 60s;
  auto link =
      std::make_unique<BreakingTransport>(open_transport(address, nullptr, deadline), broken_write, setup.socket);
  return std::make_unique<Connection>(std::move(link), address, setup.login, options, nullptr, deadline);
}

bool has_leases(const std::string& key) { return key == "unack" || key == "running"; }
bool is_zset(const std::string& key) { return key == "pending" || key == "dead" || has_leases(key); }

// Returns a and b of "[a, b]" or "{a, b}".
std::vector<std::string> parts(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t from = 1; from + 1 < text.size();) {
    const std::size_t to = std::min(text.find(", ", from), text.size() - 1);
    out.push_back(text.substr(from, to - from));
    from = to + 2;
  }
  return out;
}

// Returns "{a: 1, b: 2}" or "{a, b}" as a map; the values of the latter are empty.
std::map<std::string, std::string> members(const std::string& text) {
  std::map<std::string, std::string> out;
  for (const auto& one : parts(text)) {
    const std::size_t colon = std::min(one.find(": "), one.size());
    out[one.substr(0, colon)] = colon == one.size() ? "" : one.substr(colon + 2);
  }
  return out;
}

std::string value_of(const Snapshot& state, const std::string& key) {
  const auto found = state.find(key);
  return found == state.end() ? "" : found->second;
}

}  // namespace

std::string to_string(At at) {
  static constexpr const char* kNames[] = {"pending",     "ready",     "retry", "held",    "held by Go",
                                           "backing off", "cancelled", "dead",  "garbage", "nowhere"};
  return kNames[static_cast<int>(at)];
}

std::vector<At> all_but(const std::vector<At>& some) {
  std::vector<At> others;
  for (int i = 0; i <= static_cast<int>(At::nowhere); ++i) {
    const At at = static_cast<At>(i);
    if (std::find(some.begin(), some.end(), at) == some.end()) others.push_back(at);
  }
  return others;
}

Scene::Setup Scene::Setup::without_lists() {
  Setup setup;
  setup.lists = false;
  return setup;
}

Scene::Scene(Setup setup)
    : moves_(make_keys(fresh_queue(), {}), setup.moves),
      client_(setup.socket),
      connection_(connect(setup, broken_write_)),
      recorded_(setup.recorded) {
  start_us_ = now_us();
  for (const At at : all_but({At::nowhere})) {
    if (!setup.lists && (at == At::ready || at == At::retry)) continue;
    for (const char* which : {"1", "2"}) put(at, "." + std::string(1, "prthgbcdx"[static_cast<int>(at)]) + which);
  }
  cmd({"HSET", keys().stats, "sent", "100", "delivered", "100", "acked", "100"});
}

Scene::~Scene() {
  try {
    for (const auto& [key, value] : snapshot(keys().base, client_)) cmd({"UNLINK", keys().base + ":" + key});
  } catch (const std::exception&) {  // the test stopped the server
  }
}

Scene& Scene::put(At at, const std::string& name, const Put& what) {
  const std::string one = id(name);
  const std::int64_t us = time_of(at, what);
  const bool counted = at != At::cancelled && at != At::dead && at != At::garbage;
  if (at == At::nowhere) return *this;
  if (counted || at == At::dead) alive_[name] = at;

  cmd({"SET", keys().bodies + one, what.payload});
  if (what.ttl > 0ms) cmd({"PEXPIRE", keys().bodies + one, digits(what.ttl.count())});
  if (counted) cmd({"HSET", keys().count, one, what.retries});
  if (!what.reason.empty()) cmd({"HSET", keys().reason, one, what.reason});
  if (!what.headers.empty()) cmd({"HSET", keys().headers, one, what.headers});
  std::string attempts = what.attempts;
  if (attempts.empty() && at == At::retry) attempts = "1 " + digits(us);
  if (attempts.empty() && at == At::dead) attempts = "4 " + digits(us);
  if (!attempts.empty()) cmd({"HSET", keys().attempts, one, attempts});

  if (at == At::pending) cmd({"ZADD", keys().pending, to_score(us), one});
  if (at == At::dead) cmd({"ZADD", keys().dead, to_score(us), one});
  if (at == At::ready) cmd({"LPUSH", keys().ready, one});
  if (at == At::retry) cmd({"LPUSH", keys().retry, one});
  if (at == At::garbage) cmd({"SADD", keys().garbage, one});
  if (at == At::held || at == At::held_by_go || at == At::backing_off || at == At::cancelled) {
    cmd({"ZADD", keys().unack, to_score(us), one});
  }
  return *this;
}

// Distinct times, of the kind that the scripts recognize as a lease, a Go worker's lease, or a backoff.
std::int64_t Scene::time_of(At at, const Put& what) {
  const std::int64_t us = start_us_ + what.time.count() * 1000;
  spread_us_ += 1000;
  const std::int64_t whole_ms = us / 1'000'000 * 1'000'000 + spread_us_ % 900'000;
  switch (at) {
    case At::held_by_go:
      return us / 1'000'000 * 1'000'000;
    case At::backing_off:
      return whole_ms % 1'000'000 == 0 ? whole_ms + 1000 : whole_ms;
    case At::pending:
      return whole_ms;
    default:
      return whole_ms + 457;
  }
}

Scene& Scene::put_many(At at, const std::string& first_letter, int count, const Put& what) {
  for (int i = 0; i < count; ++i) put(at, first_letter + digits(1000 + i).substr(1), what);
  return *this;
}

std::string Scene::id(const std::string& name) {
  std::string hex;
  for (const char c : name) {
    char two[4];
    std::snprintf(two, sizeof two, "%02x", static_cast<unsigned char>(c));
    hex += two;
  }
  hex.resize(12, '0');
  std::string one = "00000000-0000-7000-8000-" + hex;
  names_[one] = name;
  return one;
}

std::string_view Scene::keep(const std::string& name) { return names_.find(id(name))->first; }

std::vector<std::string> Scene::ids(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const auto& name : names) out.push_back(id(name));
  return out;
}

std::vector<std::string> Scene::many(const std::string& first_letter, int count) {
  std::vector<std::string> out;
  for (int i = 0; i < count; ++i) out.push_back(id(first_letter + digits(1000 + i).substr(1)));
  return out;
}

std::int64_t Scene::score_us(const std::string& zset, const std::string& name) {
  const Reply score = cmd({"ZSCORE", zset, id(name)});
  return score.nil() ? 0 : to_us(score.text);
}

Receipt Scene::receipt(const std::string& name) {
  return first("unack " + name, {names_.find(id(name))->first, score_us(keys().unack, name)});
}

Receipt Scene::last_receipt(const std::string& name) {
  const std::string entry = cmd({"HGET", keys().attempts, id(name)}).text;
  const std::size_t space = entry.find(' ');
  const bool ends = space != std::string::npos;
  return first("attempts " + name,
               {names_.find(id(name))->first, ends ? std::strtoll(entry.c_str() + space, nullptr, 10) : 0});
}

Receipt Scene::first(const std::string& key, Receipt receipt) {
  if (!repeats_) receipts_.insert_or_assign(key, receipt);
  return receipts_.at(key);
}

std::vector<Receipt> Scene::receipts(const std::vector<std::string>& ids) {
  std::vector<Receipt> out;
  for (const auto& one : ids) {
    const Reply score = cmd({"ZSCORE", keys().unack, one});
    out.push_back({names_.find(one)->first, score.nil() ? 1 : to_us(score.text)});
  }
  return out;
}

std::int64_t Scene::ttl_ms(const std::string& name) { return cmd({"PTTL", keys().bodies + id(name)}).integer; }

std::int64_t Scene::now_us() {
  const auto time = cmd({"TIME"}).strings();
  return std::strtoll(time.at(0).c_str(), nullptr, 10) * 1'000'000 + std::strtoll(time.at(1).c_str(), nullptr, 10);
}

void Scene::run_recorded(delayqueue::store::Pipeline& pipeline) {
  if (!recorded_) return pipeline.run();
  before_ = snapshot(keys().base, client_);
  before_us_ = now_us();
  pipeline.run();
  after_us_ = now_us();
  after_ = snapshot(keys().base, client_);
}

Reply Scene::run_at(std::int64_t now_us, const delayqueue::redis::Script& script, const std::vector<std::string>& keys,
                    const std::vector<std::string>& arguments) {
  static const std::string kClock = "redis.call('TIME')";
  std::string body(script.body);
  const std::size_t at = body.find(kClock);
  REQUIRE(at != std::string::npos);
  body.replace(at, kClock.size(), "{'" + digits(now_us / 1'000'000) + "', '" + digits(now_us % 1'000'000) + "'}");
  CHECK(body.find("'TIME'") == std::string::npos);
  std::vector<std::string> words = {"EVAL", body, std::to_string(keys.size())};
  words.insert(words.end(), keys.begin(), keys.end());
  words.insert(words.end(), arguments.begin(), arguments.end());
  before_ = snapshot(this->keys().base, client_);
  before_us_ = after_us_ = now_us;
  Reply reply = cmd(words);
  after_ = snapshot(this->keys().base, client_);
  return reply;
}

std::string Scene::named(const std::string& text) const {
  const auto found = names_.find(text);
  return found == names_.end() ? text : found->second;
}

std::string Scene::time_text(const std::string& key, const std::string& score) const {
  const std::int64_t us = to_us(score);
  std::string text;
  if (has_leases(key)) text = us % 1000 != 0 ? "lease" : us % 1'000'000 == 0 ? "go" : "backoff";
  const auto minutes = [](std::int64_t n) { return n == 0 ? "" : "+" + digits(n) + "m"; };
  const std::int64_t from_start = us - start_us_ / 1000 * 1000;
  if (from_start % kMinute == 0) return text + "start" + minutes(from_start / kMinute);
  const std::int64_t since = us - before_us_;
  // Times are rounded up to ms, and moved past a whole second or a whole ms.
  const std::int64_t late = after_us_ - before_us_ + 2000;
  if (since < 0 || since % kMinute > late) return text + digits(us);
  if (has_leases(key)) return text + (since < kMinute ? "+0m" : minutes(since / kMinute));
  return "now" + minutes(since / kMinute);
}

std::string Scene::member(const std::string& key, const std::string& id, const std::string& value) const {
  if (is_zset(key)) return named(id) + "@" + time_text(key, value);
  if (value.empty() && key == "garbage") return named(id);
  if (key != "attempts") return named(id) + "=" + value;
  const std::size_t space = std::min(value.find(' '), value.size());
  const auto held = members(value_of(before_, "unack"));
  const auto ended = held.find(id);
  const bool known = ended != held.end() && space < value.size() &&
                     std::strtoll(value.c_str() + space, nullptr, 10) == to_us(ended->second);
  return named(id) + "=" + (known ? value.substr(0, space) + ",end" : value);
}

std::string Scene::change_of(const std::string& key) const {
  const std::string was_text = value_of(before_, key);
  const std::string is_text = value_of(after_, key);
  if (was_text == is_text) return "";
  if (is_text.substr(0, 1) == "[" || was_text.substr(0, 1) == "[") {
    std::string list;
    for (const auto& part : parts(is_text)) list += (list.empty() ? "" : " ") + named(part);
    return key + " [" + list + "]; ";
  }
  const bool fields = was_text.substr(0, 1) == "{" || is_text.substr(0, 1) == "{";
  if (!fields) return key + " '" + was_text + "' to '" + is_text + "'; ";
  const auto was = members(was_text);
  const auto is = members(is_text);
  std::string text;
  for (const auto& [one, value] : was) {
    if (is.count(one) == 0) text += " -" + named(one);
  }
  for (const auto& [one, value] : is) {
    const auto old = was.find(one);
    if (key == "stats") {
      const long long before = old == was.end() ? 0 : std::atoll(old->second.c_str());
      if (std::atoll(value.c_str()) != before) text += " " + one + "+" + digits(std::atoll(value.c_str()) - before);
    } else if (old == was.end()) {
      text += " +" + member(key, one, value);
    } else if (old->second != value) {
      text += " " + member(key, one, value);
    }
  }
  return key + text + "; ";
}

std::string Scene::changes() const {
  std::set<std::string> keys;
  for (const auto& [key, value] : before_) keys.insert(key);
  for (const auto& [key, value] : after_) keys.insert(key);
  keys.erase("wake");  // hints, tested elsewhere
  keys.erase("watch");
  std::string text;
  std::string bodies;
  for (const auto& key : keys) {
    if (key.substr(0, 4) != "msg:") {
      text += change_of(key);
      continue;
    }
    const std::string was = value_of(before_, key);
    const std::string is = value_of(after_, key);
    if (was == is && before_.count(key) == after_.count(key)) continue;
    const std::string name = named(key.substr(4));
    if (after_.count(key) == 0) {
      bodies += " -" + name;
    } else if (before_.count(key) == 0) {
      bodies += " +" + name + "=" + is;
    } else {
      bodies += " " + name + "=" + is;
    }
  }
  return bodies.empty() ? text : "msg" + bodies + "; " + text;
}

std::string Scene::lost() {
  std::string names;
  for (const auto& [name, at] : alive_) {
    const std::string one = id(name);
    const auto in_list = [&](const std::string& key) { return !cmd({"LPOS", key, one}).nil(); };
    const bool counted = cmd({"HEXISTS", keys().count, one}) == 1;
    const bool body = cmd({"EXISTS", keys().bodies + one}) == 1;
    const bool placed = score_us(keys().dead, name) != 0 ||
                        (counted && (score_us(keys().pending, name) != 0 || score_us(keys().unack, name) != 0 ||
                                     in_list(keys().ready) || in_list(keys().retry)));
    if (!body || !placed) names += (names.empty() ? "" : " ") + name;
  }
  return names;
}

}  // namespace test
