// A logged-in connection to one server, with the RESP2 protocol.
#pragma once

#include "redis/reply.h"
#include "redis/socket.h"

#include <delayqueue/client.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct redisReader;

namespace delayqueue::redis {

struct Login {
  std::string user;      // empty: the default user
  std::string password;  // empty: none is sent
  std::string client_name;
  int db = 0;
  std::function<Credentials()> credentials{};  // returns the user and the password; none: those above
};

// Lets another thread shut down the socket of a connection. A thread that waits on the socket gets a ConnectionError at
// once. Thread-safe; may outlive the connection.
class ShutdownHandle {
 public:
  explicit ShutdownHandle(int fd) : fd_(fd) {}

  void shut_down();
  void release();  // called before the socket is closed: shut_down() does nothing from then on

 private:
  std::mutex mutex_;  // guards fd_
  int fd_;
};

class Connection;
class Pipeline;

// A MOVED or ASK answer of a Cluster node.
struct Redirection {
  bool ask = false;  // ASK: for this request only, after ASKING. Otherwise MOVED: for all later requests, too
  int slot = -1;
  Address address;

  // nullopt if the text of an error is neither. `from`: the node that answered, which may leave out its own host.
  static std::optional<Redirection> read(std::string_view error, const Address& from);
};

// The part of a Cluster topology that a connection uses to follow redirections.
class Cluster {
 public:
  virtual ~Cluster() = default;

  virtual std::unique_ptr<Connection> dial(const Address& node) = 0;

  // Records that a slot has moved.
  virtual void moved(const Redirection& redirection) = 0;

  // Records that the node which had a slot no longer serves it, and names no other.
  virtual void lost(int slot) = 0;
};

// Used by one thread at a time. Unusable after a ConnectionError: make another one.
class Connection {
 public:
  // Reads the TLS files; then connects, sends HELLO 2, checks that the server is Redis 6.2 or later, and selects the
  // database, all within the connect timeout. Throws ConnectionError (try again), ReplyError (password, database or
  // version refused) or std::invalid_argument (a TLS file cannot be used; thrown even while the server is down).
  // With a `cluster`, which must outlive the connection, pipelines follow redirections: see refuse_redirections().
  Connection(const Address& address, const Login& login, const ClientOptions& options, Cluster* cluster = nullptr);

  // The same over a transport that is already open. The address is used in error texts only.
  Connection(std::unique_ptr<Transport> link, const Address& address, const Login& login, const ClientOptions& options,
             Cluster* cluster, Deadline deadline);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void write(std::string_view bytes) { write(std::vector<std::string_view>{bytes}); }
  void write(const std::vector<std::string_view>& pieces);

  // The next answer; an error of Redis is returned as an answer, too. The command timeout is for silence: see Patience.
  // It begins `longer` from now: what the server needs for the request, and the request to arrive there.
  // Memory is allocated only for bytes that have arrived, and for arrays of bounded size and depth: see kMostElements,
  // kMostNested and kMostUnread. So a hostile server cannot exhaust it.
  ReplyPtr read(milliseconds longer = milliseconds(0));

  // The same without waiting: null if the answer has not arrived completely. due() is then the time by which it must:
  // at the first call after it this throws what read() throws.
  ReplyPtr read_arrived(milliseconds longer = milliseconds(0));
  Deadline due() const { return waits_->due(); }

  // Bytes that have arrived of the answer that read_arrived() waits for.
  std::size_t arriving() const { return waits_ ? waits_->bytes() : 0; }

  // How long the last answer that read_arrived() returned was arriving, from its first byte on.
  Clock::duration arrival() const { return arrival_; }

  // After a failure of the transfer: when its last byte passed, or it began. Else the present time.
  Deadline silent_since() const;

  // The next answer, or null if none arrives before the deadline. For subscriptions, where silence is normal.
  ReplyPtr read_until(Deadline deadline);

  // The pipelines in flight: sent, with answers still to be read, in the order of their writes.
  std::deque<Pipeline*>& awaited() { return awaited_; }

  // Called when a pipeline is destroyed. If it is still in flight, the connection becomes unusable, because later
  // answers could no longer be matched with their requests.
  void give_up(const Pipeline* pipeline);

  // Sets the slot of the queue that the next requests are for, with a `cluster`. MOVED for this slot makes the
  // connection stale. The next user may set another slot that the same node owns. Closes the connection to the node of
  // the last redirection, unless that may be needed again: after ASK for this slot.
  void set_slot(int slot) {
    if (moved_ || redirected_slot_ != slot) redirected_.reset();
    slot_ = slot;
    moved_ = false;
  }

  // Closes the connection to the node of the last redirection.
  void leave_redirection() { redirected_.reset(); }

  // Whether the connection must be replaced: it is broken, the server closed it or sent an unrequested answer, or the
  // node no longer owns the queue's slot. Call only while no answer is outstanding.
  bool is_stale();

  // The connection must be replaced after the answers that are outstanding.
  void retire() { retired_ = true; }

  // From now on pipelines do not connect to other nodes, which may take long: a redirected request fails.
  void refuse_redirections() { follows_redirections_ = false; }
  bool follows_redirections() const { return follows_redirections_; }

  // The answer as a redirection, if it is one and this connection has a cluster.
  std::optional<Redirection> redirection(Reply reply) const;

  // Notes for later connections that another node owns a slot now.
  void record_move(const Redirection& moved) { cluster_->moved(moved); }

  // The same for MOVED, nothing for ASK. Makes this connection stale if its own slot has moved.
  void learn(const Redirection& redirection);

  // The node no longer serves the queue's slot, and names no other: makes this connection stale.
  void lose_slot() {
    moved_ = true;
    if (cluster_ != nullptr) cluster_->lost(slot_);
  }

  // A connection to the node that a redirection names, from which it also learns.
  Connection& follow(const Redirection& redirection);

  // Whether another connection must take its place, as soon as no answer is outstanding: the slot has moved, or the
  // login expires soon.
  bool is_outdated() const { return moved_ || (login_again_at_ && Clock::now() >= *login_again_at_); }

  // Whether the node answered that another node owns the queue's slot, or that it does not serve it.
  bool has_moved() const { return moved_; }

  // Lets a topology shut down the connection when the server is no longer the master.
  std::shared_ptr<ShutdownHandle> shutdown_handle() const { return shutdown_handle_; }

  int fd() const { return transport_->fd(); }  // to poll for arriving bytes

  const std::string& where() const { return where_; }  // the address, for error texts

 private:
  struct FreeReader {
    void operator()(redisReader* reader) const;
  };

  Connection(const std::unique_ptr<Tls>& tls, const Address& address, const Login& login, const ClientOptions& options,
             Cluster* cluster);
  Connection(Tls* tls, Deadline deadline, const Address& address, const Login& login, const ClientOptions& options,
             Cluster* cluster);

  ReplyPtr read_within(Patience& patience);
  ReplyPtr parse();  // null: not enough bytes yet
  void fill(Patience& patience);
  bool fill_arrived(Patience& patience);
  [[noreturn]] void rethrow(const ConnectionError& e, const Patience& patience);
  void feed(std::size_t size);
  void check_unread();
  ReplyPtr drain_final_error();
  [[noreturn]] void fail(const std::string& text);
  void log_in(const Login& login, Deadline deadline);
  Login with_credentials(Login login, Deadline deadline);
  ReplyPtr ask(std::string_view request, Deadline deadline);

  const Address address_;
  const std::string where_;
  const std::chrono::milliseconds command_timeout_;
  Cluster* const cluster_;
  const std::unique_ptr<Transport> transport_;
  const std::shared_ptr<ShutdownHandle> shutdown_handle_;
  std::size_t elements_ = 0;  // in all arrays of the reply that is being read
  const std::unique_ptr<redisReader, FreeReader> reader_;
  std::unique_ptr<char[]> buffer_;
  std::deque<Pipeline*> awaited_;
  std::optional<Patience> waits_;  // for the answer that read_arrived() waits for
  Clock::duration arrival_{};      // see arrival()
  bool broken_ = false;
  std::optional<Deadline> silent_since_;  // of the transfer that failed
  bool retired_ = false;
  std::optional<Deadline> login_again_at_{};  // over another connection; unset: the login does not expire
  int slot_ = -1;                             // see set_slot()
  bool follows_redirections_ = true;
  bool moved_ = false;                      // slot_ has moved to another node
  std::unique_ptr<Connection> redirected_;  // to the node of the last redirection
  std::string redirected_where_;
  int redirected_slot_ = -1;
};

// Appends a command in RESP2 to `out`.
void append_command(std::string& out, std::initializer_list<std::string_view> words);

}  // namespace delayqueue::redis
