#include "support/test.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "redis/connection.h"
#include "redis/pipeline.h"
#include "store/moves.h"
#include "store/queries.h"
#include "support/raw_server.h"
#include "support/scripted_server.h"

// Faulty servers, played by the test: none may crash or block a client, or get its password into an error.
namespace delayqueue::redis {
namespace {

using test::hello;
using test::Listener;

const Login kLogin = {"alice", "s3cret-of-alice", "tester", 0};

ClientOptions patient(milliseconds connect, milliseconds command) {
  ClientOptions options;
  options.connect_timeout = connect;
  options.command_timeout = command;
  return options;
}

ClientOptions patient(milliseconds time) { return patient(time, time); }

// Waits for a request, then sends `bytes`. False when the client has closed the connection.
bool answer(int fd, const std::string& bytes) {
  char asked[65536];
  if (::read(fd, asked, sizeof asked) <= 0) return false;
  for (std::size_t sent = 0; sent < bytes.size();) {
    const auto n = ::send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return false;
    sent += static_cast<std::size_t>(n);
  }
  return true;
}

enum class Then { close, be_silent };

// A server that accepts any login and then sends `bytes` as the answer to the next request.
std::function<void(int)> redis_with_answer(const std::string& bytes, Then then = Then::close) {
  return [bytes, then](int fd) {
    if (answer(fd, hello()) && answer(fd, bytes) && then == Then::be_silent) test::swallow(fd);
  };
}

// "ok", or the kind and text of the error, which must have the address and not the password.
template <class Call>
std::string outcome(const Address& address, Call call) {
  std::string kind = "ok";
  std::string text;
  try {
    call();
    return kind;
  } catch (const ReplyError& e) {
    kind = "ReplyError: ";
    text = e.what();
  } catch (const ConnectionError& e) {
    kind = "ConnectionError: ";
    text = e.what();
    CHECK_MESSAGE(text.find(address.text()) != std::string::npos, text);
  }
  CHECK_MESSAGE(text.find(kLogin.password) == std::string::npos, text);
  return kind + text;
}

std::string log_in(const Listener& server, milliseconds time = 5s) {
  const auto text = outcome(server.address(), [&] { Connection(server.address(), kLogin, patient(time)); });
  if (text != "ok") CHECK_MESSAGE(text.find(server.address().text()) != std::string::npos, text);
  return text;
}

bool starts(const std::string& text, const std::string& part) { return text.compare(0, part.size(), part) == 0; }

TEST_CASE("no redis: the error for a web server is that it does not speak Redis' protocol") {
  const Listener server([](int fd) {
    answer(fd, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n400 Bad Request");
  });
  const std::string text = log_in(server);
  CHECK_MESSAGE(starts(text, "ConnectionError: "), text);
  CHECK(has(text, "does not speak Redis' protocol"));
}

TEST_CASE("no redis: a server that greets first, closes at once, or never answers, is an error in time") {
  for (const std::string greeting :
       {"SSH-2.0-OpenSSH_9.2\r\n", "220 mail ESMTP\r\n", "\x4a\x00\x00\x00\x0a", "\x15\x03"}) {
    const Listener server([&](int fd) {
      CHECK(::write(fd, greeting.data(), greeting.size()) > 0);
      test::swallow(fd);
    });
    CHECK(starts(log_in(server, 300ms), "ConnectionError: "));
  }
  const Listener closing([](int) {});
  CHECK(has(log_in(closing), "closed the connection"));
  const Listener silent(test::swallow);
  const auto start = Clock::now();
  CHECK(has(log_in(silent, 100ms), "no answer from "));
  CHECK(Clock::now() - start >= 100ms);
  CHECK(Clock::now() - start < 3s);
}

TEST_CASE("too old: a server without HELLO, or older than 6.2, is refused with its version") {
  for (const std::string unknown :
       {"-ERR unknown command `HELLO`, with args beginning with: `2`, \r\n", "-ERR unknown command 'HELLO'\r\n"}) {
    const Listener server([&](int fd) { answer(fd, unknown); });
    const std::string text = log_in(server);
    CHECK_MESSAGE(starts(text, "ReplyError: "), text);
    CHECK(has(text, "too old"));
    CHECK(has(text, "6.2 or later is needed"));
  }
  for (const std::string version : {"6.0.9", "6.1.240", "5.0.14", "2.8", "-2147483648.9", "unstable", ""}) {
    const Listener server([&](int fd) { answer(fd, hello(version)); });
    const std::string text = log_in(server);
    CHECK_MESSAGE(starts(text, "ReplyError: "), text);
    CHECK(has(text, "is too old: " + version + "; 6.2 or later is needed"));
  }
}

TEST_CASE("too old: 6.2 and later versions are accepted") {
  for (const std::string version :
       {"6.2.0", "6.2.14", "6.10.1", "7.0.15", "8.0", "10.1.2", "255.255.255", "2147483647.1"}) {
    const Listener server([&](int fd) { answer(fd, hello(version)); });
    CHECK(log_in(server) == "ok");
  }
}

TEST_CASE("login: a server that is loading, full or read-only is a ConnectionError; a refusal is a ReplyError") {
  struct {
    const char* answer;
    const char* kind;
  } const cases[] = {{"-LOADING Redis is loading the dataset in memory\r\n", "ConnectionError: "},
                     {"-ERR max number of clients reached\r\n", "ConnectionError: "},
                     {"-MASTERDOWN Link with MASTER is down\r\n", "ConnectionError: "},
                     {"-NOPROTO unsupported protocol version\r\n", "ReplyError: "},
                     {"-DENIED Redis is running in protected mode\r\n", "ReplyError: "},
                     {"-WRONGPASS invalid username-password pair\r\n", "ReplyError: "}};
  for (const auto& one : cases) {
    const Listener server([&](int fd) { answer(fd, one.answer); });
    const std::string text = log_in(server);
    CHECK_MESSAGE(starts(text, one.kind), text);
  }
}

TEST_CASE("login: an answer to HELLO of any other form is an error, not a crash") {
  for (const std::string reply :
       {"+OK\r\n", ":1\r\n", "$-1\r\n", "*-1\r\n", "$3\r\nfoo\r\n", "*2\r\n$7\r\nversion\r\n:7\r\n",
        "*2\r\n:1\r\n:2\r\n", "*2\r\n*0\r\n*0\r\n", "%1\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n"}) {
    CAPTURE(reply);
    const Listener server([&](int fd) { answer(fd, reply); });
    const std::string text = outcome(server.address(), [&] { Connection(server.address(), kLogin, patient(300ms)); });
    CHECK_MESSAGE((starts(text, "ReplyError: ") || starts(text, "ConnectionError: ")), text);
  }
}

TEST_CASE("a server that closes in the middle of an answer is a ConnectionError, and the connection is stale") {
  const std::vector<std::string> halves = {
      "", "+", "$5\r\nhel", "*2\r\n$1\r\na\r\n", "*2\r\n", "$1000000\r\n" + std::string(5000, 'x')};
  for (const auto& half : halves) {
    CAPTURE(half.substr(0, 20));
    const Listener server(redis_with_answer(half));
    Connection link(server.address(), kLogin, patient(5s));
    const std::string text = outcome(server.address(), [&] {
      link.write("*1\r\n$4\r\nPING\r\n");
      link.read();
    });
    CHECK_MESSAGE(starts(text, "ConnectionError: "), text);
    CHECK(link.is_stale());
  }
}

TEST_CASE("a server that is silent longer than the command timeout is a ConnectionError in time") {
  for (const std::string half : {"", "$5\r\nhel"}) {
    const Listener server(redis_with_answer(half, Then::be_silent));
    Connection link(server.address(), kLogin, patient(5s, 100ms));
    const auto start = Clock::now();
    const std::string text = outcome(server.address(), [&] {
      link.write("*1\r\n$4\r\nPING\r\n");
      link.read();
    });
    CHECK(Clock::now() - start >= 98ms);
    CHECK(Clock::now() - start < 3s);
    CHECK(has(text, "no answer from "));
    CHECK(link.is_stale());
  }
}

TEST_CASE("after a failure a connection has since when nothing passed, whichever call waited") {
  constexpr milliseconds kTimeout{200};
  const std::string ping = "*1\r\n$4\r\nPING\r\n";
  const std::vector<std::function<void(Connection&)>> calls = {
      [](Connection& link) { link.read(); },
      [](Connection& link) {
        while (link.read_arrived() == nullptr) std::this_thread::sleep_for(1ms);
      },
      [](Connection& link) { link.write(std::string(50'000'000, 'x')); },
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    CAPTURE(i);
    std::promise<void> over;
    const Listener server([over = over.get_future().share()](int fd) {
      if (answer(fd, hello())) over.wait();  // reads and sends nothing more
    });
    Connection link(server.address(), kLogin, patient(5s, kTimeout));
    const auto begun = Clock::now();
    CHECK(link.silent_since() >= begun);
    link.write(ping);
    CHECK(starts(outcome(server.address(), [&] { calls[i](link); }), "ConnectionError: "));
    CHECK(Clock::now() - link.silent_since() >= kTimeout);
    CHECK(link.silent_since() >= begun);
    over.set_value();
  }
}

TEST_CASE("a connection is closed by a reset if a request on it has failed, so that no byte of it follows later") {
  for (const bool fails : {true, false}) {
    CAPTURE(fails);
    std::promise<int> closed;
    const Listener server([&](int fd) {
      char asked[65536];
      if (!answer(fd, hello()) || ::read(fd, asked, sizeof asked) <= 0) return;
      if (!fails) ::send(fd, "+PONG\r\n", 7, MSG_NOSIGNAL);
      closed.set_value(::read(fd, asked, sizeof asked) == 0 ? 0 : errno);
    });
    {
      Connection connection(server.address(), kLogin, patient(5s, fails ? 50ms : 5s));
      Pipeline pipeline(connection);
      pipeline.command("PING");
      CHECK((outcome(server.address(), [&] { pipeline.run(); }) != "ok") == fails);
    }
    CHECK(closed.get_future().get() == (fails ? ECONNRESET : 0));
  }
}

TEST_CASE("a server that sends byte by byte never delays a call beyond the command timeout") {
  const Listener server([](int fd) {
    if (!answer(fd, hello() + "$1000\r\n")) return;
    while (::send(fd, "x", 1, MSG_NOSIGNAL) == 1) ::usleep(5000);
  });
  Connection link(server.address(), kLogin, patient(5s, 150ms));
  const auto start = Clock::now();
  CHECK(starts(outcome(server.address(), [&] { link.read(); }), "ConnectionError: "));
  CHECK(Clock::now() - start < 3s);
}

// How long a login with a timeout of 1 s takes at a server that accepts after 900 ms and never answers.
Clock::duration time_of_half_a_login() {
  const test::TempDir dir;
  Address address;
  address.path = dir.file("s");
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  address.path.copy(name.sun_path, sizeof name.sun_path - 1);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(::bind(listener, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0);
  REQUIRE(::listen(listener, 0) == 0);
  const auto filler = open_transport(address, {}, Clock::now() + 1s);  // fills the backlog until it is accepted
  std::vector<int> accepted;
  std::thread late([&] {
    std::this_thread::sleep_for(900ms);
    for (int i = 0; i < 2; ++i) accepted.push_back(::accept(listener, nullptr, nullptr));
  });
  const auto start = Clock::now();
  const std::string text = outcome(address, [&] { Connection(address, kLogin, patient(1s)); });
  const auto took = Clock::now() - start;
  CHECK_MESSAGE(starts(text, "ConnectionError: "), text);
  const auto last = outcome(address, [&] { open_transport(address, {}, Clock::now() + 1s); });  // so accept() returns
  late.join();
  for (const int fd : accepted) ::close(fd);
  ::close(listener);
  return took;
}

TEST_CASE("the connect timeout covers connecting and login together") {
  auto took = time_of_half_a_login();
  CHECK(took >= 998ms);
  // A busy machine may be late once. Two separate timeouts would take 1.9 s every time.
  for (int more = 3; more > 0 && took >= 1600ms; --more) took = time_of_half_a_login();
  CHECK(took < 1600ms);
}

// Sends one request and reads answers until the connection fails. Returns the number of answers, as text.
std::string read_all(const std::string& bytes) {
  const Listener server(redis_with_answer(bytes));
  Connection link(server.address(), kLogin, patient(2s));
  int answers = 0;
  const std::string text = outcome(server.address(), [&] {
    link.write("*1\r\n$4\r\nPING\r\n");
    while (link.read() != nullptr) ++answers;
  });
  CHECK_MESSAGE(starts(text, "ConnectionError: "), text);
  CHECK(link.is_stale());
  return std::to_string(answers);
}

TEST_CASE("nonsense: huge, negative and non-numeric lengths, and endless nesting, are errors") {
  std::string nested;
  for (int i = 0; i < 100'000; ++i) nested += "*1\r\n";
  const std::vector<std::string> nonsense = {"$9223372036854775807\r\nx\r\n",
                                             "$1000000000000\r\nx\r\n",
                                             "$-2\r\n",
                                             "$abc\r\n",
                                             "$\r\n",
                                             "*20000000\r\n",
                                             "*20000000\r\n$1\r\na\r\n",
                                             "*9223372036854775807\r\n",
                                             "*-2\r\n",
                                             "*x\r\n",
                                             "*2\r\n*20000000\r\n",
                                             nested,
                                             "!3\r\nfoo\r\n",
                                             "@",
                                             "\r\n",
                                             std::string(100'000, '\0'),
                                             std::string(100'000, '+'),
                                             ":123456789012345678901234567890\r\n",
                                             ":\r\n",
                                             "*1\r\n:12x\r\n"};
  for (const auto& bytes : nonsense) {
    CAPTURE(bytes.substr(0, 40));
    read_all(bytes);
  }
}

TEST_CASE("nonsense: valid answers before it are returned") {
  CHECK(read_all("+OK\r\n:5\r\n$3\r\nfoo\r\n?") == "3");
  CHECK(read_all("+OK\r\n-ERR no\r\n*1\r\n$-1\r\n$5\r\nabc") == "3");
}

TEST_CASE("nonsense: random bytes, and valid answers with some bytes changed, are answers or errors") {
  std::mt19937 random(20240229);
  const std::string alphabet = "*$:+-_%~,#0123456789\r\n\r\nabc";
  const std::string good = "*3\r\n$5\r\nhello\r\n:1234\r\n*2\r\n+OK\r\n$-1\r\n-ERR no\r\n$0\r\n\r\n";
  for (int round = 0; round < 150; ++round) {
    std::string bytes;
    if (round % 3 == 0) {
      for (int i = 0; i < 200; ++i) bytes += static_cast<char>(random());
    } else if (round % 3 == 1) {
      for (int i = 0; i < 200; ++i) bytes += alphabet[random() % alphabet.size()];
    } else {
      bytes = good + good;
      for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = alphabet[random() % alphabet.size()];
    }
    CAPTURE(round);
    read_all(bytes);
  }
}

// Every request of the store gets an answer of another form: each results in one of the two errors or in a value, and
// none crashes.
TEST_CASE("nonsense: an answer of another form than the move or view expects is a ReplyError") {
  const std::string id = "00000000-0000-7000-8000-000000000000";
  const std::vector<std::string> answers = {"$-1\r\n",
                                            "*-1\r\n",
                                            "*0\r\n",
                                            "*1\r\n$-1\r\n",
                                            "*2\r\n:1\r\n*1\r\n*0\r\n",
                                            "*3\r\n:1\r\n:-1\r\n*0\r\n",
                                            "*7\r\n:1\r\n:2\r\n$1\r\nx\r\n+a b c\r\n+a b c\r\n:1\r\n:1\r\n",
                                            "*13\r\n" + [] {
                                              std::string many;
                                              for (int i = 0; i < 13; ++i) many += "*0\r\n";
                                              return many;
                                            }()};
  const store::Moves moves(store::make_keys("q", {}));
  const store::Keys& keys = moves.keys();
  const store::Receipt receipt{id, 5};
  int refused = 0;
  for (const auto& reply : answers) {
    CAPTURE(reply);
    std::string all;
    for (int i = 0; i < 23; ++i) all += reply;
    const Listener server(redis_with_answer(all, Then::be_silent));
    Connection link(server.address(), kLogin, patient(5s));
    Pipeline p(link);
    const auto send = moves.send(p, {{id, "x"}}, {});
    const auto promoted = moves.pending2ready(p, true, {"me", std::chrono::seconds(1)});
    const auto taken = moves.ready2unack(p, {1, 1, 1}, 1s);
    const auto both = moves.pending2unack(p, true, {"me", std::chrono::seconds(1)}, {1, 1}, 1s);
    const auto bodies = moves.bodies(p, {id});
    const auto acked = moves.ack(p, {receipt});
    const auto nacked = moves.nack(p, {{receipt, 1s, ""}});
    const auto renewed = moves.renew(p, {receipt}, 7);
    const auto released = moves.release(p, {receipt}, 0ms);
    const auto reclaimed = moves.unack2retry(p);
    const auto persisted = moves.persist(p, {id});
    const auto garbage = moves.sample_garbage(p);
    const auto collected = moves.gc(p, {id});
    const auto notes = moves.sample_metadata(p, keys.attempts);
    const auto deleted = moves.delete_orphaned_metadata(p, {id});
    const auto cancelled = moves.cancel(p, id);
    const auto moved = moves.reschedule(p, id, {});
    const auto redriven = moves.redrive(p, {id}, 1);
    const auto purged = moves.purge_zset(p, keys.dead, 1, std::nullopt, 0);
    const auto counts = store::counts(p, keys);
    const auto page = store::page_of_zset(p, keys, keys.pending, {}, 1);
    const auto list = store::page_of_list(p, keys, keys.ready, {}, 1);
    const auto found = store::find(p, keys, id);
    REQUIRE(p.size() == 23);
    p.run();
    const auto read = [&](auto get) {
      if (starts(outcome(server.address(), get), "ReplyError: ")) ++refused;
    };
    read([&] { send.get(), acked.get(), nacked.get(); });
    read([&] { nacked.get(); });
    read([&] { acked.get(); });
    read([&] { promoted.get(); });
    read([&] { taken.get(); });
    read([&] { both.get(); });
    read([&] { bodies.get(); });
    read([&] { renewed.get(); });
    read([&] { released.get(); });
    read([&] { reclaimed.get(); });
    read([&] { persisted.get(); });
    read([&] { garbage.get(); });
    read([&] { collected.get(); });
    read([&] { notes.get(); });
    read([&] { deleted.get(); });
    read([&] { cancelled.get(); });
    read([&] { moved.get(); });
    read([&] { redriven.get(); });
    read([&] { purged.get(); });
    read([&] { counts.get(); });
    read([&] { page.get(); });
    read([&] { list.get(); });
    read([&] { found.get(); });
  }
  CHECK(refused > 23 * 5);
}

}  // namespace
}  // namespace delayqueue::redis
