// The final error of a server: it may send an error before it closes the connection. A client whose write fails must
// report that error.
#include "support/test.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "redis/connection.h"
#include "support/answers.h"
#include "support/raw_server.h"
#include "support/scripted_server.h"

namespace delayqueue::redis {
namespace {

using test::hello;

const std::string kFull = "-ERR max number of clients reached\r\n";

void send_bytes(int fd, const std::string& words) {
  [[maybe_unused]] const auto sent = ::send(fd, words.data(), words.size(), MSG_NOSIGNAL);
}

// Makes the end of the connection a reset.
void reset_at_end(int fd) {
  const linger now{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

TEST_CASE("final error: a failed write throws ConnectionError with the error that the server sent before") {
  for (const std::string& words : {kFull, "+OK\r\n" + kFull, std::string("-NOAUTH Authentication required.\r\n")}) {
    test::Listener server([&](int fd) {
      char asked[1000];
      if (::read(fd, asked, sizeof asked) <= 0) return;
      send_bytes(fd, hello());
      send_bytes(fd, words);
      reset_at_end(fd);
    });
    Connection link(server.address(), {}, {});
    pollfd one{link.fd(), POLLIN, 0};
    do {
      REQUIRE(::poll(&one, 1, 5000) == 1);
    } while ((one.revents & (POLLHUP | POLLERR)) == 0);  // the reset has arrived, too
    const std::string text = thrown([&] { link.write("*1\r\n$4\r\nPING\r\n"); });
    CHECK(has(text, "ConnectionError: the server at " + server.address().text()));
    CHECK(has(text, "after the answer: " + words.substr(words.find('-') + 1, 10)));
    CHECK(link.is_stale());
  }
}

TEST_CASE("final error: without a whole one, a failed write reports only the closed connection") {
  for (const std::string words : {"", "+OK\r\n", "-ERR max numb"}) {
    test::Listener server([&](int fd) {
      char asked[1000];
      if (::read(fd, asked, sizeof asked) <= 0) return;
      send_bytes(fd, hello() + words);
      reset_at_end(fd);
    });
    Connection link(server.address(), {}, {});
    pollfd one{link.fd(), POLLIN, 0};
    do {
      REQUIRE(::poll(&one, 1, 5000) == 1);
    } while ((one.revents & (POLLHUP | POLLERR)) == 0);
    const std::string text = thrown([&] { link.write("*1\r\n$4\r\nPING\r\n"); });
    CHECK(has(text, "ConnectionError: the server at " + server.address().text()));
    CHECK_MESSAGE(!has(text, "after the answer"), text);
  }
}

TEST_CASE("final error: reported at login, in any order of the error, the close and our request") {
  test::Listener server([](int fd) { send_bytes(fd, kFull); });
  for (int i = 0; i < 300; ++i) {
    const std::string text = thrown([&] { Connection(server.address(), {}, {}); });
    REQUIRE_MESSAGE(has(text, "ConnectionError: redis at " + server.address().text()), text);
    REQUIRE_MESSAGE(has(text, "max number of clients reached; raise maxclients"), text);
  }
}

TEST_CASE("final error: of a real server that is full, over TCP and over a unix socket") {
  const test::RedisChild server;
  test::Redis admin(server.unix_socket().path);
  REQUIRE(admin.cmd({"CONFIG", "SET", "maxclients", "1"}) == "OK");
  for (const Address& address : {server.plain(), server.unix_socket()}) {
    for (int i = 0; i < 200; ++i) {
      const std::string text = thrown([&] { Connection(address, {}, {}); });
      REQUIRE_MESSAGE(has(text, "max number of clients reached; raise maxclients"), text);
    }
  }
}

}  // namespace
}  // namespace delayqueue::redis
