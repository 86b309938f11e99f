// The same sends and receives with persistence, and over other transports, each with a server of that kind.

#include "bench/jobs.h"
#include "bench/part.h"
#include "support/local.h"
#include "support/tls_files.h"

namespace bench {
namespace {

using Words = std::vector<std::string>;

Words with_fsync(const std::string& policy) { return {"--appendonly", "yes", "--appendfsync", policy}; }

Words both(Words first, const Words& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// A server that listens on 127.0.0.1, too.
struct TcpServer {
  test::Port port, tls_port;
  std::unique_ptr<Server> server;
  std::string no_tls;  // the reason if the server cannot use TLS

  TcpServer() {
    const Words tcp = {"--bind", "127.0.0.1", "--port", std::to_string(port.number())};
    const Words tls = {"--tls-port", std::to_string(tls_port.number())};
    try {
      server = std::make_unique<Server>(both(both(tcp, tls), test::serving(test::TlsFiles::shared().server)));
    } catch (const delayqueue::Error&) {
      no_tls = "this server cannot use TLS";
      server = std::make_unique<Server>(tcp);
    }
  }
};

}  // namespace

void durability(Bench& bench) {
  const std::vector<std::pair<std::string, Words>> settings = {
      {"none", {}}, {"everysec", with_fsync("everysec")}, {"always", with_fsync("always")}};
  for (int i = 0; i < bench.scale.repetitions; ++i) {
    for (const auto& [name, words] : settings) {
      Server server(words);
      measure_jobs(bench, Target(server), "durability." + name, bench.scale.variant, payload());
    }
  }
}

void transport(Bench& bench) {
  const TcpServer tcp;
  const Target unix_socket(*tcp.server);
  Target port(*tcp.server);
  port.url = "redis://127.0.0.1:" + std::to_string(tcp.port.number());
  Target tls(*tcp.server);
  tls.url = "rediss://127.0.0.1:" + std::to_string(tcp.tls_port.number());
  tls.connection.tls = test::trusting(test::TlsFiles::shared().ca);
  if (!tcp.no_tls.empty()) bench.progress.left_out("transport.tls.send transport.tls.receive", tcp.no_tls);
  for (int i = 0; i < bench.scale.repetitions; ++i) {
    measure_jobs(bench, unix_socket, "transport.unix", bench.scale.variant, payload());
    measure_jobs(bench, port, "transport.tcp", bench.scale.variant, payload());
    if (tcp.no_tls.empty()) measure_jobs(bench, tls, "transport.tls", bench.scale.variant, payload());
  }
}

}  // namespace bench
