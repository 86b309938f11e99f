// Permanent mistakes: every object throws them at once, as an error that is not a ConnectionError. Temporary errors are
// retried, and logged to stderr if there is no logger.
#include "support/test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "queue/event_sink.h"
#include "support/answers.h"
#include "support/forked.h"
#include "support/local.h"
#include "support/scripted_server.h"
#include "support/tls_files.h"

using delayqueue::ClientOptions;
using delayqueue::SetupError;
using doctest::Contains;

namespace {

// Each throws `Expected` with `text` from its constructor, or from start() or the first call.
template <class Expected>
void check_refused(const std::string& url, const std::string& text, const ClientOptions& connection = {}) {
  CAPTURE(url);
  const auto client = [&] { return delayqueue::Client(url, connection); };
  CHECK_THROWS_WITH_AS(delayqueue::Consumer(client(), "q", ack_all).start(), Contains(text.c_str()), Expected);
  CHECK_THROWS_WITH_AS(delayqueue::Producer(client(), "q").send("x"), Contains(text.c_str()), Expected);
  CHECK_THROWS_WITH_AS(delayqueue::Producer(client(), "q").send_async("x").get(), Contains(text.c_str()), Expected);
  CHECK_THROWS_WITH_AS(static_cast<void>(delayqueue::Inspector(client(), "q").counts()), Contains(text.c_str()),
                       Expected);
}

// Whether each of them throws a SetupError with `text`. For a forked process, where a check would not count.
bool is_refused(const std::string& url, const std::string& text) {
  const std::vector<std::function<void()>> calls = {
      [&] { delayqueue::Consumer(url, "q", ack_all).start(); },
      [&] { delayqueue::Producer(url, "q").send("x"); },
      [&] { delayqueue::Producer(url, "q").send_async("x").get(); },
      [&] { static_cast<void>(delayqueue::Inspector(url, "q").counts()); },
  };
  return std::all_of(calls.begin(), calls.end(), [&](const std::function<void()>& call) -> bool {
    try {
      call();
    } catch (const SetupError& e) {
      return has(e.what(), text);
    }
    return false;
  });
}

// The output of `act` on stderr with the default log.
std::string stderr_of(const std::function<void()>& act) {
  const test::TempDir folder;
  const std::string file = folder.file("stderr");
  const int before = ::dup(STDERR_FILENO), caught = ::open(file.c_str(), O_WRONLY | O_CREAT, 0600);
  REQUIRE(::dup2(caught, STDERR_FILENO) == STDERR_FILENO);
  delayqueue::default_log() = delayqueue::stderr_log();
  act();
  delayqueue::default_log() = delayqueue::no_log();
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  ::close(caught);
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

TEST_CASE("permanent mistakes: a machine without redis-server") {
  const test::TempDir folder;
  const char* const before = std::getenv("DELAYQUEUE_REDIS_SERVER");
  const std::optional<std::string> kept = before != nullptr ? std::optional<std::string>(before) : std::nullopt;
  ::setenv("DELAYQUEUE_REDIS_SERVER", "no-such-redis", 1);
  const std::string text = "private server: no-such-redis is not on PATH; install redis-server or valkey-server";
  // This process may have its private server already, from a test before.
  const auto refuses_private = [&] { return is_refused("embedded:", "embedded: " + text); };
  CHECK((test::kForksMakeThreads ? test::in_child(refuses_private) == 0 : refuses_private()));
  check_refused<SetupError>("embedded:" + folder.file("q"), "embedded:" + folder.file("q") + ": " + text);
  kept ? ::setenv("DELAYQUEUE_REDIS_SERVER", kept->c_str(), 1) : ::unsetenv("DELAYQUEUE_REDIS_SERVER");
}

TEST_CASE("permanent mistakes: a folder with rights for other users") {
  const test::TempDir base;
  REQUIRE(::mkdir(base.file("q").c_str(), 0700) == 0);
  REQUIRE(::chmod(base.file("q").c_str(), 0755) == 0);
  check_refused<SetupError>("embedded:" + base.file("q"), "chmod 700 " + base.file("q"));
}

TEST_CASE("permanent mistakes: a server that exits at every start") {
  const test::TempDir base;
  { delayqueue::Producer("embedded:" + base.file("q"), "q").send("x"); }
  const std::string other = base.file("other");
  REQUIRE(::mkdir(other.c_str(), 0700) == 0);
  REQUIRE(::mkdir((other + "/appendonlydir").c_str(), 0700) == 0);
  std::ofstream(other + "/appendonlydir/appendonly.aof.manifest") << "nonsense\n";
  check_refused<SetupError>("embedded:" + other, "ended with exit status 1");
}

TEST_CASE("permanent mistakes: a path that is too long for a socket") {
  const std::string longer(120, 'x');
  check_refused<std::invalid_argument>("unix:///tmp/" + longer, "this one 125");
  check_refused<std::invalid_argument>("embedded:/tmp/" + longer, "is longer than 107 bytes");
}

TEST_CASE("permanent mistakes: a URL with an unknown scheme or parameter") {
  check_refused<std::invalid_argument>("redis://127.0.0.1/0?retries=3", "");
  check_refused<std::invalid_argument>("reddis://127.0.0.1", "");
}

TEST_CASE("permanent mistakes: a TLS file that cannot be read") {
  ClientOptions connection;
  connection.tls.ca_file = "/no/such/ca.pem";
  check_refused<std::invalid_argument>("rediss://127.0.0.1:1", "tls.ca_file: cannot use '/no/such/ca.pem'", connection);
}

TEST_CASE("permanent mistakes: a wrong password") {
  ClientOptions connection;
  connection.user = "no-such-user";
  connection.password = "wrong";
  check_refused<delayqueue::ReplyError>(test::server().url(), "", connection);
}

TEST_CASE("permanent mistakes: a server that is too old, by its version or by an unknown HELLO") {
  for (const char* version : {"2.8.0", "5.0.14", "6.0.20", "6", "6.1.999", ""}) {
    CAPTURE(version);
    test::ScriptedServer server([&](const auto&) { return test::hello(version); });
    check_refused<delayqueue::ReplyError>("redis://" + server.host(),
                                          std::string(" is too old: ") + version + "; 6.2 or later is needed");
  }
  for (const char* answer : {"-ERR unknown command 'HELLO'\r\n", "-ERR unknown command `HELLO`, with args: `2`\r\n"}) {
    test::ScriptedServer server([&](const auto&) { return answer; });
    check_refused<delayqueue::ReplyError>("redis://" + server.host(), "is too old: it has no command HELLO; 6.2 or");
    check_refused<delayqueue::ReplyError>("redis+cluster://" + server.host(), "is too old");
    check_refused<delayqueue::ReplyError>("redis+sentinel://" + server.host() + "/m", "is too old");
  }
}

TEST_CASE("permanent mistakes: a user without any rights") {
  REQUIRE(test::redis().cmd({"ACL", "SETUSER", "powerless", "on", ">pw", "resetkeys", "-@all"}) == "OK");
  ClientOptions connection;
  connection.user = "powerless";
  connection.password = "pw";
  check_refused<delayqueue::ReplyError>(test::server().url(), "NOPERM", connection);
  test::redis().cmd({"ACL", "DELUSER", "powerless"});
}

TEST_CASE("permanent mistakes: a database that does not exist") {
  check_refused<delayqueue::ReplyError>(test::server().url() + "?db=9999", ", database 9999 answered: ");
}

TEST_CASE("permanent mistakes: a URL of a Cluster or of Sentinels with the address of a single server") {
  const test::Port port;
  delayqueue::PrivateServerOptions options;
  options.arguments = {"--port", std::to_string(port.number()), "--bind", "127.0.0.1"};
  const delayqueue::PrivateServer server(options);
  const std::string host = "127.0.0.1:" + std::to_string(port.number());
  check_refused<delayqueue::ReplyError>("redis+cluster://" + host, "cluster support disabled");
  check_refused<delayqueue::ReplyError>("redis+sentinel://" + host + "/m", "the server is no Sentinel");
  for (const char* quote : {"'", "`"}) {  // the quotes of Redis 7 and of 6.2
    test::ScriptedServer old_server([&](const std::vector<std::string>& words) {
      const std::string refusal = "-ERR unknown command " + (quote + words[0]) + quote + "\r\n";
      return words[0] == "HELLO" ? test::hello("6.2.14") : refusal;
    });
    const std::string scripted = old_server.host();
    check_refused<delayqueue::ReplyError>("redis+sentinel://" + scripted + "/m", "the server is no Sentinel");
    check_refused<delayqueue::ReplyError>("redis+cluster://" + scripted, "the server is no node of a Cluster");
  }
}

// Not permanent, because the right program may get the port later: see Consumer::start.
TEST_CASE("permanent mistakes: a port with another protocol is retried, and the log has advice") {
  const test::Port port, tls_port;
  std::vector<std::string> arguments = test::serving(tls_port);
  arguments.insert(arguments.end(), {"--port", std::to_string(port.number())});
  const delayqueue::PrivateServer server = test::server_with(arguments);
  const auto check_logged = [](const std::string& url, const std::string& text) {
    CAPTURE(url);
    test::Lines lines;
    delayqueue::Consumer consumer(url, "q", ack_all, with(&delayqueue::ConsumerOptions::logger, lines.logger()));
    CHECK_NOTHROW(consumer.start());
    CHECK(eventually([&] { return consumer.metrics().stats.errors >= 2; }));
    CHECK_MESSAGE(test::has(lines.find("queue q, consumer "), text), lines.find(""));
    static_cast<void>(consumer.stop(0ms));
    CHECK_THROWS_WITH_AS(delayqueue::Producer(url, "q").send("x"), Contains(text.c_str()), delayqueue::ConnectionError);
  };
  check_logged("rediss://127.0.0.1:" + std::to_string(port.number()), "use a redis:// URL");
  check_logged("redis://127.0.0.1:" + std::to_string(tls_port.number()), "use a rediss:// URL");
}

TEST_CASE("permanent mistakes: without a logger a consumer logs retried errors to stderr, with no_log() nowhere") {
  const test::TempDir folder;
  const std::string url = "unix://" + folder.file("no-server");
  const auto wait_for_it = [&url](const delayqueue::Logger& logger) {
    return stderr_of([&] {
      delayqueue::Consumer consumer(url, "q", ack_all, with(&delayqueue::ConsumerOptions::logger, logger));
      consumer.start();
      CHECK(eventually([&consumer] { return consumer.metrics().stats.errors >= 2; }));
    });
  };
  const std::string logged = wait_for_it({});
  CHECK_MESSAGE(logged.find("delayqueue: warning: queue q, consumer ") == 0, logged);
  CHECK(test::has(logged, ": cannot connect to unix:"));
  CHECK(wait_for_it(delayqueue::no_log()) == "");
  CHECK(wait_for_it([](const delayqueue::LogEntry&) {}) == "");
}
