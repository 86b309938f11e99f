// Sentinels and the servers that they monitor, with separate logins and certificates.
#include "support/test.h"

#include "support/sentinels.h"
#include "support/tls_files.h"

using namespace delayqueue;
using test::Sentinels;
using test::SentinelsOptions;

namespace {

// Sends and consumes before and after a failover.
void use(Sentinels& sentinels, const std::string& url, const ClientOptions& connection) {
  const std::string queue = fresh_queue();
  Ledger ledger;
  const Client client(url, connection);
  ProducerOptions sending;
  sending.durability = Durability::replicas(2, 20s);
  sending.send_timeout = 0ms;
  Producer producer(client, queue, sending);
  Consumer consumer(client, queue, ledger.watch(), test::quick());
  consumer.start();
  producer.send("before");
  REQUIRE(eventually([&] { return ledger.size() == 1; }, kPatience));
  sentinels.failover();
  sending.durability = {};
  Producer after(client, queue, sending);
  CHECK(eventually(
      [&] {
        try {
          return after.send("after").created();
        } catch (const ConnectionError&) {
          return false;
        }
      },
      kPatience));
  CHECK(eventually([&] { return !ledger.attempts("after").empty(); }, kPatience));
}

std::string error_with(const std::string& url, const ClientOptions& connection) {
  return thrown([&] { Producer({url, connection}, fresh_queue()).send("x"); });
}

}  // namespace

TEST_CASE("sentinel login: Sentinels and servers have separate passwords, and neither is sent to the others") {
  SentinelsOptions options;
  options.node.arguments = {"--requirepass", "d4ta", "--masterauth", "d4ta"};
  options.node.login = {"d4ta"};
  options.sentinel.arguments = {"--requirepass", "w4tch",     "--sentinel", "sentinel-pass", "w4tch",
                                "--sentinel",    "auth-pass", "dqm",        "d4ta"};
  options.sentinel.login = {"w4tch"};
  Sentinels sentinels(options);
  std::string url = sentinels.url();
  url.insert(url.find("//") + 2, ":d4ta@");

  ClientOptions connection;
  const std::string without = error_with(url, connection);
  CHECK(without.find("NOAUTH") != std::string::npos);
  CHECK(without.find("d4ta") == std::string::npos);
  connection.sentinel.password = "d4ta";
  CHECK(error_with(url, connection).find("WRONGPASS") != std::string::npos);
  connection.sentinel.password = "w4tch";
  connection.password = "w4tch";  // overrides the URL's
  CHECK(error_with(url, connection).find("WRONGPASS") != std::string::npos);
  connection.password.clear();
  use(sentinels, url, connection);
}

TEST_CASE("sentinel login: TLS to Sentinels and servers, with separate authorities and client certificates") {
  const test::TlsFiles& files = test::TlsFiles::shared();
  const std::vector<std::string> tls = {
      "--tls-cert-file",    files.server.cert, "--tls-key-file", files.server.key, "--tls-replication", "yes",
      "--tls-ca-cert-file", files.ca};
  SentinelsOptions options;
  options.node.tls = options.sentinel.tls = true;
  options.node.arguments = options.sentinel.arguments = tls;
  Sentinels sentinels(options);

  auto connection = with(&ClientOptions::tls, {files.ca, files.client.cert, files.client.key, {}});
  use(sentinels, sentinels.url(), connection);

  // The Sentinels require a certificate, too; their own options override those of the servers.
  connection.sentinel.tls = TlsOptions{files.other_ca, {}, {}, {}};
  CHECK(error_with(sentinels.url(), connection).find("is not signed by a trusted authority") != std::string::npos);
  connection.sentinel.tls = TlsOptions{files.ca, files.client.cert, files.client.key, {}};
  CHECK(error_with(sentinels.url(), connection) == "nothing");
  connection.sentinel.encrypted = false;
  connection.sentinel.tls.reset();
  CHECK(error_with(sentinels.url(), connection).find("ConnectionError") != std::string::npos);
}
