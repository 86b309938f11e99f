// Tests of the command line itself: global options, errors and exit codes.
#include "preamble.h"

#include <unistd.h>

#include "support/local.h"
#include "support/paths.h"

namespace {

void write_file(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

}  // namespace

TEST_CASE("cli: --help and --version print to stdout with exit code 0") {
  const Ran help = expect(run({"--help"}), 0, {out_has("queues"), out_has("--password-file"), err_is("")});
  expect(run({"queues", "--help"}), 0, {out_has("Example"), out_has("  dqctl queues\n")});
  const Ran version = expect(run({"--version"}), 0);
  CHECK(version.out.substr(0, 8) == "dqctl 0.");
}

TEST_CASE("cli: wrong usage is exit code 2, and the error names the correct usage") {
  const auto refused = [](const std::vector<std::string>& arguments, const std::string& word) {
    CAPTURE(word);
    const Ran ran = expect(run(arguments), 2, {out_is("")});
    CHECK(ran.err.substr(0, 7) == "dqctl: ");
    CHECK(has(ran.err, word));
    CHECK(ran.err.find('\n') == ran.err.size() - 1);
  };
  refused({}, "dqctl --help");
  refused({"dance"}, "no command like that");
  refused({"queues", "--no-such"}, "--no-such");
  refused({"queues", "-o", "xml"}, "--output: 'xml'; expected one of table, json, ndjson");
  refused({"queues", "--command-timeout", "10x"}, "--command-timeout: '10x'; expected a duration such as 250ms");
  refused({"queues", "--command-timeout", "0s"}, "at least 1ms");
  refused({"queues", "--hash-tag", "maybe"}, "--hash-tag");
  refused({"queues", "--prefix", ""}, "prefix");
  refused({"queues", "-u", "http://x"}, "http://x");
  refused({"queues", "--password-file", "/no/such"}, "--password-file: the file cannot be read");
}

TEST_CASE("cli: a password in an argument is refused and never shown") {
  for (const char* uri : {"redis://:geheim@127.0.0.1", "redis://me:geheim@127.0.0.1:1/2", "rediss://:ge/heim@h:1",
                          "redis+sentinel://u:geheim@a,b/master", "unix://u:geheim@/s"}) {
    CAPTURE(uri);
    for (const bool before : {true, false}) {
      expect(before ? run({"-u", uri, "queues"}) : run({"queues", "--uri", uri}), 2,
             {err_has("DELAYQUEUE_URI"), err_has("--password-file"), err_lacks("heim")});
    }
  }
}

TEST_CASE("cli: a password comes from the environment, from a file or from the URL in the environment") {
  const test::TempDir folder;
  delayqueue::PrivateServerOptions server_options;
  server_options.arguments = {"--requirepass", "geheim"};
  const test::Port port;
  server_options.arguments.insert(server_options.arguments.end(), {"--port", std::to_string(port.number())});
  delayqueue::PrivateServer server = [&] {
    try {
      return delayqueue::PrivateServer(server_options);
    } catch (const std::exception& error) {
      FAIL(error.what());
      throw;
    }
  }();
  const std::string place = "127.0.0.1:" + std::to_string(port.number());

  CHECK(run({"queues"}, at("redis://:geheim@" + place)).code == 0);
  DqctlOptions options = at("redis://" + place);
  expect(run({"queues"}, options), 1, {err_has("NOAUTH"), err_has("DELAYQUEUE_PASSWORD")});
  options.environment["DELAYQUEUE_PASSWORD"] = "geheim";
  CHECK(run({"queues"}, options).code == 0);
  write_file(folder.file("wrong"), "falsch\n");
  expect(run({"queues", "--password-file", folder.file("wrong")}, options), 1,
         {err_has("WRONGPASS"), err_lacks("falsch")});
  options.environment["DELAYQUEUE_PASSWORD"] = "falsch";
  write_file(folder.file("right"), "geheim\r\nmore\n");
  CHECK(run({"queues", "--password-file", folder.file("right")}, options).code == 0);
  write_file(folder.file("empty"), "");
  CHECK(run({"queues", "--password-file", folder.file("empty")}, options).code == 2);
  write_file(folder.file("bom"), "\xef\xbb\xbfgeheim\n");
  expect(run({"queues", "--password-file", folder.file("bom")}, options), 2,
         {err_has("--password-file: the file begins with a byte order mark")});
  write_file(folder.file("blank"), "geheim \n");
  CHECK(has(run({"queues", "--password-file", folder.file("blank")}, options).err, "begins or ends with a blank"));
  options.environment["DELAYQUEUE_PASSWORD"] = "geheim\n";
  CHECK(has(run({"queues"}, options).err, "begins or ends with a blank, a line break"));
  const Ran user = run({"queues"}, at("redis://geheim@" + place));
  CHECK(has(user.err, "a password without a user is written redis://:PASSWORD@host"));
  CHECK_FALSE(has(user.err, "geheim"));
  CHECK(run({"queues"}, at("valkey://:geheim@" + place)).code == 0);
}

TEST_CASE("cli: an unreachable server is exit code 1, and the error has its address without the password") {
  const test::Port unused;
  const std::string place = "127.0.0.1:" + std::to_string(unused.number());
  expect(run({"queues"}, at("redis://:geheim@" + place)), 1, {out_is(""), err_has(place), err_lacks("geheim")});
}

TEST_CASE("cli: --uri takes precedence over the environment") {
  const test::Port unused;
  const std::string nowhere = "redis://127.0.0.1:" + std::to_string(unused.number());
  CHECK(run({"-u", test::server().url(), "queues"}, at(nowhere)).code == 0);
  CHECK(run({"queues", "-u", nowhere}).code == 1);
}

TEST_CASE("cli: --connect-timeout and --command-timeout bound the wait for a silent server") {
  delayqueue::PrivateServer server;
  ::kill(server.pid(), SIGSTOP);
  Ran ran;
  for (int tries = 0; tries < 4; ++tries) {  // a busy machine may delay one run
    ran = expect(run({"queues", "--connect-timeout", "200ms", "--command-timeout", "200ms"}, at(server.url())), 1);
    CHECK(ran.took >= std::chrono::milliseconds(190));
    if (ran.took < std::chrono::milliseconds(1900)) break;
  }
  ::kill(server.pid(), SIGCONT);
  CHECK(ran.took < std::chrono::milliseconds(1900));  // the default is 2 s
}

TEST_CASE("cli: dqctl ends silently when the reader of its stdout closes the pipe") {
  test::redis().cmd({"FLUSHALL"});
  for (int i = 0; i < 3000; ++i) test::redis().cmd({"SADD", "dp:queues", "dp:queue " + std::to_string(i)});
  Dqctl running({"queues", "-o", "ndjson"});
  REQUIRE(running.wait_for("queue"));
  running.close_out();
  expect(running.wait(), 141, {err_is("")});
  test::redis().cmd({"FLUSHALL"});
}

TEST_CASE("cli: a stdout that cannot be written is an error") {
  DqctlOptions options;
  const std::string command = test::program_path("dqctl") + " queues -o json >/dev/full 2>/dev/null";
  ::setenv("DELAYQUEUE_URI", test::server().url().c_str(), 1);
  const int status = std::system(command.c_str());
  ::unsetenv("DELAYQUEUE_URI");
  CHECK(WEXITSTATUS(status) == 1);
}

TEST_CASE("cli: colours appear on a terminal only, and not with --no-color, NO_COLOR or TERM=dumb") {
  test::redis().cmd({"FLUSHALL"});
  delayqueue::Producer(test::server().url(), "q").send("x");
  CHECK_FALSE(has(run({"queues"}).out, "\033["));
  auto options = with(&DqctlOptions::terminal, true);
  CHECK(has(run({"queues"}, options).out, "\033["));
  CHECK_FALSE(has(run({"queues", "--no-color"}, options).out, "\033["));
  options.environment = {{"NO_COLOR", "1"}};
  CHECK_FALSE(has(run({"queues"}, options).out, "\033["));
  options.environment = {{"TERM", "dumb"}};
  CHECK_FALSE(has(run({"queues"}, options).out, "\033["));
}
