#include "support/test.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/interrupt.h"
#include "redis/socket.h"
#include "redis/transport_support.h"
#include "support/raw_server.h"

namespace delayqueue::redis {
namespace {

using test::Listener;
using test::RedisChild;

std::unique_ptr<Transport> open(const Address& address) { return open_transport(address, {}, in(5s)); }

template <class Call>
std::string error_of(Call call) {
  try {
    call();
    return "no error";
  } catch (const ConnectionError& e) {
    return e.what();
  }
}

// The milliseconds that stand in an error after `words`.
long waited(const std::string& text, const std::string& words) {
  CHECK(has(text, words));
  const std::size_t at = text.find(words);
  return at == std::string::npos ? -1 : std::strtol(text.c_str() + at + words.size(), nullptr, 10);
}

// The call must end after about `limit`; a loaded machine may be late.
template <class Call>
std::string timed_error_of(std::chrono::milliseconds limit, Call call) {
  const auto start = Clock::now();
  const auto text = error_of(call);
  const auto took = Clock::now() - start;
  CHECK(took >= limit - 2ms);
  CHECK(took < limit + 2s);
  return text;
}

std::atomic<int> signals_seen{0};

// Counts a signal, which would otherwise end the process.
class Counting {
 public:
  explicit Counting(int signal) : signal_(signal) {
    signals_seen = 0;
    struct sigaction action {};
    action.sa_handler = [](int) { ++signals_seen; };
    ::sigaction(signal, &action, &before_);
  }
  ~Counting() { ::sigaction(signal_, &before_, nullptr); }

 private:
  const int signal_;
  struct sigaction before_ {};
};

int option(const Transport& link, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  CHECK(::getsockopt(link.fd(), level, name, &value, &size) == 0);
  return value;
}

TEST_CASE("transport: exchanges bytes with a real server over TCP and over a unix socket") {
  const RedisChild server;
  for (const auto& address : {server.plain(), server.unix_socket()}) {
    CAPTURE(address.text());
    const auto link = open(address);
    CHECK(ask(*link, "PING\r\n") == "+PONG\r\n");
    CHECK(ask(*link, "PING\r\n") == "+PONG\r\n");
  }
}

TEST_CASE("transport: a host name is resolved") {
  const Listener server(test::swallow);
  auto address = server.address();
  address.host = "localhost";
  CHECK(open(address)->fd() >= 0);
}

TEST_CASE("transport: more bytes than the socket buffer holds all arrive") {
  const std::string sent(20'000'000, 'x');
  std::size_t seen = 0;
  {
    const Listener server([&](int fd) {
      std::string bytes(1 << 20, 0);
      for (ssize_t got; (got = ::read(fd, bytes.data(), bytes.size())) > 0;) seen += static_cast<std::size_t>(got);
    });
    open(server.address())->write(sent, in(10s));
  }
  CHECK(seen == sent.size());
}

TEST_CASE("transport: a socket is close-on-exec and non-blocking, and TCP has no delay and keepalive") {
  const Listener server(test::swallow);
  const auto link = open(server.address());
  CHECK((::fcntl(link->fd(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK((::fcntl(link->fd(), F_GETFL) & O_NONBLOCK) != 0);
  CHECK(option(*link, IPPROTO_TCP, TCP_NODELAY) != 0);
  CHECK(option(*link, SOL_SOCKET, SO_KEEPALIVE) != 0);
#ifdef TCP_KEEPIDLE
  CHECK(option(*link, IPPROTO_TCP, TCP_KEEPIDLE) == 15);
  CHECK(option(*link, IPPROTO_TCP, TCP_KEEPINTVL) == 5);
  CHECK(option(*link, IPPROTO_TCP, TCP_KEEPCNT) == 3);
#endif
#ifdef TCP_USER_TIMEOUT
  CHECK(option(*link, IPPROTO_TCP, TCP_USER_TIMEOUT) == 30'000);
#endif
}

TEST_CASE("transport: the error of a refused connect has the address and the reason") {
  auto address = Listener(test::swallow).address();
  const auto text = error_of([&] { open(address); });
  CHECK(text == "cannot connect to " + address.text() + ": Connection refused");
  address.host.clear();
  address.path = "/nowhere/s";
  CHECK(error_of([&] { open(address); }) == "cannot connect to unix:/nowhere/s: No such file or directory");
}

TEST_CASE("transport: the error has the host name that cannot be resolved") {
  Address address;
  address.host = "two..dots";
  CHECK(has(error_of([&] { open(address); }), "no address for the name 'two..dots': "));
}

TEST_CASE("transport: a path too long for a unix socket is refused with its length") {
  Address address;
  address.path = "/tmp/" + std::string(200, 'x');
  CHECK(has(error_of([&] { open(address); }), "the path has 205 bytes, the limit for a unix socket is "));
}

TEST_CASE("transport: a connect that is not accepted ends at the deadline") {
  const int listener = test::listen_on_loopback();
  Address address;
  address.host = "127.0.0.1";
  address.port = test::port_of(listener);
  std::vector<std::unique_ptr<Transport>> fillers;
  const auto filled = error_of([&] {
    for (int i = 0; i < 50; ++i) fillers.push_back(open_transport(address, {}, in(300ms)));
  });
  CHECK(has(filled, "timed out"));
  const auto text = timed_error_of(200ms, [&] { open_transport(address, {}, in(200ms)); });
  CHECK(waited(text, "cannot connect to " + address.text() + ": timed out after ") >= 198);
  ::close(listener);
}

TEST_CASE("transport: connecting to a unix socket with a full backlog is retried until the deadline") {
  const test::TempDir dir;
  Address address;
  address.path = dir.file("s");
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  address.path.copy(name.sun_path, sizeof name.sun_path - 1);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(::bind(listener, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0);
  REQUIRE(::listen(listener, 0) == 0);
  std::vector<std::unique_ptr<Transport>> fillers;
  const auto filled = error_of([&] {
    for (int i = 0; i < 50; ++i) fillers.push_back(open_transport(address, {}, in(200ms)));
  });
  CHECK(waited(filled, "cannot connect to unix:" + address.path + ": timed out after ") >= 198);
  std::thread late([&] {
    std::this_thread::sleep_for(50ms);
    ::close(::accept(listener, nullptr, nullptr));
  });
  CHECK(error_of([&] { open(address); }) == "no error");
  late.join();
  ::close(listener);
}

TEST_CASE("transport: a read from a stopped server ends at the deadline") {
  const RedisChild server;
  server.send(SIGSTOP);
  const auto link = open(server.plain());
  link->write("PING\r\n", in(1s));
  char byte = 0;
  CHECK_FALSE(link->readable(in(20ms)));
  const auto text = timed_error_of(100ms, [&] { link->read(&byte, 1, in(100ms)); });
  CHECK(waited(text, "no answer from " + server.plain().text() + " for ") >= 98);
  server.send(SIGCONT);
}

TEST_CASE("transport: half an answer is returned, and the read of the other half ends at the deadline") {
  const Listener server([](int fd) {
    CHECK(::write(fd, "+PO", 3) == 3);
    test::swallow(fd);
  });
  const auto link = open(server.address());
  char bytes[64];
  std::size_t got = 0;
  while (got < 3) got += link->read(bytes + got, sizeof bytes - got, in(5s));
  CHECK(std::string(bytes, got) == "+PO");
  CHECK(has(timed_error_of(100ms, [&] { link->read(bytes, sizeof bytes, in(100ms)); }), "no answer"));
}

TEST_CASE("transport: bytes that have arrived are read even after the deadline") {
  const Listener server([](int fd) {
    CHECK(::write(fd, "x", 1) == 1);
    test::swallow(fd);
  });
  const auto link = open(server.address());
  REQUIRE(link->readable(in(5s)));
  char byte = 0;
  CHECK(link->read(&byte, 1, Deadline::min()) == 1);
}

TEST_CASE("transport: readable returns whether a read would not wait, also at the end of the stream") {
  std::atomic<bool> send{false};
  const Listener server([&](int fd) {
    while (!send) std::this_thread::sleep_for(1ms);
    CHECK(::write(fd, "x", 1) == 1);
  });
  const auto link = open(server.address());
  CHECK_FALSE(link->readable(Deadline::min()));
  CHECK_FALSE(link->readable(in(30ms)));
  send = true;
  CHECK(link->readable(Deadline::max()));
  char byte = 0;
  CHECK(link->read(&byte, 1, in(1s)) == 1);
  CHECK(link->readable(in(5s)));
  CHECK(has(error_of([&] { link->read(&byte, 1, in(5s)); }), "closed the connection"));
}

TEST_CASE("transport: a write to a server that reads nothing ends at the deadline") {
  const int listener = test::listen_on_loopback();
  Address address;
  address.host = "127.0.0.1";
  address.port = test::port_of(listener);
  const auto link = open(address);
  const std::string much(50'000'000, 'x');
  const auto text = timed_error_of(100ms, [&] { link->write(much, in(100ms)); });
  CHECK(has(text, "timed out sending to " + address.text()));
  ::close(listener);
}

TEST_CASE("transport: a closed connection is an error with the server's address, and no SIGPIPE") {
  const Counting pipes(SIGPIPE);
  const Listener server([](int fd) {
    char bytes[4];
    while (::read(fd, bytes, sizeof bytes) == 0) {
    }
  });
  const auto link = open(server.address());
  link->write("PING", in(1s));
  char byte = 0;
  CHECK(has(error_of([&] { link->read(&byte, 1, in(5s)); }),
            "the server at " + server.address().text() + " closed the connection before its first answer"));
  const auto text = error_of([&] {
    for (int i = 0; i < 1000; ++i) link->write("PING\r\n", in(1s)), std::this_thread::sleep_for(1ms);
  });
  CHECK(has(text, "the server at " + server.address().text() + " closed the connection"));
  CHECK(signals_seen == 0);
}

TEST_CASE("transport: signals do not interrupt a waiting read") {
  const Counting users(SIGUSR1);
  const Listener server([](int fd) {
    std::this_thread::sleep_for(100ms);
    CHECK(::write(fd, "x", 1) == 1);
    test::swallow(fd);
  });
  const auto link = open(server.address());
  std::atomic<bool> done{false};
  std::thread disturber([&, reader = ::pthread_self()] {
    while (!done) {
      ::pthread_kill(reader, SIGUSR1);
      std::this_thread::sleep_for(1ms);
    }
  });
  char byte = 0;
  const auto text = error_of([&] { CHECK(link->read(&byte, 1, in(5s)) == 1); });
  const auto late = error_of([&] { link->read(&byte, 1, in(50ms)); });
  done = true;
  disturber.join();
  CHECK(text == "no error");
  CHECK(has(late, "no answer"));
  CHECK(signals_seen > 0);
}

bool has_something_to_read(int fd) {
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, 0) > 0;
}

TEST_CASE("transport: an interrupt that is raised in a fork does not reach the parent") {
  Interrupt interrupt;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    interrupt.raise();
    ::_exit(interrupt.is_raised() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(!has_something_to_read(interrupt.fd()));
  interrupt.raise();
  CHECK(has_something_to_read(interrupt.fd()));
}

TEST_CASE("transport: a deadline holds while the interrupt's descriptor is readable and the interrupt is not raised") {
  const Listener server(test::swallow);
  const auto link = open(server.address());
  Interrupt interrupt;
  const Descriptor writing(::open(("/proc/self/fd/" + std::to_string(interrupt.fd())).c_str(), O_WRONLY));
  REQUIRE(::write(writing.get(), "", 1) == 1);
  std::promise<void> done;
  std::thread rescue([&, result = done.get_future()] {
    if (result.wait_for(10s) != std::future_status::ready) interrupt.raise();
  });
  char byte = 0;
  const auto text = timed_error_of(100ms, [&] {
    const Interrupt::Scope until(interrupt);
    CHECK(!link->readable(in(10ms)));
    link->read(&byte, 1, in(100ms));
  });
  done.set_value();
  rescue.join();
  CHECK(has(text, "no answer from " + server.address().text()));
}

}  // namespace
}  // namespace delayqueue::redis
