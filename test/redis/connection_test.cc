#include "support/test.h"

#include "redis/connection.h"
#include "redis/topology.h"
#include "support/raw_server.h"

// Connections to a real Redis: login, requests, and detection of stale connections.
namespace delayqueue::redis {
namespace {

using test::address_of;

const std::string kPassword = "s3cret-of-alice";

Login login(const std::string& user, const std::string& password, int db = 0) { return {user, password, "tester", db}; }

std::unique_ptr<Connection> connect(const Login& with, const Address& at = address_of()) {
  return std::make_unique<Connection>(at, with, ClientOptions());
}

// The text of the ReplyError, which must have the address and never the password.
std::string login_refusal(const Login& with, const Address& at = address_of()) {
  try {
    connect(with, at);
  } catch (const ReplyError& e) {
    const std::string text = e.what();
    CHECK_MESSAGE(text.find(at.text()) != std::string::npos, text);
    if (!with.password.empty()) CHECK_MESSAGE(text.find(with.password) == std::string::npos, text);
    return text;
  }
  return "no error";
}

ReplyPtr answer_to(Connection& link, std::initializer_list<std::string_view> words) {
  std::string out;
  append_command(out, words);
  link.write(out);
  return link.read();
}

std::string text_of(const ReplyPtr& reply) { return std::string(Reply(reply.get()).text()); }

class Alice {
 public:
  Alice() { test::redis().cmd({"ACL", "SETUSER", "alice", "reset", "on", ">" + kPassword, "~*", "&*", "+@all"}); }
  ~Alice() { test::redis().cmd({"ACL", "DELUSER", "alice"}); }
};

TEST_CASE("login: without user and password on a server that requires none") {
  const auto link = connect({});
  CHECK(text_of(answer_to(*link, {"PING"})) == "PONG");
  CHECK(text_of(answer_to(*link, {"ACL", "WHOAMI"})) == "default");
  CHECK(link->where() == "unix:" + test::server().socket());
}

TEST_CASE("login: with user and password, as that user") {
  const Alice alice;
  const auto link = connect(login("alice", kPassword));
  CHECK(text_of(answer_to(*link, {"ACL", "WHOAMI"})) == "alice");
}

TEST_CASE("login: passwords may hold any bytes") {
  std::string password;
  for (int byte = 0; byte < 256; ++byte) password += static_cast<char>(byte);
  test::redis().cmd({"ACL", "SETUSER", "bytes", "reset", "on", ">" + password, "~*", "+@all"});
  CHECK(text_of(answer_to(*connect(login("bytes", password)), {"ACL", "WHOAMI"})) == "bytes");
  test::redis().cmd({"ACL", "DELUSER", "bytes"});
}

TEST_CASE("login: a wrong password, a missing one, and an unknown user are refused, with advice") {
  const Alice alice;
  for (const Login& wrong : {login("alice", "wr0ng-pass"), login("alice", ""), login("bob", kPassword)}) {
    const std::string text = login_refusal(wrong);
    CHECK(has(text, "WRONGPASS"));
    CHECK(has(text, "check the user and password"));
  }
}

TEST_CASE("login: what is often wrong with a refused login is named, and no part of it is shown") {
  const Alice alice;
  const auto hint = [](const std::string& user, const std::string& password) {
    const std::string text = login_refusal(login(user, password));
    CHECK(has(text, "WRONGPASS"));
    CHECK_FALSE(has(text, kPassword));
    return text.substr(text.find("check the user and password") + 27);
  };
  for (const std::string& password :
       {std::string(kPassword) + "\n", std::string(kPassword) + "\r\n", std::string(kPassword) + " ",
        " " + std::string(kPassword), "\xef\xbb\xbf" + std::string(kPassword)}) {
    CHECK(
        has(hint("alice", password), "; the password begins or ends with a blank, a line break or a byte order mark"));
  }
  CHECK(has(hint("alice", '"' + std::string(kPassword) + '"'), "; the password is in quotation marks"));
  CHECK(has(hint("alice", '\'' + std::string(kPassword) + '\''), "; the password is in quotation marks"));
  CHECK(has(hint(kPassword, ""), "; there is a user but no password: a password without a user is written redis://:"));
  CHECK(hint("alice", "wr0ng-pass").empty());
}

TEST_CASE("login: a server with a password refuses a missing and a wrong one") {
  const PrivateServer server;
  test::Redis(server.socket()).cmd({"CONFIG", "SET", "requirepass", kPassword});
  const std::string none = login_refusal({}, address_of(server));
  CHECK(has(none, "NOAUTH"));
  CHECK(has(none, "give a password in the URL or in ClientOptions::password"));
  const std::string other = login_refusal(login("", "wr0ng-pass"), address_of(server));
  CHECK(has(other, "WRONGPASS"));
  CHECK(text_of(answer_to(*connect(login("", kPassword), address_of(server)), {"PING"})) == "PONG");
}

TEST_CASE("login: a disabled user is refused") {
  const Alice alice;
  test::redis().cmd({"ACL", "SETUSER", "alice", "off"});
  CHECK(has(login_refusal(login("alice", kPassword)), "WRONGPASS"));
}

TEST_CASE("login: a user without the right to a command can log in; the error of the command has advice") {
  test::redis().cmd({"ACL", "SETUSER", "alice", "reset", "on", ">" + kPassword, "~*", "+@all", "-get"});
  const auto link = connect(login("alice", kPassword));
  const auto reply = answer_to(*link, {"GET", "x"});
  CHECK(Reply(reply.get()).is_error());
  try {
    throw_if_error(Reply(reply.get()), link->where());
    CHECK(false);
  } catch (const ReplyError& e) {
    CHECK(has(e.what(), "NOPERM"));
    CHECK(has(e.what(), "ACL rule"));
    CHECK(has(e.what(), link->where()));
  }
  test::redis().cmd({"ACL", "DELUSER", "alice"});
}

TEST_CASE("login: the database number is honoured") {
  const auto link = connect(login("", "", 3));
  CHECK(text_of(answer_to(*link, {"SET", "only-here", "x"})) == "OK");
  CHECK(test::redis().cmd({"GET", "only-here"}).nil());
  test::redis().cmd({"SELECT", "3"});
  CHECK(test::redis().cmd({"GET", "only-here"}) == "x");
  test::redis().cmd({"DEL", "only-here"});
  test::redis().cmd({"SELECT", "0"});
}

TEST_CASE("login: a database that does not exist is refused with its number") {
  for (const int db : {16, 99, -1}) {
    const std::string text = login_refusal(login("", "", db));
    CHECK(has(text, "database " + std::to_string(db)));
    CHECK(has(text, "out of range"));
  }
}

TEST_CASE("login: the client's name is in CLIENT LIST, with and without a password") {
  const Alice alice;
  for (Login with : {login("", ""), login("alice", kPassword)}) {
    with.client_name = "who-am-i:" + with.user;
    const auto link = connect(with);
    CHECK(has(test::redis().cmd({"CLIENT", "LIST"}).text, "name=" + with.client_name + " "));
  }
  Login spaced = login("alice", kPassword);
  spaced.client_name = "two words";
  CHECK(has(login_refusal(spaced), "name"));
}

TEST_CASE("login: each option overrides its part of the URL") {
  Url url = parse_url("redis://carol:fromurl@localhost/5");
  ClientOptions options;
  Login merged = login_of(url, options);
  CHECK(merged.user == "carol");
  CHECK(merged.password == "fromurl");
  CHECK(merged.db == 5);
  CHECK(merged.client_name == "delayqueue");
  options.user = "alice";
  options.password = kPassword;
  options.client_name = "me";
  merged = login_of(url, options);
  CHECK(merged.user == "alice");
  CHECK(merged.password == kPassword);
  CHECK(merged.client_name == "me");
}

TEST_CASE("connection: answers come in the order of the requests; errors are answers, too") {
  const auto link = connect({});
  std::string out;
  append_command(out, {"ECHO", "one"});
  append_command(out, {"NOSUCHCOMMAND"});
  append_command(out, {"ECHO", std::string_view("\0\r\n", 3)});
  append_command(out, {"ECHO", ""});
  append_command(out, {"GET", "no-such-key"});
  link->write(out);
  CHECK(text_of(link->read()) == "one");
  const auto error = link->read();
  CHECK(Reply(error.get()).is_error());
  CHECK(text_of(link->read()) == std::string("\0\r\n", 3));
  CHECK(text_of(link->read()) == "");
  const auto nil = link->read();
  CHECK(Reply(nil.get()).is_nil());
  CHECK_FALSE(link->is_stale());
}

TEST_CASE("connection: requests and answers of many megabytes arrive complete") {
  const auto link = std::make_unique<Connection>(address_of(), Login(),
                                                 with(&ClientOptions::command_timeout, std::chrono::minutes(1)));
  std::string big(30'000'000, '\0');
  for (std::size_t i = 0; i < big.size(); ++i) big[i] = static_cast<char>(i * 7);
  const auto reply = answer_to(*link, {"ECHO", big});
  CHECK((Reply(reply.get()).text() == big));
}

TEST_CASE("connection: the error for a key of another type has advice") {
  test::redis().cmd({"LPUSH", "a-list", "x"});
  const auto link = connect({});
  const auto reply = answer_to(*link, {"GET", "a-list"});
  test::redis().cmd({"DEL", "a-list"});
  CHECK_THROWS_WITH_AS(
      throw_if_error(Reply(reply.get()), "here"),
      ("redis at here answered: " + text_of(reply) + "; something else uses a key of this queue").c_str(), ReplyError);
}

TEST_CASE("is_stale: false on a healthy connection, true once the server has closed it") {
  const auto link = connect({});
  const auto id = answer_to(*link, {"CLIENT", "ID"});
  CHECK_FALSE(link->is_stale());
  CHECK_FALSE(link->is_stale());
  CHECK(test::redis().cmd({"CLIENT", "KILL", "ID", std::to_string(Reply(id.get()).integer())}) == 1);
  CHECK(test::eventually([&] { return link->is_stale(); }));
  CHECK_THROWS_AS(answer_to(*link, {"PING"}), ConnectionError);
  CHECK(link->is_stale());
}

TEST_CASE("is_stale: true when the server has ended, and after a failed request even if it is back") {
  PrivateServer server;
  const auto link = connect({}, address_of(server));
  server.kill();
  CHECK(test::eventually([&] { return link->is_stale(); }));
  try {
    answer_to(*link, {"PING"});
    CHECK(false);
  } catch (const ConnectionError& e) {
    CHECK(has(e.what(), "unix:" + server.socket()));
    CHECK(has(e.what(), "closed the connection"));
  }
  server.restart();
  CHECK(link->is_stale());
  CHECK(text_of(answer_to(*connect({}, address_of(server)), {"PING"})) == "PONG");
}

TEST_CASE("is_stale: true when an unrequested answer has arrived") {
  const auto link = connect({});
  answer_to(*link, {"SUBSCRIBE", "a-channel"});
  CHECK_FALSE(link->is_stale());
  test::redis().cmd({"PUBLISH", "a-channel", "hello"});
  CHECK(test::eventually([&] { return link->is_stale(); }));
}

TEST_CASE("read_until: null without an answer, else the answer") {
  const auto link = connect({});
  answer_to(*link, {"SUBSCRIBE", "a-channel"});
  CHECK(link->read_until(Clock::now()) == nullptr);
  CHECK(link->read_until(Clock::now() + 20ms) == nullptr);
  CHECK_FALSE(link->is_stale());
  test::redis().cmd({"PUBLISH", "a-channel", "hello"});
  const auto message = link->read_until(Clock::now() + 10s);
  REQUIRE(message != nullptr);
  CHECK(Reply(message.get())[2].text() == "hello");
}

TEST_CASE("reply: reading it as a type that it does not have is a ReplyError") {
  const auto link = connect({});
  const auto text = answer_to(*link, {"ECHO", "12x"});
  const auto number = answer_to(*link, {"INCR", "a-number"});
  const auto nil = answer_to(*link, {"GET", "no-such-key"});
  const auto list = answer_to(*link, {"TIME"});
  test::redis().cmd({"DEL", "a-number"});
  CHECK_THROWS_AS(Reply(text.get()).integer(), ReplyError);
  CHECK_THROWS_AS(Reply(text.get()).size(), ReplyError);
  CHECK_THROWS_AS(Reply(number.get()).text(), ReplyError);
  CHECK_THROWS_AS(Reply(number.get())[0], ReplyError);
  CHECK_THROWS_AS(Reply(nil.get()).text(), ReplyError);
  CHECK_THROWS_AS(Reply(nil.get()).integer(), ReplyError);
  CHECK_THROWS_AS(Reply(nil.get()).size(), ReplyError);
  CHECK_THROWS_AS(Reply(list.get()).text(), ReplyError);
  CHECK_THROWS_AS(Reply(list.get())[2], ReplyError);
  CHECK_THROWS_AS(Reply(nullptr).text(), ReplyError);
  CHECK_THROWS_AS(Reply(nullptr).size(), ReplyError);
  CHECK(Reply(list.get()).size() == 2);
  CHECK(Reply(list.get())[0].integer() > 1'600'000'000);
}

TEST_CASE("errors: temporary ones are ConnectionErrors, all others ReplyErrors") {
  for (const char* error : {"LOADING Redis is loading the dataset in memory", "BUSY Redis is busy running a script",
                            "MASTERDOWN Link with MASTER is down", "TRYAGAIN Multiple keys request during rehashing",
                            "CLUSTERDOWN The cluster is down", "READONLY You can't write against a read only replica.",
                            "ERR max number of clients reached"}) {
    CHECK_MESSAGE(is_temporary(error), error);
  }
  for (const char* error : {"ERR unknown command", "WRONGTYPE Operation", "OOM command not allowed", "BUSYKEY Target",
                            "NOAUTH Authentication required.", "", "LOAD", "NOPERM this user"}) {
    CHECK_MESSAGE(!is_temporary(error), error);
  }
}

}  // namespace
}  // namespace delayqueue::redis
