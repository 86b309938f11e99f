// One logged-in link to one server, speaking RESP2 in both directions.
#pragma once

#include "redis/reply.h"
#include "redis/socket.h"

#include <delayqueue/options.h>

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
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

// A rope on a connection, for other threads: cut, the link ends at once for whoever waits on it.
class ShutdownHandle {
 public:
  explicit ShutdownHandle(int fd) : fd_(fd) {}

  void cut();      // any thread, any time
  void release();  // before the socket is closed: later cuts do nothing

 private:
  std::mutex mutex_;  // guards fd_
  int fd_;
};

class Connection;
class Pipeline;

// Whom a node of a Cluster sends us to.
struct Redirection {
  bool ask = false;  // ASK: only this once, and after ASKING; else MOVED: from now on
  int slot = -1;
  Address address;

  // Nothing if the text of an error is neither. `from`: the node that said it, which may leave out its own host.
  static std::optional<Redirection> read(std::string_view error, const Address& from);
};

// Knows the other nodes of a Cluster.
class Cluster {
 public:
  virtual ~Cluster() = default;

  virtual std::unique_ptr<Connection> dial(const Address& node) = 0;

  // Tells that a slot has moved; true if it is the one that the connection was made for.
  virtual bool moved(const Redirection& redirection) = 0;
};

// Used by one thread at a time. After a ConnectionError it is of no more use: make another.
class Connection {
 public:
  // Reads the files of TLS; then connects, says HELLO 2, checks that this is a Redis of 6.2 or later, and selects the
  // database, all within the connect timeout. Throws ConnectionError (try again), ReplyError (refused: password,
  // database, version) or std::invalid_argument (a file, even while the server is down).
  // With a `cluster`, which must outlive it, it can follow redirections.
  Connection(const Address& address, const Login& login, const ConnectionOptions& options, Cluster* cluster = nullptr);

  // The same over a link that is open already; the address names it in messages.
  Connection(std::unique_ptr<Transport> link, const Address& address, const Login& login,
             const ConnectionOptions& options, Cluster* cluster, Deadline deadline);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void write(std::string_view bytes);

  // The next answer; errors of Redis are answers, too. All of it must arrive within the command timeout, and `longer`.
  // Whatever the server sends, memory is taken only for what has arrived, and for arrays of bounded size and depth: see
  // kMostElements, kMostNested and kMostUnread.
  ReplyPtr read(milliseconds longer = milliseconds(0));

  // The next answer if one arrives before the deadline, else null; for channels, where silence is no fault.
  ReplyPtr read_until(Deadline deadline);

  // The pipelines that were sent and whose answers are still to be read, in the order of their writes.
  std::deque<Pipeline*>& awaited() { return awaited_; }

  // A pipeline ends. If its answers were still to come, nobody knows any more whose answer is whose.
  void give_up(const Pipeline* pipeline);

  // Asked with no answer outstanding: whether the link is of no use any more. It broke, or the server closed it, or
  // said something nobody asked for, or is not in charge of the queue any more.
  bool is_stale();

  // Where an answer of this node sends us, if it is a redirection and can be followed.
  std::optional<Redirection> redirection(Reply reply) const;

  // The node that a redirection names. MOVED makes this connection stale if it was about its own slot.
  Connection& follow(const Redirection& redirection);

  // Whether its node said that another one is in charge.
  bool has_moved() const { return moved_; }

  // For a topology, to end the link when its server is not the master any more.
  std::shared_ptr<ShutdownHandle> shutdown_handle() const { return shutdown_handle_; }

  int fd() const { return transport_->fd(); }  // to poll for the arrival of bytes

  const std::string& where() const { return where_; }  // the address, for messages

 private:
  struct FreeReader {
    void operator()(redisReader* reader) const;
  };

  Connection(const std::unique_ptr<Tls>& tls, const Address& address, const Login& login,
             const ConnectionOptions& options, Cluster* cluster);
  Connection(Tls* tls, Deadline deadline, const Address& address, const Login& login, const ConnectionOptions& options,
             Cluster* cluster);

  ReplyPtr read_by(Deadline deadline);
  ReplyPtr parse();  // null: not enough bytes yet
  void fill(Deadline deadline);
  ReplyPtr drain_final_error();
  [[noreturn]] void fail(const std::string& text);
  void log_in(const Login& login, Deadline deadline);
  ReplyPtr ask(std::string_view request, Deadline deadline);

  const Address address_;
  const std::string where_;
  const std::chrono::milliseconds command_timeout_;
  Cluster* const cluster_;
  const std::unique_ptr<Transport> transport_;
  const std::shared_ptr<ShutdownHandle> shutdown_handle_;
  std::size_t elements_ = 0;  // of all arrays of the reply that is being read
  const std::unique_ptr<redisReader, FreeReader> reader_;
  std::unique_ptr<char[]> buffer_;
  std::deque<Pipeline*> awaited_;
  bool broken_ = false;
  bool moved_ = false;
  std::unique_ptr<Connection> other_;  // the node that was followed last
  std::string other_where_;
};

// Appends a command in RESP to `out`.
void append_command(std::string& out, std::initializer_list<std::string_view> words);

}  // namespace delayqueue::redis
