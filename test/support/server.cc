#include "support/server.h"

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <sys/socket.h>

namespace test {
namespace {

struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};

Reply convert(const redisReply& raw) {
  Reply reply;
  if (raw.str != nullptr) reply.text.assign(raw.str, static_cast<std::size_t>(raw.len));
  switch (raw.type) {
    case REDIS_REPLY_INTEGER:
      reply.kind = Reply::Kind::integer;
      reply.integer = raw.integer;
      break;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
      reply.kind = Reply::Kind::string;
      break;
    case REDIS_REPLY_ARRAY:
      reply.kind = Reply::Kind::array;
      for (std::size_t i = 0; i < raw.elements; ++i) reply.array.push_back(convert(*raw.element[i]));
      break;
    case REDIS_REPLY_ERROR:
      reply.kind = Reply::Kind::error;
      break;
    default:
      break;
  }
  return reply;
}

// Like hiredis, but without SIGPIPE: a test must be killed by mistakes of the library only.
void send_all(int fd, const std::string& bytes) {
  for (std::size_t sent = 0; sent < bytes.size();) {
    const auto n = ::send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw std::runtime_error("test client: " + std::generic_category().message(errno));
    sent += static_cast<std::size_t>(n);
  }
}

std::string formatted(const std::vector<std::string>& words) {
  std::string bytes = "*" + std::to_string(words.size()) + "\r\n";
  for (const auto& word : words) bytes += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  return bytes;
}

timeval as_timeval(std::chrono::milliseconds span) {
  timeval result{};
  result.tv_sec = span.count() / 1000;
  result.tv_usec = span.count() % 1000 * 1000;
  return result;
}

std::string printable(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    char code[8];
    std::snprintf(code, sizeof code, "\\x%02x", byte);
    out += byte >= 32 && byte < 127 ? std::string(1, c) : code;
  }
  return out;
}

std::string joined(const std::vector<std::string>& parts, char open, char close) {
  std::string out(1, open);
  for (const auto& part : parts) out += (out.size() > 1 ? ", " : "") + part;
  return out + close;
}

std::string same_digits(const std::string& score) {  // servers print scores differently
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", std::strtod(score.c_str(), nullptr));
  return text;
}

std::vector<std::string> pairs(const std::vector<std::string>& flat, std::string (*second)(const std::string&)) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i + 1 < flat.size(); i += 2) out.push_back(printable(flat[i]) + ": " + second(flat[i + 1]));
  return out;
}

std::vector<std::string> each_printable(std::vector<std::string> parts) {
  for (auto& part : parts) part = printable(part);
  return parts;
}

std::vector<std::string> sorted(std::vector<std::string> parts) {
  std::sort(parts.begin(), parts.end());
  return parts;
}

// The fields and values of a hash, except the probe in stats, which is a hint and tested elsewhere.
std::vector<std::string> fields_of(const std::string& key, Redis& on) {
  std::vector<std::string> flat = on.cmd({"HGETALL", key}).strings();
  if (key.size() < 6 || key.compare(key.size() - 6, 6, ":stats") != 0) return flat;
  for (std::size_t i = 0; i + 1 < flat.size(); i += 2) {
    if (flat[i] != "probe") continue;
    const auto field = flat.begin() + static_cast<std::ptrdiff_t>(i);
    flat.erase(field, field + 2);
    break;
  }
  return flat;
}

std::string value_of(const std::string& key, Redis& on) {
  const auto type = on.cmd({"TYPE", key}).text;
  if (type == "string") return printable(on.cmd({"GET", key}).text);
  if (type == "list") return joined(each_printable(on.cmd({"LRANGE", key, "0", "-1"}).strings()), '[', ']');
  if (type == "set") return joined(sorted(each_printable(on.cmd({"SMEMBERS", key}).strings())), '{', '}');
  if (type == "hash") return joined(sorted(pairs(fields_of(key, on), printable)), '{', '}');
  if (type != "zset") return "(" + type + ")";
  return joined(pairs(on.cmd({"ZRANGE", key, "0", "-1", "WITHSCORES"}).strings(), same_digits), '{', '}');
}

std::string escaped(const std::string& text) {  // for MATCH
  std::string out;
  for (const char c : text) {
    if (std::string_view("*?[]\\").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

delayqueue::PrivateServer& server() {
  static delayqueue::PrivateServer one;
  return one;
}

delayqueue::PrivateServer server_with(std::vector<std::string> arguments) {
  delayqueue::PrivateServerOptions options;
  options.arguments = std::move(arguments);
  return delayqueue::PrivateServer(options);
}

std::string fresh_queue() {
  static std::atomic<int> count{0};
  return "q" + std::to_string(++count);
}

Redis& redis() {
  thread_local Redis client;
  return client;
}

std::vector<std::string> Reply::strings() const {
  std::vector<std::string> out;
  for (const auto& part : array) {
    const bool number = part.kind == Kind::integer;
    out.push_back(part.nil() ? "(nil)" : number ? std::to_string(part.integer) : part.text);
  }
  return out;
}

bool operator==(const Reply& a, const Reply& b) {
  return a.kind == b.kind && a.integer == b.integer && a.text == b.text && a.array == b.array;
}

bool operator==(const Reply& a, std::string_view text) { return a.kind == Reply::Kind::string && a.text == text; }

bool operator==(const Reply& a, const std::vector<std::string>& texts) {
  return a.kind == Reply::Kind::array && a.strings() == texts;
}

std::ostream& operator<<(std::ostream& out, const Reply& reply) {
  switch (reply.kind) {
    case Reply::Kind::nil:
      return out << "(nil)";
    case Reply::Kind::integer:
      return out << reply.integer;
    case Reply::Kind::string:
      return out << '"' << printable(reply.text) << '"';
    case Reply::Kind::error:
      return out << "error " << reply.text;
    case Reply::Kind::array:
      break;
  }
  out << '[';
  for (const auto& part : reply.array) out << (&part == reply.array.data() ? "" : ", ") << part;
  return out << ']';
}

void Redis::Free::operator()(redisContext* context) const { redisFree(context); }

Redis::Redis(std::string socket, Access access) : socket_(std::move(socket)), access_(std::move(access)) {}
Redis::Redis(int port, Access access) : port_(port), access_(std::move(access)) {}

void Redis::connect() {
  const timeval limit = as_timeval(access_.limit);
  context_.reset(socket_.empty() ? redisConnectWithTimeout("127.0.0.1", port_, limit)
                                 : redisConnectUnixWithTimeout(socket_.c_str(), limit));
  const std::string problem = !context_ ? "no memory" : context_->err != 0 ? context_->errstr : "";
  if (!problem.empty()) {
    context_.reset();
    throw std::runtime_error("test client: " + (socket_.empty() ? std::to_string(port_) : socket_) + ": " + problem);
  }
  redisSetTimeout(context_.get(), limit);
  ::fcntl(context_->fd, F_SETFD, FD_CLOEXEC);
  if (access_.login.empty()) return;
  std::vector<std::string> words = {"AUTH"};
  words.insert(words.end(), access_.login.begin(), access_.login.end());
  const Reply reply = exchange(words);
  if (reply.error()) throw std::runtime_error("test client: AUTH: " + reply.text);
}

Reply Redis::cmd(const std::vector<std::string>& words) {
  try {
    if (!context_) connect();
    return exchange(words);
  } catch (...) {
    context_.reset();
    throw;
  }
}

Reply Redis::exchange(const std::vector<std::string>& words) {
  void* raw = nullptr;
  send_all(context_->fd, formatted(words));
  if (redisGetReply(context_.get(), &raw) != REDIS_OK) {
    throw std::runtime_error(std::string("test client: ") + context_->errstr);
  }
  const std::unique_ptr<redisReply, FreeReply> reply(static_cast<redisReply*>(raw));
  return convert(*reply);
}

Snapshot snapshot(const std::string& base, Redis& on) {
  Snapshot result;
  const std::string prefix = base + ":";
  std::string cursor = "0";
  do {
    const auto page = on.cmd({"SCAN", cursor, "MATCH", escaped(prefix) + "*", "COUNT", "1000"});
    if (page.array.size() != 2) throw std::runtime_error("test client: SCAN: " + page.text);
    cursor = page.array[0].text;
    for (const auto& key : page.array[1].strings()) {
      if (key.compare(prefix.size(), 7, "staged:") == 0) continue;  // expires if a send did not take it
      const bool expires = !(on.cmd({"PTTL", key}) == -1);
      const std::string name = printable(key.substr(prefix.size()));
      const std::string value = value_of(key, on);
      if (name != "stats" || value != "{}") result[name] = value + (expires ? " (expires)" : "");
    }
  } while (cursor != "0");
  return result;
}

void rewind(const std::string& base, std::chrono::milliseconds by, Redis& on) {
  static constexpr char kScript[] = R"lua(
    local shift = tonumber(ARGV[1]) * 1000
    for key = 1, 3 do
      local flat = redis.call('ZRANGE', KEYS[key], 0, -1, 'WITHSCORES')
      for i = 1, #flat, 2 do
        local us = math.floor(tonumber(flat[i + 1]) * 1000000 + 0.5)
        redis.call('ZADD', KEYS[key], 'XX', (us - shift) / 1000000, flat[i])
      end
    end
    local flat = redis.call('HGETALL', KEYS[4])
    for i = 1, #flat, 2 do
      local count, us = string.match(flat[i + 1], '^(%d+) (%d+)$')
      if us then redis.call('HSET', KEYS[4], flat[i], count .. ' ' .. string.format('%.0f', tonumber(us) - shift)) end
    end
    return 'OK')lua";
  const auto reply = on.cmd({"EVAL", kScript, "4", base + ":pending", base + ":unack", base + ":dead",
                             base + ":attempts", std::to_string(by.count())});
  if (reply != "OK") throw std::runtime_error("test client: rewind: " + reply.text);
}

bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace test
