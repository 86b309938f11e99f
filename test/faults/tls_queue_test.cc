// A queue over TLS, while the server closes connections and restarts.
#include "support/test.h"

#include <unistd.h>

#include "support/local.h"
#include "support/tls_files.h"

namespace delayqueue {
namespace {

// A private server that also listens with TLS on another port.
struct TlsServer {
  TlsServer() {
    PrivateServerOptions options;
    options.arguments = test::serving(port);
    server = std::make_unique<PrivateServer>(options);
    connection.tls.ca_file = test::TlsFiles::shared().ca;
  }

  std::string url() const { return "rediss://127.0.0.1:" + std::to_string(port.number()); }

  const test::Port port;
  std::unique_ptr<PrivateServer> server;
  ClientOptions connection;
};

TEST_CASE("tls: a producer replaces a closed connection, and its caller gets no error") {
  TlsServer tls;
  Producer producer({tls.url(), tls.connection}, "orders");
  CHECK(producer.send("before").created());
  test::Redis client(tls.server->socket());
  REQUIRE(client.cmd({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"}).integer >= 1);
  CHECK(producer.send("after a kill").created());
  tls.server->restart();
  CHECK(producer.send("after a restart").created());
}

TEST_CASE("tls: a consumer continues after its server was restarted") {
  TlsServer tls;
  Producer producer({tls.url(), tls.connection}, "orders");
  test::Ledger ledger;
  Consumer consumer({tls.url(), tls.connection}, "orders", ledger.watch(), test::quick());
  consumer.start();
  producer.send("before");
  REQUIRE(ledger.settles(1));
  tls.server->restart();
  producer.send("after");
  CHECK(ledger.settles(2));
  CHECK(consumer.stop());
}

}  // namespace
}  // namespace delayqueue
