// Bytes to and from a server: a TCP, unix or TLS socket with deadlines. Knows no protocol.
//
// Why not hiredis' own: its 0.14 has no TLS, none of its versions checks host names, and all raise SIGPIPE and leave
// sockets open across exec.
#pragma once

#include <delayqueue/error.h>
#include <delayqueue/options.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace delayqueue::redis {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

struct Address {
  std::string host;  // TCP: name or IP (v6 without brackets); empty: a unix socket
  int port = 6379;
  std::string path;  // unix socket
  bool tls = false;
  bool own_user = false;  // of a unix socket: its server must run as this process' effective user

  std::string text() const;  // "127.0.0.1:6379", "[::1]:6379", "unix:/tmp/s": for messages
};

class Tls;

// One open link. Every failure is a ConnectionError that names the address and the reason; after one the link is
// unusable and to be dropped. Used by one thread at a time.
class Transport {
 public:
  virtual ~Transport() = default;

  // Sends all of it.
  virtual void write(std::string_view bytes, Deadline deadline) = 0;

  // Waits for bytes and stores at least 1, at most size. A closed link is a ConnectionError, a passed deadline too.
  virtual std::size_t read(char* to, std::size_t size, Deadline deadline) = 0;

  // To poll for "something arrived"; readable() must be asked too, for TLS may hold bytes that were read already.
  virtual int fd() const = 0;

  // True if read() would not wait. Waits until `deadline` for it to become so. Of a link that is broken it is true, or
  // the ConnectionError.
  virtual bool readable(Deadline deadline) = 0;
};

// Opens a link: connect (every address of the name in turn) and TLS handshake end by the deadline. The look-up of a
// name that is no IP is the system's: it may take its own time. Throws ConnectionError; SetupError for a server that is not own_user.
// `tls`: of this very address, which asks for it; null for one that does not.
std::unique_ptr<Transport> open_transport(const Address& address, Tls* tls, Deadline deadline);

// Of a unix socket in a folder of this user: it must be no symbolic link, and the server that a connection has reached
// must run as the effective user, as far as the system tells. Throws SetupError.
void check_own_socket(const std::string& path);
void check_own_peer(int fd, const std::string& path);

}  // namespace delayqueue::redis
