// TLS failures: producer, consumer and inspector report them in time, and continue when they are fixed.
#include "support/test.h"

#include <signal.h>
#include <sys/socket.h>

#include "support/answers.h"
#include "support/raw_server.h"
#include "support/tls_files.h"

namespace delayqueue {
namespace {

using test::Certificate;
using test::Lines;
using test::RedisChild;
using test::serving;
using test::TlsFiles;
using test::trusting;
using Clock = std::chrono::steady_clock;

const TlsFiles& files() { return TlsFiles::shared(); }

constexpr auto kSilence = 500ms;  // the timeouts for a silent server: the calls take all of it

// All three must report an error with `parts`, within the connect timeout.
void check_all(const std::string& url, const TlsOptions& tls, const std::vector<std::string>& parts,
               std::chrono::milliseconds timeout = 10s) {
  ClientOptions connection;
  connection.connect_timeout = connection.command_timeout = timeout;
  connection.tls = tls;
  const auto check = [&](const std::string& text) {
    for (const std::string& part : parts) CHECK(has(text, part));
  };
  const Client client(url, connection);
  Producer producer(client, "orders");
  Inspector inspector(client, "orders");
  for (const std::function<void()>& call : {std::function<void()>([&] { producer.send("x"); }),
                                            std::function<void()>([&] { return inspector.counts(); })}) {
    const auto start = Clock::now();
    const std::string text = thrown(call);
    CHECK(Clock::now() - start < timeout + 3s);
    CHECK(has(text, "ConnectionError: "));
    check(text);
  }
  Lines lines;
  ConsumerOptions consuming = test::quick();
  consuming.logger = lines.logger();
  Consumer consumer(
      client, "orders", [](const Message&) { return ack(); }, consuming);
  const auto start = Clock::now();
  consumer.start();  // does not throw, because the fault may be temporary
  CHECK(Clock::now() - start < timeout + 3s);
  CHECK(eventually([&] { return consumer.metrics().stats.errors >= 2; }, kPatience));
  check(lines.find(parts.front()));
  check(consumer.metrics().stats.last_error);
  CHECK(!consumer.metrics().stats.connected);
  CHECK(consumer.metrics().stats.connects == 0);
  CHECK(lines.count() <= 3);
  CHECK(consumer.stop(kPatience));
}

std::string secure(const RedisChild& server, const std::string& host = "127.0.0.1") {
  return "rediss://" + server.tls(host).text();
}

TEST_CASE("tls: a certificate for another host") {
  const RedisChild server(serving(files().named));
  check_all(secure(server), trusting(files().ca),
            {"is not valid for 127.0.0.1", server.tls().text(), "set tls.server_name if the name"});
  check_all(secure(server, "localhost"), trusting(files().ca), {"is not valid for localhost", "set tls.server_name"});
}

TEST_CASE("tls: an expired certificate") {
  const RedisChild server(serving(files().expired));
  check_all(secure(server), trusting(files().ca),
            {"certificate has expired", server.tls().text(), "it must be renewed, or this machine's clock is wrong"});
}

TEST_CASE("tls: an authority that is neither in ca_file nor in the system's store") {
  const RedisChild server(serving(files().server));
  check_all(secure(server), trusting(files().other_ca),
            {"is not signed by a trusted authority", server.tls().text(), "tls.ca_file '" + files().other_ca + "'"});
  check_all(secure(server), {}, {"is not signed by a trusted authority", "set tls.ca_file to the authority's"});
}

TEST_CASE("tls: a client certificate that is missing, or of another authority") {
  const RedisChild server(serving(files().server, "yes"));
  check_all(secure(server), trusting(files().ca),
            {"client certificate", server.tls().text(), "set tls.cert_file and tls.key_file"});
  check_all(secure(server), trusting(files().ca, files().foreign_client),
            {"refuses the client certificate '" + files().foreign_client.cert + "'", server.tls().text()});
}

TEST_CASE("tls: a server without TLS, and a client without it") {
  const RedisChild plain;
  check_all("rediss://" + plain.plain().text(), trusting(files().ca), {plain.plain().text(), "redis:// URL"}, kSilence);
  const RedisChild server(serving(files().server));
  check_all("redis://" + server.tls().text(), {}, {server.tls().text(), "TLS", "use a rediss:// URL"}, kSilence);
}

TEST_CASE("tls: a server that is frozen, and one that is silent in the handshake") {
  const RedisChild server(serving(files().server));
  server.send(SIGSTOP);
  check_all(secure(server), trusting(files().ca), {"no answer from " + server.tls().text(), "during the TLS handshake"},
            kSilence);
  server.send(SIGCONT);
  test::Listener silent(test::swallow);
  check_all("rediss://" + silent.address().text(), trusting(files().ca), {"no answer from", "during the TLS handshake"},
            kSilence);
}

TEST_CASE("tls: a server at its maxclients closes in the handshake") {
  const RedisChild server(serving(files().server));
  test::Redis admin(server.unix_socket().path);
  REQUIRE(admin.cmd({"CONFIG", "SET", "maxclients", "1"}) == "OK");
  check_all(secure(server), trusting(files().ca), {server.tls().text(), "closed the connection", "maxclients"});
}

TEST_CASE("tls: files that cannot be used are errors of the first call, and of start()") {
  const RedisChild server(serving(files().server));
  ClientOptions producing;
  producing.tls.ca_file = "/no/such/ca.pem";
  Producer producer({secure(server), producing}, "orders");
  const std::string named = "invalid_argument: tls.ca_file: cannot use '/no/such/ca.pem': No such file or directory";
  for (int i = 0; i < 2; ++i) CHECK(has(thrown([&] { producer.send("x"); }), named));
  ConsumerOptions consuming = test::quick();
  Consumer consumer(
      {secure(server), producing}, "orders", [](const Message&) { return ack(); }, consuming);
  CHECK(has(thrown([&] { consumer.start(); }), named));
}

TEST_CASE("tls: a consumer continues when the server's certificate is renewed, without a restart") {
  const RedisChild server(serving(files().expired));
  test::Redis admin(server.unix_socket().path);
  Producer("unix://" + server.unix_socket().path, "orders").send("x");
  test::Ledger ledger;
  Lines lines;
  ClientOptions client_options;
  ConsumerOptions options = test::quick();
  client_options.tls = trusting(files().ca);
  options.logger = lines.logger();
  Consumer consumer({secure(server), client_options}, "orders", ledger.watch(), options);
  consumer.start();
  REQUIRE(eventually([&] { return consumer.metrics().stats.errors >= 3; }, kPatience));
  CHECK(ledger.size() == 0);
  REQUIRE(admin.cmd({"CONFIG", "SET", "tls-cert-file", files().server.cert, "tls-key-file", files().server.key}) ==
          "OK");
  CHECK(ledger.settles(1));
  CHECK(!lines.find("Redis answers again", Severity::info).empty());
  CHECK(consumer.stop());
}

}  // namespace
}  // namespace delayqueue
