// One logged-in link to one server, speaking RESP2 in both directions.
#pragma once

#include "redis/reply.h"
#include "redis/transport.h"

#include <delayqueue/options.h>

#include <memory>
#include <string>
#include <string_view>

struct redisReader;

namespace delayqueue::redis {

struct Login {
  std::string user;      // empty: the default user
  std::string password;  // empty: none is sent
  std::string client_name;
  int db = 0;
};

// Used by one thread at a time. After a ConnectionError it is of no more use: make another.
class Connection {
 public:
  // Connects, says HELLO 2, checks that this is a Redis of 6.2 or later, and selects the database, all within the
  // connect timeout. Throws ConnectionError (try again) or ReplyError (refused: password, database, version).
  Connection(const Address& address, const Login& login, const ConnectionOptions& options)
      : Connection(address, login, options, Clock::now() + options.connect_timeout) {}
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void write(std::string_view bytes);

  // The next answer; errors of Redis are answers, too. Waits for the command timeout.
  ReplyPtr read();

  // The next answer if one arrives before the deadline, else null; for channels, where silence is no fault.
  ReplyPtr read_until(Deadline deadline);

  // Asked with no answer outstanding: whether the link is of no use any more. It broke, or the server closed it, or
  // said something nobody asked for.
  bool is_stale();

  int fd() const { return transport_->fd(); }  // to poll for the arrival of bytes

  const std::string& where() const { return where_; }  // the address, for messages

 private:
  struct FreeReader {
    void operator()(redisReader* reader) const;
  };

  Connection(const Address& address, const Login& login, const ConnectionOptions& options, Deadline deadline);

  ReplyPtr parse();  // null: not enough bytes yet
  void fill(Deadline deadline);
  [[noreturn]] void fail(const std::string& text);
  void log_in(const Login& login, Deadline deadline);
  ReplyPtr ask(std::string_view request, Deadline deadline);

  const std::string where_;
  const std::chrono::milliseconds command_timeout_;
  const std::unique_ptr<Transport> transport_;
  const std::unique_ptr<redisReader, FreeReader> reader_;
  std::unique_ptr<char[]> buffer_;
  bool broken_ = false;
};

// Appends a command in RESP to `out`.
void append_command(std::string& out, std::initializer_list<std::string_view> words);

}  // namespace delayqueue::redis
