#include "redis/transport.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>

#include "redis/tls.h"

namespace delayqueue::redis {
namespace {

using std::chrono::milliseconds;

#ifdef MSG_NOSIGNAL
constexpr int kSendFlags = MSG_NOSIGNAL;
#else
constexpr int kSendFlags = 0;  // SO_NOSIGPIPE does it there
#endif

// Keepalive finds a dead peer after 15 + 3 x 5 s of silence; the user timeout does the same for bytes on their way.
constexpr int kIdleSeconds = 15;
constexpr int kProbeSeconds = 5;
constexpr int kProbes = 3;
constexpr int kUserTimeoutMs = 30'000;

constexpr milliseconds kFullQueuePause{2};

std::string reason(int error) { return std::generic_category().message(error); }

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
  ::setsockopt(fd, level, option, &value, sizeof value);  // refused: the link works without
}

int new_socket(int family) {
#ifdef SOCK_CLOEXEC
  const int fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
#else
  const int fd = ::socket(family, SOCK_STREAM, 0);
  if (fd >= 0) {
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    ::fcntl(fd, F_SETFL, O_NONBLOCK);
  }
#endif
  if (fd < 0) throw ConnectionError("no socket: " + reason(errno));
#ifdef SO_NOSIGPIPE
  set(fd, SOL_SOCKET, SO_NOSIGPIPE, 1);
#endif
  return fd;
}

class Socket final : public Transport {
 public:
  Socket(int family, const Address& address)
      : server_(address.text()), plain_tcp_(family != AF_UNIX && !address.tls), fd_(new_socket(family)) {}

  ~Socket() override { ::close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  // Throws a ConnectionError that holds the bare reason.
  void connect(const sockaddr* to, socklen_t size, Deadline deadline);
  void tune_tcp();

  void write(std::string_view bytes, Deadline deadline) override;
  std::size_t read(char* to, std::size_t size, Deadline deadline) override;
  int fd() const override { return fd_; }
  bool readable(Deadline deadline) override { return wait(POLLIN, deadline); }

 private:
  bool wait(short events, Deadline deadline);
  void refuse_tls_answer(const char* bytes, std::size_t size);
  [[noreturn]] void fail(const std::string& doing, int error) const;

  const std::string server_;
  const bool plain_tcp_;
  const int fd_;
  bool answered_ = false;
  Clock::time_point asked_ = Clock::now();  // the last write
};

void Socket::connect(const sockaddr* to, socklen_t size, Deadline deadline) {
  const auto start = Clock::now();
  int error = ::connect(fd_, to, size) == 0 ? 0 : errno;
  while (error == EAGAIN && Clock::now() < deadline) {  // a unix socket with a full queue: nothing to poll for
    std::this_thread::sleep_for(kFullQueuePause);
    error = ::connect(fd_, to, size) == 0 ? 0 : errno;
  }
  if (error == EINPROGRESS || error == EINTR) {
    socklen_t length = sizeof error;
    if (!wait(POLLOUT, deadline)) {
      error = EAGAIN;
    } else if (::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &length) != 0) {
      error = errno;
    }
  }
  if (error == EAGAIN) throw ConnectionError("timed out after " + ms_since(start));
  if (error != 0) throw ConnectionError(reason(error));
}

void Socket::tune_tcp() {
  set(fd_, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd_, SOL_SOCKET, SO_KEEPALIVE, 1);
#if defined(TCP_KEEPIDLE)
  set(fd_, IPPROTO_TCP, TCP_KEEPIDLE, kIdleSeconds);
#elif defined(TCP_KEEPALIVE)
  set(fd_, IPPROTO_TCP, TCP_KEEPALIVE, kIdleSeconds);
#endif
#ifdef TCP_KEEPINTVL
  set(fd_, IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
  set(fd_, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
#endif
#ifdef TCP_USER_TIMEOUT
  set(fd_, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
#endif
}

void Socket::write(std::string_view bytes, Deadline deadline) {
  asked_ = Clock::now();
  while (!bytes.empty()) {
    const auto sent = ::send(fd_, bytes.data(), bytes.size(), kSendFlags);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (wait(POLLOUT, deadline)) continue;
      throw ConnectionError("timed out sending to " + server_ + ": it took nothing more for " + ms_since(asked_) +
                            ", " + std::to_string(bytes.size()) + " bytes are left");
    } else if (errno != EINTR) {
      fail("sending to ", errno);
    }
  }
}

std::size_t Socket::read(char* to, std::size_t size, Deadline deadline) {
  for (;;) {
    const auto got = ::recv(fd_, to, size, 0);
    if (got > 0) {
      if (!answered_) refuse_tls_answer(to, static_cast<std::size_t>(got));
      answered_ = true;
      return static_cast<std::size_t>(got);
    }
    if (got == 0) fail("reading from ", 0);
    if (errno == EAGAIN) {
      if (wait(POLLIN, deadline)) continue;
      throw ConnectionError("no answer from " + server_ + " for " + ms_since(asked_) +
                            "; it may be stopped, overloaded or cut off");
    }
    if (errno != EINTR) fail("reading from ", errno);
  }
}

bool Socket::wait(short events, Deadline deadline) {
  for (;;) {
    pollfd one{fd_, events, 0};
    const int ready = ::poll(&one, 1, poll_timeout(deadline));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) fail("waiting for ", errno);
    if (ready == 0 && Clock::now() >= deadline) return false;
  }
}

// A TLS port tells a plain client so in an alert record: type 0x15, version 3.x.
void Socket::refuse_tls_answer(const char* bytes, std::size_t size) {
  if (plain_tcp_ && size >= 2 && bytes[0] == 0x15 && bytes[1] == 0x03) {
    throw ConnectionError("the server at " + server_ + " expects TLS; use a rediss:// URL");
  }
}

// error 0: the end of the stream.
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
                          std::to_string(address.path.size()) + " bytes, that of a unix socket at most " +
                          std::to_string(kLongest));
  }
  std::memcpy(to.sun_path, address.path.data(), address.path.size());
  try {
    auto link = std::make_unique<Socket>(AF_UNIX, address);
    link->connect(reinterpret_cast<const sockaddr*>(&to), sizeof to, deadline);
    return link;
  } catch (const ConnectionError& e) {
    throw ConnectionError("cannot connect to " + address.text() + ": " + e.what());
  }
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses look_up(const Address& address) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &list);
  if (error == 0) return Addresses(list);
  throw ConnectionError("cannot connect to " + address.text() + ": no address for the name '" + address.host +
                        "': " + (error == EAI_SYSTEM ? reason(errno) : ::gai_strerror(error)));
}

std::string numeric(const addrinfo& entry) {
  char text[NI_MAXHOST] = "?";
  ::getnameinfo(entry.ai_addr, entry.ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

// An address that swallows everything must not eat the time of those after it: each gets its share.
Deadline share(Deadline deadline, int left) {
  const auto now = Clock::now();
  return deadline <= now ? deadline : now + (deadline - now) / left;
}

std::unique_ptr<Socket> connect_tcp(const Address& address, Deadline deadline) {
  const Addresses list = look_up(address);
  int left = 0;
  for (auto* entry = list.get(); entry; entry = entry->ai_next) ++left;
  const bool several = left > 1;
  std::string failures;
  for (auto* entry = list.get(); entry; entry = entry->ai_next) {
    try {
      auto link = std::make_unique<Socket>(entry->ai_family, address);
      link->connect(entry->ai_addr, entry->ai_addrlen, share(deadline, left--));
      link->tune_tcp();
      return link;
    } catch (const ConnectionError& e) {
      failures += (failures.empty() ? "" : ", ") + std::string(e.what());
      if (several) failures += " (" + numeric(*entry) + ")";
    }
  }
  throw ConnectionError("cannot connect to " + address.text() + ": " + failures);
}

std::unique_ptr<Transport> connect(const Address& address, Deadline deadline) {
  if (address.host.empty()) return connect_unix(address, deadline);
  return connect_tcp(address, deadline);
}

}  // namespace

std::string Address::text() const {
  if (host.empty()) return "unix:" + path;
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::unique_ptr<Transport> open_transport(const Address& address, Tls* tls, Deadline deadline) {
  if (tls == nullptr) return connect(address, deadline);
  return tls->start(connect(address, deadline), deadline);
}

}  // namespace delayqueue::redis
