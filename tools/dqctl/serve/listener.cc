#include "serve/listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "exit.h"
#include "output/text.h"
#include "parse.h"

namespace dqctl {
namespace {

constexpr int kBacklog = 128;
constexpr mode_t kOwnerOnly = 0177;  // the bits that the umask takes away

std::string socket_error(int error) { return std::generic_category().message(error); }

// An IPv4 or IPv6 address in the form of the system.
struct SocketAddress {
  sockaddr_storage bytes{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&bytes); }
};

std::optional<SocketAddress> numeric(const std::string& host, int port) {
  SocketAddress address;
  auto* four = reinterpret_cast<sockaddr_in*>(&address.bytes);
  auto* six = reinterpret_cast<sockaddr_in6*>(&address.bytes);
  if (::inet_pton(AF_INET, host.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(static_cast<std::uint16_t>(port));
    address.size = sizeof(sockaddr_in);
    return address;
  }
  if (::inet_pton(AF_INET6, host.c_str(), &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(static_cast<std::uint16_t>(port));
    address.size = sizeof(sockaddr_in6);
    return address;
  }
  return std::nullopt;
}

bool is_loopback(const SocketAddress& address) {
  if (address.bytes.ss_family == AF_INET) {
    const auto* four = reinterpret_cast<const sockaddr_in*>(&address.bytes);
    return ntohl(four->sin_addr.s_addr) >> 24U == 127;
  }
  const auto* six = reinterpret_cast<const sockaddr_in6*>(&address.bytes);
  return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

// "127.0.0.1", "::1": the form that parse_host() returns, too.
std::string host_of(const SocketAddress& address) {
  const auto* four = reinterpret_cast<const sockaddr_in*>(&address.bytes);
  const auto* six = reinterpret_cast<const sockaddr_in6*>(&address.bytes);
  const bool is_four = address.bytes.ss_family == AF_INET;
  const void* bytes = is_four ? static_cast<const void*>(&four->sin_addr) : &six->sin6_addr;
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(address.bytes.ss_family, bytes, text.data(), text.size());
  return text.data();
}

// "127.0.0.1:9480", "[::1]:9480"; "unix" for a unix socket.
std::string text_of(const SocketAddress& address) {
  if (address.bytes.ss_family == AF_INET) {
    const auto* four = reinterpret_cast<const sockaddr_in*>(&address.bytes);
    return host_of(address) + ':' + std::to_string(ntohs(four->sin_port));
  }
  if (address.bytes.ss_family == AF_INET6) {
    const auto* six = reinterpret_cast<const sockaddr_in6*>(&address.bytes);
    return '[' + host_of(address) + "]:" + std::to_string(ntohs(six->sin6_port));
  }
  return "unix";
}

Fd open_socket(int family) {
  Fd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.open()) throw Failure(Exit::failed, "cannot open a socket: " + socket_error(errno));
  return fd;
}

sockaddr_un address_of_path(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path || path.find('\0') != std::string::npos) {
    throw Usage("--socket: " + in_quotes(path) + "; expected a path of 1 to " +
                std::to_string(sizeof address.sun_path - 1) + " bytes");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// Removes a socket that its server has left behind.
void remove_abandoned(const std::string& path, const sockaddr_un& address) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return;
  const std::string name = "--socket: " + in_quotes(path);
  if (!S_ISSOCK(found.st_mode)) throw Usage(name + " exists and is no socket; name another path");
  if (found.st_uid != ::geteuid()) throw Usage(name + " belongs to another user; name another path");
  const Fd probe = open_socket(AF_UNIX);
  const int connected = ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  if (connected == 0 || errno != ECONNREFUSED) throw Usage(name + " is in use; name another path, or end its server");
  ::unlink(path.c_str());
}

}  // namespace

ListenAddress parse_listen(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  const auto wrong = [&] {
    return Usage("--listen: " + cut(in_quotes(text), 60) +
                 "; expected a numeric address and a port, such as 127.0.0.1:9480, [::1]:9480 or localhost:9480");
  };
  if (colon == std::string::npos || colon == 0) throw wrong();
  ListenAddress address;
  address.host = text.substr(0, colon);
  address.port = static_cast<int>(parse_number("--listen", text.substr(colon + 1), 0, 65'535));
  const bool in_brackets = address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']';
  if (in_brackets) address.host = address.host.substr(1, address.host.size() - 2);
  if (address.host == "localhost") address.host = "127.0.0.1";
  const auto found = numeric(address.host, address.port);
  if (!found || in_brackets != (found->bytes.ss_family == AF_INET6)) throw wrong();
  address.host = host_of(*found);
  address.is_loopback = is_loopback(*found);
  return address;
}

Listener::Listener(const ListenAddress& address) {
  auto bound = numeric(address.host, address.port);
  if (!bound) throw Usage("--listen: " + in_quotes(address.host) + "; expected a numeric address");
  fd_ = open_socket(bound->bytes.ss_family);
  const int on = 1;
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd_.get(), bound->get(), bound->size) != 0 || ::listen(fd_.get(), kBacklog) != 0) {
    throw Usage("--listen: cannot listen on " + text_of(*bound) + ": " + socket_error(errno) +
                "; expected an address of this machine, and a port that is free");
  }
  bound->size = sizeof bound->bytes;
  ::getsockname(fd_.get(), bound->get(), &bound->size);
  shown_ = text_of(*bound);
}

Listener::Listener(const std::string& path) : shown_(path) {
  const sockaddr_un address = address_of_path(path);
  remove_abandoned(path, address);
  fd_ = open_socket(AF_UNIX);
  // The mode is right from the first moment on: a chmod after bind() would be too late.
  const mode_t before = ::umask(kOwnerOnly);
  const int bound = ::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const int error = errno;
  ::umask(before);
  if (bound != 0) {
    throw Usage("--socket: cannot make " + in_quotes(path) + ": " + socket_error(error) +
                "; expected a path in a folder that exists, and that this user may write");
  }
  path_ = path;
  struct stat made {};
  if (::lstat(path.c_str(), &made) == 0) {
    device_ = made.st_dev;
    inode_ = made.st_ino;
  }
  if (::listen(fd_.get(), kBacklog) != 0) {
    throw Failure(Exit::failed, "--socket: cannot listen on " + in_quotes(path) + ": " + socket_error(errno));
  }
}

Listener::~Listener() {
  struct stat found {};
  if (path_.empty() || ::lstat(path_.c_str(), &found) != 0) return;
  if (found.st_dev == device_ && found.st_ino == inode_) ::unlink(path_.c_str());
}

Fd Listener::accept(std::string& client) const {
  SocketAddress peer;
  peer.size = sizeof peer.bytes;
  Fd fd(::accept4(fd_.get(), peer.get(), &peer.size, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd.open()) return fd;
  client = text_of(peer);
  const int on = 1;
  if (path_.empty()) ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

}  // namespace dqctl
