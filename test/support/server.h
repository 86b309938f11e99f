// The test process's own Redis server, and a Redis client that shares no code with the library.
#pragma once

#include "support/standard.h"

struct redisContext;

namespace test {

// Started by the first call, ended with the process. A test that stops or kills it must start it again.
delayqueue::PrivateServer& server();

// Starts a server with these arguments.
delayqueue::PrivateServer server_with(std::vector<std::string> arguments);

// A queue name that no other call returned.
std::string fresh_queue();

// The id of a message. Servers have no such message until a test sends it.
inline constexpr char kId[] = "0197f3a4-5b6c-7d8e-9f01-23456789abcd";

struct Reply {
  enum class Kind { nil, integer, string, array, error };

  Kind kind = Kind::nil;
  long long integer = 0;
  std::string text{};  // of a string, status or error
  std::vector<Reply> array{};

  bool nil() const { return kind == Kind::nil; }
  bool error() const { return kind == Kind::error; }
  std::vector<std::string> strings() const;  // elements of an array as text: integers printed, nil as "(nil)"
};

bool operator==(const Reply& a, const Reply& b);
bool operator==(const Reply& a, std::string_view text);  // true for a string only
bool operator==(const Reply& a, const std::vector<std::string>& texts);

template <typename Integer, std::enable_if_t<std::is_integral_v<Integer>, int> = 0>
bool operator==(const Reply& a, Integer integer) {
  return a.kind == Reply::Kind::integer && a.integer == static_cast<long long>(integer);
}

template <typename T>
bool operator!=(const Reply& a, const T& b) {
  return !(a == b);
}

std::ostream& operator<<(std::ostream& out, const Reply& reply);

// A timeout far longer than a busy machine with a sanitizer needs. Only a failing test waits this long.
inline constexpr std::chrono::seconds kPatience{60};

// One connection, opened by the first command and again after a failure. Not thread-safe.
class Redis {
 public:
  struct Access {
    std::chrono::milliseconds limit = kPatience;
    std::vector<std::string> login{};  // arguments of AUTH; empty: no AUTH
  };

  explicit Redis(std::string socket = server().socket()) : Redis(std::move(socket), Access{}) {}
  Redis(std::string socket, Access access);
  explicit Redis(int port) : Redis(port, Access{}) {}  // on 127.0.0.1
  Redis(int port, Access access);

  // Returns an error reply as a reply. Throws std::runtime_error when there is no reply within the limit.
  Reply cmd(const std::vector<std::string>& words);

 private:
  struct Free {
    void operator()(redisContext* context) const;
  };

  void connect();
  Reply exchange(const std::vector<std::string>& words);

  std::string socket_;  // empty: use port_
  int port_ = 0;
  Access access_;
  std::unique_ptr<redisContext, Free> context_;
};

// A client of server() for the calling thread.
Redis& redis();

// All keys that start with "<base>:", without that prefix, with their printed values. Other bytes than ASCII are \xNN:
//   string  the value            list  [left, ..., right]        set  {a, b}, sorted
//   zset    {id: score, ...}, lowest first, %.17g                hash {field: value, ...}, sorted
// A key with a TTL has " (expires)" after its value. base: "dp:orders" or "{dp:orders}".
using Snapshot = std::map<std::string, std::string>;
Snapshot snapshot(const std::string& base, Redis& on = redis());

// Simulates the passing of time: moves every score in pending, unack and dead, and the lease ends in attempts, back by
// `by`. Atomic and exact to the microsecond. Does not change TTLs and the wake key.
void rewind(const std::string& base, std::chrono::milliseconds by, Redis& on = redis());

// Polls the condition every 2 ms. Returns false if it did not become true within the limit.
bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds limit = std::chrono::seconds(10));

}  // namespace test
