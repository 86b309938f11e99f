#include "support/local.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "os/resources.h"

namespace test {
namespace {

using delayqueue::Descriptor;

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

Descriptor new_socket(int family) {
  Descriptor made(::socket(family, SOCK_STREAM, 0));
  ::fcntl(made.get(), F_SETFD, FD_CLOEXEC);
  return made;
}

Descriptor bound_to(int port) {
  Descriptor made = new_socket(AF_INET);
  const int on = 1;
  ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const auto address = loopback(port);
  if (::bind(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return made;
  throw std::runtime_error("port " + std::to_string(port) + ": " + delayqueue::reason(errno));
}

Descriptor listening(Descriptor bound, const std::string& where) {
  constexpr int kRoom = 128;
  if (::listen(bound.get(), kRoom) == 0) return bound;
  throw std::runtime_error(where + ": " + delayqueue::reason(errno));
}

}  // namespace

unsigned mode_of(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 ? found.st_mode & 07777U : 0U;
}

Port::Port() : bound_(bound_to(0)) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ::getsockname(bound_.get(), reinterpret_cast<sockaddr*>(&address), &size);
  number_ = ntohs(address.sin_port);
}

Descriptor listen_on(const Port& port) {
  return listening(bound_to(port.number()), "port " + std::to_string(port.number()));
}

Descriptor listen_on(const std::string& path) {
  Descriptor made = new_socket(AF_UNIX);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ::unlink(path.c_str());
  if (::bind(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw std::runtime_error(path + ": " + delayqueue::reason(errno));
  }
  return listening(std::move(made), path);
}

}  // namespace test
