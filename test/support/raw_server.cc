#include "support/raw_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <filesystem>
#include <stdexcept>
#include <utility>

namespace test {
namespace {

using delayqueue::redis::Address;
using delayqueue::redis::Clock;
using delayqueue::redis::open_transport;
using namespace std::chrono_literals;

std::string new_folder() {
  std::string path = std::filesystem::temp_directory_path() / "delayqueue-test-XXXXXX";
  if (!::mkdtemp(path.data())) throw std::runtime_error("cannot make the folder " + path);
  return path;
}

int free_port() {
  const int fd = listen_on_loopback();
  const int port = port_of(fd);
  ::close(fd);
  return port;
}

pid_t spawn(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("cannot fork");
  if (pid > 0) return pid;
#ifdef __linux__
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  ::execvp(argv[0], argv.data());
  ::_exit(127);
}

Address loopback(int port, bool tls) {
  Address address;
  address.host = "127.0.0.1";
  address.port = port;
  address.tls = tls;
  return address;
}

}  // namespace

TempDir::TempDir() : path_(new_folder()) {}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

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

RedisChild::RedisChild(const std::vector<std::string>& arguments) {
  for (int attempt = 0; attempt < 5; ++attempt) {
    if (start(arguments)) return;  // a port that was free may be taken by now
  }
  throw std::runtime_error("redis-server does not start");
}

RedisChild::~RedisChild() {
  send(SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

Address RedisChild::plain() const { return loopback(plain_port_, false); }

Address RedisChild::unix_socket() const {
  Address address;
  address.path = dir_.file("s");
  return address;
}

Address RedisChild::tls(const std::string& host) const {
  auto address = loopback(tls_port_, true);
  address.host = host;
  return address;
}

void RedisChild::send(int signal) const {
  if (pid_ > 0) ::kill(pid_, signal);  // -1 is everybody
}

bool RedisChild::start(const std::vector<std::string>& arguments) {
  plain_port_ = free_port();
  std::vector<std::string> words = {"redis-server",  "--port",    std::to_string(plain_port_),
                                    "--bind",        "127.0.0.1", "--unixsocket",
                                    dir_.file("s"),  "--dir",     dir_.file(""),
                                    "--save",        "",          "--logfile",
                                    dir_.file("log")};
  if (!arguments.empty()) {
    tls_port_ = free_port();
    words.insert(words.end(), {"--tls-port", std::to_string(tls_port_)});
    words.insert(words.end(), arguments.begin(), arguments.end());
  }
  pid_ = spawn(words);
  for (;;) {
    if (answers()) return true;
    if (::waitpid(pid_, nullptr, WNOHANG) == pid_) return false;
    std::this_thread::sleep_for(2ms);
  }
}

bool RedisChild::answers() const {
  try {
    const auto deadline = Clock::now() + 5s;
    const auto link = open_transport(unix_socket(), {}, deadline);
    link->write("PING\r\n", deadline);
    char answer[64];
    return std::string(answer, link->read(answer, sizeof answer, deadline)) == "+PONG\r\n";
  } catch (const delayqueue::ConnectionError&) {
    return false;
  }
}

}  // namespace test
