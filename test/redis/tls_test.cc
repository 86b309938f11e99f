#include "support/test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "redis/connection.h"
#include "redis/tls_socket.h"
#include "redis/transport_support.h"
#include "support/raw_server.h"
#include "support/tls_files.h"

namespace delayqueue::redis {
namespace {

using test::Certificate;
using test::Listener;
using test::RedisChild;
using test::serving;
using test::TempDir;
using test::TlsFiles;
using test::trusting;

const TlsFiles& files() { return TlsFiles::shared(); }

std::unique_ptr<Transport> open_with(const Address& address, const TlsOptions& options, Deadline deadline) {
  if (!address.tls) return open_transport(address, nullptr, deadline);
  return open_transport(address, std::make_unique<Tls>(address, options).get(), deadline);
}

// "+PONG\r\n", or the text of the error.
std::string ping(const Address& address, const TlsOptions& options) {
  try {
    return ask(*open_with(address, options, in(5s)), "PING\r\n");
  } catch (const ConnectionError& e) {
    return e.what();
  }
}

std::string misuse(const Address& address, const TlsOptions& options) {
  try {
    return "no error, but " + ping(address, options);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
}

TEST_CASE("tls: a certificate is valid for the host name and the IP address in it") {
  const RedisChild server(serving(files().server));
  auto options = trusting(files().ca);
  CHECK(ping(server.tls("127.0.0.1"), options) == "+PONG\r\n");
  CHECK(ping(server.tls("localhost"), options) == "+PONG\r\n");
  options.server_name = "localhost.";
  CHECK(ping(server.tls(), options) == "+PONG\r\n");
}

TEST_CASE("tls: tls.server_name is verified instead of the host") {
  const RedisChild server(serving(files().named));
  auto options = trusting(files().ca);
  const auto at = server.tls().text();
  CHECK(ping(server.tls("127.0.0.1"), options) ==
        "the certificate of " + at + " is not valid for 127.0.0.1: IP address mismatch; set tls.server_name if the " +
            "name in the certificate differs");
  CHECK(has(ping(server.tls("localhost"), options), "is not valid for localhost: "));
  options.server_name = "queue.example";
  CHECK(ping(server.tls(), options) == "+PONG\r\n");
  options.server_name = "other.example";
  CHECK(has(ping(server.tls(), options), "is not valid for other.example: "));
  options.server_name = "127.0.0.1";
  CHECK(has(ping(server.tls(), options), "is not valid for 127.0.0.1: "));
}

TEST_CASE("tls: a certificate of an authority that is not in ca_file, or not in the system's store, is refused") {
  const RedisChild server(serving(files().server));
  const auto text = ping(server.tls(), trusting(files().other_ca));
  CHECK(has(text, "the certificate of " + server.tls().text() + " is not signed by a trusted authority: "));
  CHECK(has(text, "its authority is not in tls.ca_file '" + files().other_ca + "'"));
  CHECK(has(ping(server.tls(), {}), "set tls.ca_file to the authority's certificate"));
}

// The system may have hundreds of authorities to read, and the machine may be busy.
TEST_CASE("tls: reading the authorities does not count against the connect timeout") {
  const RedisChild server(serving(files().server));
  std::ifstream ca(files().ca);
  const std::string one((std::istreambuf_iterator<char>(ca)), {});
  TempDir dir;
  const std::string many = dir.file("many.pem");
  ClientOptions options;
  options.tls = trusting(many);
  options.connect_timeout = 200ms;
  std::ofstream out(many);
  for (auto reading = 0ms; reading < 3 * options.connect_timeout;) {
    for (int i = 0; i < 2'000; ++i) out << one;
    out.flush();
    const auto start = Clock::now();
    Tls(server.tls(), options.tls);
    reading = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
  }
  // A busy machine may take the 200 ms once; reading the files would take them every time.
  std::string answer;
  for (int tries = 0; tries < 5 && answer != "PONG"; ++tries) {
    try {
      Connection connection(server.tls(), {}, options);
      connection.write("PING\r\n");
      answer = Reply(connection.read().get()).text();
    } catch (const ConnectionError& e) {
      answer = e.what();
    }
  }
  CHECK(answer == "PONG");
}

TEST_CASE("tls: an expired certificate is refused") {
  const RedisChild server(serving(files().expired));
  const auto text = ping(server.tls(), trusting(files().ca));
  CHECK(has(text, "the certificate of " + server.tls().text() + " is not valid today: certificate has expired"));
}

TEST_CASE("tls: a client certificate is sent; a missing one and one of another authority have their own errors") {
  for (const std::string protocol : {"TLSv1.2", "TLSv1.3"}) {
    CAPTURE(protocol);
    auto arguments = serving(files().server, "yes");
    arguments.insert(arguments.end(), {"--tls-protocols", protocol});
    const RedisChild server(arguments);
    CHECK(ping(server.tls(), trusting(files().ca, files().client)) == "+PONG\r\n");
    for (int i = 0; i < 30; ++i) {  // the alert and the reset may arrive in either order
      const auto missing = ping(server.tls(), trusting(files().ca));
      CHECK(has(missing, "the server at " + server.tls().text()));
      CHECK(has(missing, "client certificate"));
      CHECK(has(missing, "set tls.cert_file and tls.key_file"));
    }
    const auto foreign = ping(server.tls(), trusting(files().ca, files().foreign_client));
    CHECK(has(foreign, "refuses the client certificate '" + files().foreign_client.cert + "': "));
  }
}

TEST_CASE("tls: files that cannot be used are refused by path before anything is sent") {
  Address nowhere;
  nowhere.host = "localhost";
  nowhere.port = 1;
  nowhere.tls = true;
  const auto& ca = files().ca;
  const auto& client = files().client;
  const auto empty = files().file("empty.pem");
  const std::ofstream made(empty);
  CHECK(
      has(misuse(nowhere, trusting("/no/ca.pem")), "tls.ca_file: cannot use '/no/ca.pem': No such file or directory"));
  CHECK(has(misuse(nowhere, trusting(empty)), "tls.ca_file: cannot use '" + empty + "': "));
  CHECK(
      has(misuse(nowhere, trusting(ca, {"/no/c.pem", client.key})), "tls.cert_file: cannot use '/no/c.pem': No such"));
  CHECK(
      has(misuse(nowhere, trusting(ca, {client.cert, "/no/k.pem"})), "tls.key_file: cannot use '/no/k.pem': No such"));
  CHECK(has(misuse(nowhere, trusting(ca, {client.cert, ""})), "tls.key_file: empty"));
  CHECK(has(misuse(nowhere, trusting(ca, {"", client.key})), "tls.cert_file: empty"));
  CHECK(has(misuse(nowhere, trusting(ca, {client.cert, files().server.key})), "tls.key_file: cannot use"));
  CHECK(
      has(misuse(nowhere, trusting(ca, {client.cert, files().locked_key})), "' is encrypted; give a key file without"));
}

TEST_CASE("tls: a server name that would disable the verification is refused") {
  Address address;
  address.host = "localhost";
  address.port = 1;
  address.tls = true;
  TlsOptions options;
  for (const std::string name : {".example", ".", " ", "a b", "a\n"}) {
    options.server_name = name;
    CHECK(has(misuse(address, options), "tls.server_name: '"));
  }
  address.host.clear();
  CHECK(has(misuse(address, {}), "tls.server_name: ''"));
}

TEST_CASE("tls: a port without TLS is detected by its answer or at the deadline") {
  const RedisChild server;
  auto address = server.plain();
  address.tls = true;
  std::string text;
  Clock::duration took = 1h;
  for (int tries = 0; tries < 4 && took >= 2s; ++tries) {  // a busy machine may be late once
    const auto start = Clock::now();
    try {
      open_with(address, trusting(files().ca), in(200ms));
    } catch (const ConnectionError& e) {
      text = e.what();
    }
    took = Clock::now() - start;
  }
  CHECK(took < 2s);
  CHECK(has(text, "no answer from " + address.text()));
  CHECK(has(text, "if this port is without TLS, use a redis:// URL"));

  const Listener web([](int fd) {
    CHECK(::write(fd, "HTTP/1.1 400 no\r\n\r\n", 19) == 19);
    test::swallow(fd);
  });
  address = web.address();
  address.tls = true;
  CHECK(has(ping(address, trusting(files().ca)), "the server at " + address.text() + " does not answer in TLS"));
}

TEST_CASE("tls: a server that closes during the handshake has its own error") {
  const Listener server([](int fd) {
    char bytes[4096];
    CHECK(::read(fd, bytes, sizeof bytes) > 0);
  });
  auto address = server.address();
  address.tls = true;
  CHECK(has(ping(address, {}), "closed the connection (during the TLS handshake"));
}

TEST_CASE("tls: the error of a plain client at a TLS port advises TLS") {
  const RedisChild server(serving(files().server));
  auto address = server.tls();
  address.tls = false;
  for (int i = 0; i < 20; ++i) CHECK(has(ping(address, {}), "TLS"));
}

TEST_CASE("tls: megabytes pass both ways, and bytes buffered by OpenSSL count as readable") {
  const RedisChild server(serving(files().server));
  const auto link = open_with(server.tls(), trusting(files().ca), in(5s));
  const std::string body(3'000'000, 'x');
  link->write("*2\r\n$4\r\nECHO\r\n$3000000\r\n" + body + "\r\n", in(5s));
  std::string answer;
  std::vector<char> bytes(100'000);
  while (answer.size() < body.size() + 12) answer.append(bytes.data(), link->read(bytes.data(), 100'000, in(5s)));
  CHECK(answer == "$3000000\r\n" + body + "\r\n");

  CHECK_FALSE(link->readable(in(20ms)));  // session tickets do not count
  link->write("PING\r\n", in(5s));
  REQUIRE(link->readable(in(5s)));
  for (int i = 0; i < 7; ++i) {
    CHECK(link->readable(Deadline::min()));
    CHECK(link->read(bytes.data(), 1, Deadline::min()) == 1);
  }
  CHECK_FALSE(link->readable(Deadline::min()));
  CHECK((::fcntl(link->fd(), F_GETFD) & FD_CLOEXEC) != 0);
}

std::atomic<int> pipes_seen{0};

TEST_CASE("tls: a killed server is an error for readers and writers, and no SIGPIPE") {
  struct sigaction count {
  }, before{};
  count.sa_handler = [](int) { ++pipes_seen; };
  ::sigaction(SIGPIPE, &count, &before);
  const RedisChild server(serving(files().server));
  const auto reader = open_with(server.tls(), trusting(files().ca), in(5s));
  const auto writer = open_with(server.tls(), trusting(files().ca), in(5s));
  server.send(SIGKILL);
  char byte = 0;
  const auto expected = "the server at " + server.tls().text() + " closed the connection";
  CHECK_THROWS_AS(reader->read(&byte, 1, in(5s)), ConnectionError);
  std::string text;
  try {
    for (int i = 0; i < 1000; ++i) writer->write("PING\r\n", in(1s)), std::this_thread::sleep_for(1ms);
  } catch (const ConnectionError& e) {
    text = e.what();
  }
  ::sigaction(SIGPIPE, &before, nullptr);
  CHECK(has(text, expected));
  CHECK(pipes_seen == 0);
}

TEST_CASE("tls: sessions in several threads do not see each other's errors") {
  const RedisChild server(serving(files().server));
  std::atomic<int> good{0}, bad{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, trusts = i % 2 == 0] {
      for (int n = 0; n < 10; ++n) {
        const auto text = ping(server.tls(), trusting(trusts ? files().ca : files().other_ca));
        if (trusts && text == "+PONG\r\n") ++good;
        if (!trusts && text.find("not signed by a trusted authority") != std::string::npos) ++bad;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(good == 20);
  CHECK(bad == 20);
}

}  // namespace
}  // namespace delayqueue::redis
