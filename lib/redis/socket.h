// Byte streams to a server with deadlines: TCP, unix and TLS sockets, without any protocol.
//
// The sockets of hiredis are not used: version 0.14 has no TLS, no version checks host names, and all versions raise
// SIGPIPE and leave sockets open across exec.
#pragma once

#include <delayqueue/client.h>
#include <delayqueue/error.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace delayqueue::redis {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

struct Address {
  std::string host;  // TCP: name or IP (v6 without brackets); empty: a unix socket
  int port = 6379;
  std::string path;  // unix socket
  bool tls = false;
  bool own_user = false;  // unix socket: the server must run as the effective user of this process

  std::string text() const;  // "127.0.0.1:6379", "[::1]:6379", "unix:/tmp/s": for errors and log lines
};

// The time limits of a transfer: it ends when no byte has passed for the timeout, and in any case when all of it has
// taken longer than the timeout and what its bytes take on the slowest link that is served.
class Patience {
 public:
  static constexpr std::size_t kSlowestLink = 32 * 1024;  // bytes a second

  // `begins`: no byte is expected before.
  explicit Patience(std::chrono::milliseconds timeout, Deadline begins = Clock::now());
  // Ends at this time, however many bytes pass.
  explicit Patience(Deadline end) : fixed_(end) {}

  // When it ends, unless further bytes pass.
  Deadline due() const;
  void moved(std::size_t bytes);

  Deadline first_byte() const { return first_; }                           // when it passed
  std::size_t bytes() const { return bytes_; }                             // that have passed
  Deadline silent_since() const { return std::min(last_, Clock::now()); }  // the last byte, or the begin

  // Why a read failed at due().
  std::string failure(const std::string& server) const;

  // What this number of bytes takes on the slowest link.
  static std::chrono::milliseconds time_for(std::size_t bytes);

 private:
  std::chrono::milliseconds timeout_{0};
  Deadline begun_ = Clock::now();
  Deadline last_ = begun_;
  Deadline first_{};
  std::size_t bytes_ = 0;
  std::optional<Deadline> fixed_{};
};

class Tls;

// An open byte stream. Every failure is a ConnectionError with the address and the reason; after one the transport is
// unusable. Used by one thread at a time.
class Transport {
 public:
  virtual ~Transport() = default;

  // Sends all bytes, one piece after the other.
  virtual void write(const std::vector<std::string_view>& pieces, Patience& patience) = 0;
  void write(std::string_view bytes, Deadline deadline) {
    Patience patience(deadline);
    write(std::vector<std::string_view>{bytes}, patience);
  }

  // Waits for bytes and stores between 1 and `size` of them. Throws ConnectionError when the server has closed the
  // stream, and when the patience ends.
  virtual std::size_t read(char* to, std::size_t size, Patience& patience) = 0;
  std::size_t read(char* to, std::size_t size, Deadline deadline) {
    Patience patience(deadline);
    return read(to, size, patience);
  }

  // Stores at most `size` of the bytes that have arrived, without waiting for more; 0: none. Throws as read() does.
  virtual std::size_t read_arrived(char* to, std::size_t size) {
    return readable(Clock::now()) ? read(to, size, Clock::now()) : 0;
  }

  // The descriptor to poll for arriving bytes, once read_arrived() has returned 0: TLS may hold bytes that it has read.
  virtual int fd() const = 0;

  // Waits until read() would not block; false at the deadline. For a broken stream it returns true or throws
  // ConnectionError.
  virtual bool readable(Deadline deadline) = 0;

  // The destructor discards bytes that the system has not sent yet, and resets the stream. Otherwise the system goes on
  // to send them, however late.
  virtual void reset_at_close() {}
};

// Opens a transport. The look-up of the host name, connecting (to each of its addresses in turn) and the TLS handshake
// end by the deadline. Throws ConnectionError, or SetupError if the address requires own_user and the server runs as
// another user. `tls`: made for this address; null if the address is without TLS.
std::unique_ptr<Transport> open_transport(const Address& address, Tls* tls, Deadline deadline);

// Checks of a unix socket in a folder of this user: the path must be no symbolic link, and the server that accepted the
// connection must run as the effective user, where the system reports its user. Both throw SetupError.
void check_own_socket(const std::string& path);
void check_own_peer(int fd, const std::string& path);

}  // namespace delayqueue::redis
