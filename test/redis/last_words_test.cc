// A server that hangs up may say why first: who finds the link broken while writing must hear it, too.
#include <delayqueue/delayqueue.h>

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "redis/connection.h"
#include "support/answers.h"
#include "support/raw_server.h"

namespace delayqueue::redis {
namespace {

using namespace std::chrono_literals;
using test::has;
using test::thrown;

const std::string kFull = "-ERR max number of clients reached\r\n";
const std::string kHello = "*4\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n";

void say(int fd, const std::string& words) {
  [[maybe_unused]] const auto sent = ::send(fd, words.data(), words.size(), MSG_NOSIGNAL);
}

// The end of the link is a reset.
void reset_at_end(int fd) {
  const linger now{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

TEST_CASE("last words: a write that fails tells what the server had said, as a ConnectionError") {
  for (const std::string& words : {kFull, "+OK\r\n" + kFull, std::string("-NOAUTH Authentication required.\r\n")}) {
    test::Listener server([&](int fd) {
      char asked[1000];
      if (::read(fd, asked, sizeof asked) <= 0) return;
      say(fd, kHello);
      say(fd, words);
      reset_at_end(fd);
    });
    Connection link(server.address(), {}, {});
    pollfd one{link.fd(), POLLIN, 0};
    do {
      REQUIRE(::poll(&one, 1, 5000) == 1);
    } while ((one.revents & (POLLHUP | POLLERR)) == 0);  // the reset has come, too
    const std::string text = thrown([&] { link.write("*1\r\n$4\r\nPING\r\n"); });
    CHECK_MESSAGE(has(text, "ConnectionError: the server at " + server.address().text()), text);
    CHECK_MESSAGE(has(text, "after the answer: " + words.substr(words.find('-') + 1, 10)), text);
    CHECK(link.is_stale());
  }
}

TEST_CASE("last words: none, or none that is an error, or half a one: the link is just broken") {
  for (const std::string words : {"", "+OK\r\n", "-ERR max numb"}) {
    test::Listener server([&](int fd) {
      char asked[1000];
      if (::read(fd, asked, sizeof asked) <= 0) return;
      say(fd, kHello + words);
      reset_at_end(fd);
    });
    Connection link(server.address(), {}, {});
    pollfd one{link.fd(), POLLIN, 0};
    do {
      REQUIRE(::poll(&one, 1, 5000) == 1);
    } while ((one.revents & (POLLHUP | POLLERR)) == 0);
    const std::string text = thrown([&] { link.write("*1\r\n$4\r\nPING\r\n"); });
    CHECK_MESSAGE(has(text, "ConnectionError: the server at " + server.address().text()), text);
    CHECK_MESSAGE(!has(text, "after the answer"), text);
  }
}

TEST_CASE("last words: at login, however the words, the end and our question race") {
  test::Listener server([](int fd) { say(fd, kFull); });
  for (int i = 0; i < 300; ++i) {
    const std::string text = thrown([&] { Connection(server.address(), {}, {}); });
    REQUIRE_MESSAGE(has(text, "ConnectionError: redis at " + server.address().text()), text);
    REQUIRE_MESSAGE(has(text, "max number of clients reached; raise maxclients"), text);
  }
}

TEST_CASE("last words: of a real server that is full, on a port and on a socket") {
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
