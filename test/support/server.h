// What the tests look at a queue with: a Redis of this test process, and a client that shares no code with the library.
#pragma once

#include <delayqueue/private_server.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

struct redisContext;

namespace test {

// Started by the first call, ended with the process. A test that stops or kills it starts it again.
delayqueue::PrivateServer& server();

// A name that no other call gave.
std::string fresh_queue();

struct Reply {
  enum class Kind { nil, integer, string, array, error };

  Kind kind = Kind::nil;
  long long integer = 0;
  std::string text{};  // of a string (or status), and of an error
  std::vector<Reply> array{};

  bool nil() const { return kind == Kind::nil; }
  bool error() const { return kind == Kind::error; }
  std::vector<std::string> strings() const;  // of an array: each as text, integers printed, nil as "(nil)"
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

// One connection, made by the first command and again after a failure. For one thread.
class Redis {
 public:
  struct Access {
    std::chrono::milliseconds limit = std::chrono::seconds(10);
    std::vector<std::string> login{};  // what to say after AUTH; empty: nothing
  };

  explicit Redis(std::string socket = server().socket()) : Redis(std::move(socket), Access{}) {}
  Redis(std::string socket, Access access);
  explicit Redis(int port) : Redis(port, Access{}) {}  // of 127.0.0.1
  Redis(int port, Access access);

  // Errors of Redis are replies. Throws std::runtime_error when there is no answer within the limit.
  Reply cmd(const std::vector<std::string>& words);

 private:
  struct Free {
    void operator()(redisContext* context) const;
  };

  void connect();
  Reply exchange(const std::vector<std::string>& words);

  std::string socket_;  // empty: port_
  int port_ = 0;
  Access access_;
  std::unique_ptr<redisContext, Free> context_;
};

// A client of server() for the calling thread.
Redis& redis();

// Every key that starts with "<base>:", named without that, printed; bytes that are not ASCII as \xNN:
//   string  the value            list  [left, ..., right]        set  {a, b}, sorted
//   zset    {id: score, ...}, lowest first, %.17g                hash {field: value, ...}, sorted
// A key that expires has " (expires)" behind it. base: "dp:orders" or "{dp:orders}".
using Snapshot = std::map<std::string, std::string>;
Snapshot snapshot(const std::string& base, Redis& on = redis());

// Lets time pass for a queue without waiting: shifts every score in pending, unack and dead, and the lease ends in
// attempts, back by `by`; exact to the microsecond, in one step. TTLs and wake stay.
void rewind(const std::string& base, std::chrono::milliseconds by, Redis& on = redis());

// Asks until it is true; false if it is not within the limit.
bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds limit = std::chrono::seconds(10));

}  // namespace test
