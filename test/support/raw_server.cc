#include "support/raw_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

namespace test {
namespace {

using delayqueue::redis::Address;

Address loopback(int port, bool tls) {
  Address address;
  address.host = "127.0.0.1";
  address.port = port;
  address.tls = tls;
  return address;
}

NodeOptions with_tls(const std::vector<std::string>& arguments, const Port& port) {
  NodeOptions options;
  if (arguments.empty()) return options;
  options.arguments = {"--tls-port", std::to_string(port.number())};
  options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
  return options;
}

}  // namespace

Listener::Listener(std::function<void(int fd)> serve)
    : serve_(std::move(serve)), fd_(listen_on_loopback()), thread_([this] { run(); }) {}

Listener::~Listener() {
  ::shutdown(fd_, SHUT_RDWR);
  thread_.join();
  ::close(fd_);
}

Address Listener::address() const { return loopback(port_of(fd_), false); }

void Listener::run() {
  for (;;) {
    const int fd = ::accept(fd_, nullptr, nullptr);
    if (fd < 0) return;
    serve_(fd);
    ::close(fd);
  }
}

Address address_of(const delayqueue::PrivateServer& on) {
  Address address;
  address.path = on.socket();
  return address;
}

void swallow(int fd) {
  char bytes[4096];
  while (::read(fd, bytes, sizeof bytes) > 0) {
  }
}

int listen_on_loopback() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const int yes = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);  // the next server may reuse the port at once
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || ::listen(fd, 0) != 0) {
    throw std::runtime_error("cannot listen on 127.0.0.1");
  }
  return fd;
}

int port_of(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

RedisChild::RedisChild(const std::vector<std::string>& arguments) : node_(with_tls(arguments, tls_port_)) {}

Address RedisChild::plain() const { return loopback(node_.port(), false); }

Address RedisChild::unix_socket() const {
  Address address;
  address.path = node_.file("s");
  return address;
}

Address RedisChild::tls(const std::string& host) const {
  auto address = loopback(tls_port_.number(), true);
  address.host = host;
  return address;
}

void RedisChild::send(int signal) const {
  const int pid = node_.pid();
  if (pid > 0) ::kill(pid, signal);  // kill(-1) would signal all processes
}

}  // namespace test
