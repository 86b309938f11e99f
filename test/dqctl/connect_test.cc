// Tests of how dqctl connects to a server, and of the keys that it reads.
#include "preamble.h"

#include "support/local.h"
#include "support/paths.h"
#include "support/slow_names.h"
#include "support/tls_files.h"

TEST_CASE("connect: dqctl connects over TLS with a client certificate") {
  const test::TlsFiles& files = test::TlsFiles::shared();
  const test::Port port;
  const delayqueue::PrivateServer server = test::server_with(test::serving(port, "yes"));
  const auto to = at("rediss://127.0.0.1:" + std::to_string(port.number()));
  CHECK(
      run({"queues", "--tls-ca", files.ca, "--tls-cert", files.client.cert, "--tls-key", files.client.key}, to).code ==
      0);
  CHECK(run({"queues", "--tls-ca", files.ca}, to).code == 1);
  const Ran foreign =
      run({"queues", "--tls-ca", files.other_ca, "--tls-cert", files.client.cert, "--tls-key", files.client.key}, to);
  CHECK(foreign.code == 1);
  CHECK(has(foreign.err, "certificate"));
  const Ran plain = run({"queues", "--tls-ca", files.ca});
  CHECK(plain.code == 2);  // a CA certificate for a connection without TLS
}

// The look-up is left behind when the process ends.
TEST_CASE("connect: dqctl ends by its timeouts while a name server does not answer") {
  for (const std::string url : {"redis://", "rediss://", "redis+sentinel://", "redis+cluster://"}) {
    auto options = at(url + test::kHangingName + (has(url, "sentinel") ? "/m" : ""));
    options.environment["LD_PRELOAD"] = test::slow_names_library();
    options.environment["ASAN_OPTIONS"] = "verify_asan_link_order=0";
    for (const std::vector<std::string>& command : {std::vector<std::string>{"stats", "q"},
                                                    {"queues"},
                                                    {"stuck"},
                                                    {"send", "q", "x"},
                                                    {"work", "q", "--exec", "true"}}) {
      std::vector<std::string> words = command;
      words.insert(words.end(), {"--connect-timeout", "300ms", "--command-timeout", "1s"});
      const Ran ran = run(words, options);
      CAPTURE(url + " " + command[0]);
      CHECK(ran.code == 1);
      CHECK_MESSAGE(has(ran.err, "the look-up of the name 'hangs.test' has not ended after"), ran.err);
      CHECK(ran.took < std::chrono::seconds(8));  // a look-up takes 12 s
    }
  }
}

TEST_CASE("connect: dqctl logs in as an ACL user with a password") {
  test::redis().cmd({"ACL", "SETUSER", "caller", "on", ">geheim", "~*", "&*", "+@all"});
  auto options = at(test::server().url());
  options.environment["DELAYQUEUE_PASSWORD"] = "geheim";
  CHECK(run({"queues", "--user", "caller"}, options).code == 0);
  expect(run({"queues", "--user", "nobody"}, options), 1, {err_has("--user"), err_lacks("geheim")});
  test::redis().cmd({"ACL", "DELUSER", "caller"});
}

TEST_CASE("connect: --prefix and --hash-tag choose the keys of the queue") {
  test::empty_server();
  delayqueue::ClientOptions options;
  options.keys.prefix = "shop";
  options.keys.hash_tag = delayqueue::HashTag::on;
  delayqueue::Producer({test::server().url(), options}, "q").send("x");
  const Ran found =
      expect(run({"--prefix", "shop", "--hash-tag", "on", "ls", "q", "--state", "ready", "-o", "json"}), 0);
  CHECK(parse_json(found.out).at("messages").size() == 1);
  CHECK(run({"ls", "q", "--state", "ready"}).code == 3);
  expect(run({"ls", "q", "--state", "ready", "--prefix", "shop"}), 2, {err_has("hash_tag")});
}

TEST_CASE("connect: dqctl starts the server of embedded:/folder, or prints the URL of the one that runs") {
  const test::TempDir folder;
  const std::string uri = "embedded:" + folder.file("data");
  CHECK(run({"queues"}, at(uri)).code == 0);
  delayqueue::Producer(uri, "q").send("x");
  const std::string owner = "process " + std::to_string(::getpid()) + " (";
  const Ran refused = expect(run({"-u", uri, "queues"}), 1, {err_has(owner), err_has("unix://")});
  const std::string text = refused.err.substr(refused.err.find("unix://"));
  const std::string url = text.substr(0, text.find('\n'));
  CHECK(parse_json(run({"-u", url, "queues", "-o", "json"}).out).at("queues")[0].at("ready") == 1);
}

TEST_CASE("connect: SIGTERM ends stats --watch with exit code 0") {
  test::empty_server();
  test::send("q", {"x"});
  Dqctl running({"stats", "q", "--watch", "50ms"});
  REQUIRE(running.wait_for("TOTAL"));
  running.signal(SIGTERM);
  const Ran ran = expect(running.wait(), 0);
  CHECK(ran.signal == 0);
}
