#include "redis/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <thread>

#include "os/descriptor.h"
#include "os/interrupt.h"
#include "os/resources.h"
#include "redis/escaped.h"
#include "redis/host_lookup.h"
#include "redis/tls_socket.h"

namespace delayqueue::redis {
namespace {

using std::chrono::milliseconds;

#ifdef MSG_NOSIGNAL
constexpr int kSendFlags = MSG_NOSIGNAL;
#else
constexpr int kSendFlags = 0;  // without MSG_NOSIGNAL, SO_NOSIGPIPE is set
#endif

// Keepalive detects a dead peer after 15 + 3 x 5 s of silence; the user timeout does so while sent bytes are not
// acknowledged.
constexpr int kIdleSeconds = 15;
constexpr int kProbeSeconds = 5;
constexpr int kProbes = 3;
constexpr int kUserTimeoutMs = 30'000;

constexpr std::size_t kMostPieces = 64;  // in one call of the system, which allows more

constexpr milliseconds kFullQueuePause{2};

constexpr std::chrono::hours kLongestTimeout{24 * 365};  // longer ones would overflow

std::string ms_since(Clock::time_point start) {
  return std::to_string(std::chrono::duration_cast<milliseconds>(Clock::now() - start).count()) + " ms";
}

int poll_timeout(Deadline deadline) {
  const auto now = Clock::now();
  if (deadline <= now) return 0;
  const auto left = std::chrono::ceil<milliseconds>(deadline - now);
  return static_cast<int>(std::min<milliseconds>(left, std::chrono::hours(1)).count());
}

void set(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);  // errors are ignored: the socket works without the option
}

// The place in `pieces` after `sent` bytes from `next` on; a piece of which a part was sent keeps the rest.
std::size_t advance(std::vector<iovec>& pieces, std::size_t next, std::size_t sent) {
  while (next < pieces.size() && sent >= pieces[next].iov_len) sent -= pieces[next++].iov_len;
  if (next < pieces.size()) {
    pieces[next].iov_base = static_cast<char*>(pieces[next].iov_base) + sent;
    pieces[next].iov_len -= sent;
  }
  return next;
}

std::size_t bytes_from(const std::vector<iovec>& pieces, std::size_t next) {
  std::size_t bytes = 0;
  for (; next < pieces.size(); ++next) bytes += pieces[next].iov_len;
  return bytes;
}

Descriptor new_socket(int family) {
#ifdef SOCK_CLOEXEC
  Descriptor made = above_standard(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
#else
  Descriptor made = above_standard(::socket(family, SOCK_STREAM, 0));
  if (made.get() >= 0) ::fcntl(made.get(), F_SETFL, O_NONBLOCK);
#endif
  if (made.get() < 0) throw ConnectionError("cannot make a socket: " + reason(errno));
#ifdef SO_NOSIGPIPE
  set(made.get(), SOL_SOCKET, SO_NOSIGPIPE, 1);
#endif
  return made;
}

// Also called where no wait is needed, so that a server that sends without end cannot keep an interrupted thread.
void check_interrupt(const std::string& server) {
  const Interrupt* interrupt = Interrupt::current();
  if (interrupt != nullptr && interrupt->is_raised()) throw ConnectionError("stopped while talking to " + server);
}

class Socket final : public Transport {
 public:
  Socket(int family, const Address& address)
      : server_(address.text()), plain_tcp_(family != AF_UNIX && !address.tls), fd_(new_socket(family)) {}

  // Throws ConnectionError with the reason only; the caller adds the address.
  void connect(const sockaddr* to, socklen_t size, Deadline deadline);
  void tune_tcp();

  void write(const std::vector<std::string_view>& pieces, Patience& patience) override;
  std::size_t read(char* to, std::size_t size, Patience& patience) override;
  std::size_t read_arrived(char* to, std::size_t size) override;
  int fd() const override { return fd_.get(); }
  bool readable(Deadline deadline) override { return wait(POLLIN, deadline); }
  void reset_at_close() override;

 private:
  bool wait(short events, Deadline deadline);
  void refuse_tls_answer(const char* bytes, std::size_t size);
  [[noreturn]] void fail(const std::string& doing, int error) const;

  const std::string server_;
  const bool plain_tcp_;
  const Descriptor fd_;
  bool answered_ = false;
};

void Socket::connect(const sockaddr* to, socklen_t size, Deadline deadline) {
  const auto start = Clock::now();
  int error = ::connect(fd_.get(), to, size) == 0 ? 0 : errno;
  while (error == EAGAIN && Clock::now() < deadline) {  // a unix socket with a full backlog: poll() cannot wait for it
    std::this_thread::sleep_for(kFullQueuePause);
    check_interrupt(server_);
    error = ::connect(fd_.get(), to, size) == 0 ? 0 : errno;
  }
  if (error == EINPROGRESS || error == EINTR) {
    socklen_t length = sizeof error;
    if (!wait(POLLOUT, deadline)) {
      error = EAGAIN;
    } else if (::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) {
      error = errno;
    }
  }
  if (error == EAGAIN) throw ConnectionError("timed out after " + ms_since(start));
  if (error != 0) throw ConnectionError(reason(error));
}

void Socket::tune_tcp() {
  set(fd_.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd_.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
#if defined(TCP_KEEPIDLE)
  set(fd_.get(), IPPROTO_TCP, TCP_KEEPIDLE, kIdleSeconds);
#elif defined(TCP_KEEPALIVE)
  set(fd_.get(), IPPROTO_TCP, TCP_KEEPALIVE, kIdleSeconds);
#endif
#ifdef TCP_KEEPINTVL
  set(fd_.get(), IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
  set(fd_.get(), IPPROTO_TCP, TCP_KEEPCNT, kProbes);
#endif
#ifdef TCP_USER_TIMEOUT
  set(fd_.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
#endif
}

void Socket::write(const std::vector<std::string_view>& pieces, Patience& patience) {
  check_interrupt(server_);
  std::vector<iovec> rest;
  rest.reserve(pieces.size());
  for (const std::string_view piece : pieces) rest.push_back({const_cast<char*>(piece.data()), piece.size()});
  for (std::size_t next = 0; next < rest.size();) {
    msghdr message{};
    message.msg_iov = &rest[next];
    message.msg_iovlen = std::min(rest.size() - next, kMostPieces);
    const auto sent = ::sendmsg(fd_.get(), &message, kSendFlags);
    if (sent >= 0) {
      patience.moved(static_cast<std::size_t>(sent));
      next = advance(rest, next, static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (wait(POLLOUT, patience.due())) continue;
      throw ConnectionError("timed out sending to " + server_ + ": it accepted no more bytes for " +
                            ms_since(patience.silent_since()) + ", " + std::to_string(bytes_from(rest, next)) +
                            " bytes are left");
    } else if (errno != EINTR) {
      fail("sending to ", errno);
    }
  }
}

std::size_t Socket::read(char* to, std::size_t size, Patience& patience) {
  for (;;) {
    if (const std::size_t got = read_arrived(to, size); got > 0) {
      patience.moved(got);
      return got;
    }
    if (wait(POLLIN, patience.due())) continue;
    throw ConnectionError(patience.failure(server_));
  }
}

std::size_t Socket::read_arrived(char* to, std::size_t size) {
  check_interrupt(server_);
  for (;;) {
    const auto got = ::recv(fd_.get(), to, size, 0);
    if (got > 0) {
      if (!answered_) refuse_tls_answer(to, static_cast<std::size_t>(got));
      answered_ = true;
      return static_cast<std::size_t>(got);
    }
    if (got == 0) fail("reading from ", 0);
    if (errno == EAGAIN) return 0;
    if (errno != EINTR) fail("reading from ", errno);
  }
}

bool Socket::wait(short events, Deadline deadline) {
  for (;;) {
    const Interrupt* interrupt = Interrupt::current();
    pollfd fds[] = {{fd_.get(), events, 0}, {interrupt == nullptr ? -1 : interrupt->fd(), POLLIN, 0}};
    const int ready = ::poll(fds, 2, poll_timeout(deadline));
    check_interrupt(server_);
    if (ready < 0 && errno != EINTR) fail("waiting for ", errno);
    if (fds[0].revents != 0) return true;
    if (Clock::now() >= deadline) return false;
  }
}

// A unix socket has no such bytes, and ignores the option.
void Socket::reset_at_close() {
  const linger none{1, 0};
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &none, sizeof none);
}

// Detects a TLS port: it answers a plain client with an alert record, type 0x15, version 3.x.
void Socket::refuse_tls_answer(const char* bytes, std::size_t size) {
  if (plain_tcp_ && size >= 2 && bytes[0] == 0x15 && bytes[1] == 0x03) {
    throw ConnectionError("the server at " + server_ + " expects TLS; use a rediss:// URL");
  }
}

// `error` 0: the server has closed the connection.
void Socket::fail(const std::string& doing, int error) const {
  if (error != 0 && error != ECONNRESET && error != EPIPE) {
    throw ConnectionError(doing + server_ + " failed: " + reason(error));
  }
  std::string text = "the server at " + server_ + " closed the connection";
  if (plain_tcp_ && !answered_) text += " before its first answer; if this port expects TLS, use a rediss:// URL";
  if (error != 0) text += " (" + reason(error) + ")";
  throw ConnectionError(text);
}

std::unique_ptr<Socket> connect_unix(const Address& address, Deadline deadline) {
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  constexpr std::size_t kLongest = sizeof to.sun_path - 1;
  if (address.path.size() > kLongest) {
    throw ConnectionError("cannot connect to " + address.text() + ": the path has " +
                          std::to_string(address.path.size()) + " bytes, the limit for a unix socket is " +
                          std::to_string(kLongest));
  }
  std::memcpy(to.sun_path, address.path.data(), address.path.size());
  if (address.own_user) check_own_socket(address.path);
  try {
    auto link = std::make_unique<Socket>(AF_UNIX, address);
    link->connect(reinterpret_cast<const sockaddr*>(&to), sizeof to, deadline);
    if (address.own_user) check_own_peer(link->fd(), address.path);
    return link;
  } catch (const ConnectionError& e) {
    throw ConnectionError("cannot connect to " + address.text() + ": " + e.what());
  }
}

std::string numeric(const HostAddress& address) {
  char text[NI_MAXHOST] = "?";
  ::getnameinfo(address.get(), address.size, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

// The deadline for one of the `left` addresses to try. An address that does not answer must not use up the time of the
// addresses after it.
Deadline share(Deadline deadline, int left) {
  const auto now = Clock::now();
  return deadline <= now ? deadline : now + (deadline - now) / left;
}

std::unique_ptr<Socket> connect_tcp(const Address& address, Deadline deadline) {
  const std::vector<HostAddress> found = look_up_host(address, deadline);
  auto left = static_cast<int>(found.size());
  const bool several = left > 1;
  std::string failures;
  for (const HostAddress& one : found) {
    try {
      auto link = std::make_unique<Socket>(one.family(), address);
      link->connect(one.get(), one.size, share(deadline, left--));
      link->tune_tcp();
      return link;
    } catch (const ConnectionError& e) {
      failures += (failures.empty() ? "" : ", ") + std::string(e.what());
      if (several) failures += " (" + numeric(one) + ")";
    }
  }
  throw ConnectionError("cannot connect to " + address.text() + ": " + failures);
}

std::unique_ptr<Transport> connect(const Address& address, Deadline deadline) {
  if (address.host.empty()) return connect_unix(address, deadline);
  return connect_tcp(address, deadline);
}

// -1 where the system does not report it.
std::int64_t user_of_peer(int fd) {
#if defined(SO_PEERCRED) && defined(__linux__)
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 ? static_cast<std::int64_t>(peer.uid) : -1;
#elif defined(__APPLE__) || defined(__FreeBSD__) || defined(__OpenBSD__) || defined(__NetBSD__)
  uid_t user = 0;
  gid_t group = 0;
  return ::getpeereid(fd, &user, &group) == 0 ? static_cast<std::int64_t>(user) : -1;
#else
  static_cast<void>(fd);
  return -1;
#endif
}

}  // namespace

Patience::Patience(milliseconds timeout, Deadline begins)
    : timeout_(std::min<milliseconds>(timeout, kLongestTimeout)), begun_(begins), last_(begins) {}

Deadline Patience::due() const { return fixed_ ? *fixed_ : std::min(last_, begun_ + time_for(bytes_)) + timeout_; }

void Patience::moved(std::size_t bytes) {
  if (bytes_ == 0) first_ = Clock::now();
  bytes_ += bytes;
  last_ = std::max(last_, Clock::now());
}

milliseconds Patience::time_for(std::size_t bytes) {
  return milliseconds(
      static_cast<std::int64_t>(bytes / kSlowestLink * 1000 + bytes % kSlowestLink * 1000 / kSlowestLink));
}

std::string Patience::failure(const std::string& server) const {
  const std::string bytes = std::to_string(bytes_) + " bytes";
  if (!fixed_ && Clock::now() - last_ < timeout_ / 2) {
    return "the answer of " + server + " is too slow: " + bytes + " in " + ms_since(begun_) + "; the link needs " +
           std::to_string(kSlowestLink / 1024) + " KiB/s";
  }
  return "no answer from " + server + " for " + ms_since(last_) + (bytes_ == 0 ? "" : ", after " + bytes + " of it") +
         "; it may be stopped, overloaded or unreachable";
}

void check_own_socket(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0 && !S_ISSOCK(status.st_mode)) {
    throw SetupError("cannot connect to unix:" + path + ": it is " +
                     (S_ISLNK(status.st_mode) ? "a symbolic link" : "no socket") + "; remove it");
  }
}

void check_own_peer(int fd, const std::string& path) {
  const auto user = user_of_peer(fd);
  if (user < 0 || user == static_cast<std::int64_t>(::geteuid())) return;
  throw SetupError("cannot connect to unix:" + path + ": the server there runs as uid " + std::to_string(user) +
                   ", this process as uid " + std::to_string(::geteuid()) + "; use another folder");
}

std::string Address::text() const {
  if (host.empty()) return "unix:" + path;
  const bool v6 = host.find(':') != std::string::npos;
  const std::string shown = escaped(host);  // the name may come from a server
  return (v6 ? "[" + shown + "]" : shown) + ":" + std::to_string(port);
}

std::unique_ptr<Transport> open_transport(const Address& address, Tls* tls, Deadline deadline) {
  if (tls == nullptr) return connect(address, deadline);
  return tls->start(connect(address, deadline), deadline);
}

}  // namespace delayqueue::redis
