// Texts of dqctl: hints for mistyped names, singular and plural, long names, warnings.
#include "preamble.h"

#include "support/regex.h"

namespace {

using test::text_lines;
using Strings = std::vector<std::string>;

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("texts: the error for a mistyped command or queue suggests the closest one") {
  test::empty_server();
  test::send("orders", {"x"});
  test::send("my queue", {"x"});
  const auto refused = [](const Strings& words, int code, const std::string& hint) {
    CAPTURE(hint);
    expect(run(words), code, {err_has(hint)});
  };
  refused({"stast"}, 2, "no command like that; did you mean stats? see dqctl --help");
  refused({"redirve"}, 2, "did you mean redrive?");
  refused({"stats", "ordres"}, 3, "did you mean orders?");
  refused({"ls", "myqueue", "--state", "dead"}, 3, "did you mean 'my queue'?");
  CHECK_FALSE(has(run({"dance"}).err, "did you mean"));
  CHECK_FALSE(has(run({"__complet"}).err, "did you mean"));
  CHECK_FALSE(has(run({"stats", "entirely-different"}).err, "did you mean"));
}

TEST_CASE("texts: the list of existing queues in an error is short, for long names and for many queues") {
  test::empty_server();
  const std::string longest(300, 'x');
  for (int i = 0; i < 30; ++i) test::redis().cmd({"SADD", "dp:queues", "dp:" + longest + std::to_string(i)});
  const Ran ran = expect(run({"stats", "nowhere"}), 3, {err_has("xxx…"), err_has(" and 20 more")});
  CHECK(ran.err.size() < 800);
}

TEST_CASE("texts: on a terminal a long name is cut, and no row is wider than the terminal") {
  test::empty_server();
  const std::string longest(255, 'n');
  test::send(longest, {"x"}, 1h);
  test::send("orders", {"x"}, 1h);
  DqctlOptions terminal;  // 80 columns
  terminal.terminal = true;
  for (const Strings& words :
       {Strings{"queues", "--no-color"}, Strings{"ls", longest, "--state", "pending", "--no-color"}}) {
    const Ran ran = expect(run(words, terminal), 0);
    for (std::string line : text_lines(ran.out)) {
      CAPTURE(line);
      if (!line.empty() && line.back() == '\r') line.pop_back();
      CHECK(line.size() <= 80 + 2 * count_of(line, "…"));  // "…" takes three bytes and one column
    }
  }
  const Ran ran = run({"queues", "--no-color"}, terminal);
  CHECK(has(ran.out, "nnn…"));
  CHECK(test::is_found(ran.out, "orders +1 +0 +0 +0 +0"));
  CHECK(parse_json(run({"queues", "-o", "json"}).out).at("queues").at(0).at("queue") == longest);
}

TEST_CASE("texts: the version is printed by an option and by a command") {
  const std::string version = delayqueue::version();
  CHECK(run({"version"}).out == "dqctl " + version + "\n");
  CHECK(run({"version"}).out == run({"--version"}).out);
  CHECK(parse_json(run({"version", "-o", "json"}).out) == json{{"version", version}});
}

TEST_CASE("texts: a pattern without * that matches nothing suggests the pattern with *") {
  test::empty_server();
  test::make_dead("orders", Strings{"{}"}, "gateway timeout after 3s");
  const std::string hint =
      "--reason timeout matches only exactly this text; to find it anywhere: --reason '*timeout*'\n";
  CHECK(has(run({"ls", "orders", "--state", "dead", "--reason", "timeout"}).err, hint));
  CHECK(has(run({"redrive", "orders", "--reason", "timeout"}).err, hint));
  CHECK(has(run({"purge", "orders", "--state", "dead", "--reason", "timeout"}).err, hint));
  const Ran found = run({"ls", "orders", "--state", "dead", "--reason", "*timeout*"});
  CHECK(has(found.out, "gateway timeout"));
  CHECK_FALSE(has(found.err, "matches only exactly this text"));
  CHECK_FALSE(has(run({"ls", "orders", "--state", "dead", "--reason", "time*"}).err, "matches only exactly this text"));
}

TEST_CASE("texts: a count of one is followed by the singular") {
  test::empty_server();
  std::string all;
  const auto output_of = [&](const Strings& words, const DqctlOptions& options = {}) {
    const Ran ran = run(words, options);
    all += ran.out + ran.err;
    return ran.out + ran.err;
  };
  const auto stuck = [&](const std::string& queue) {
    return output_of(
        {"stuck", queue, "--warn", "1ms", "--crit", "1h", "--look", "10ms", "--held", "1ms", "--dead", "1"});
  };
  const std::string dead = test::make_dead("dead", Strings{"x"}, "why").front();
  CHECK(has(stuck("dead"), "dead: WARNING: 1 dead letter\n"));
  CHECK(has(output_of({"purge", "dead", "--state", "dead", "--all"}), "would purge 1 of 1 dead message of dead;"));
  CHECK(has(output_of({"redrive", "dead", "--all"}), "would redrive 1 of 1 dead message of dead;"));
  const std::string exported = run({"export", "dead"}).out;
  CHECK(has(output_of({"import", "copy", "-", "--dry-run"}, with_input(exported)),
            "dry run: 1 message, of which 1 dead\n"));
  CHECK(has(output_of({"import", "copy", "-"}, with_input(exported + "{}\n")),
            "imported 1 message into copy; 1 line failed\n"));
  CHECK(has(output_of({"purge", "copy", "--state", "dead", "--all", "--yes"}), "purged 1 dead message of copy\n"));
  test::redis().cmd({"DEL", "dp:dead:msg:" + dead});
  CHECK(has(output_of({"export", "dead"}), "left out: 1 message without a body\n"));
  CHECK(has(stuck("dead"), "1 message has no payload"));
  CHECK(has(output_of({"redrive", "dead", "--all", "--yes"}), "removed: 1 message without a body\n"));
  CHECK(has(output_of({"send", "sent", "--ndjson", "-"}, with_input("{\"payload\":\"x\"}\n{}\n")),
            "sent 1 message to sent; 1 line failed\n"));
  CHECK(has(stuck("sent"), "1 message waits in ready and retry"));
  output_of({"pause", "sent"});
  CHECK(has(stuck("sent"), "1 message waits to be taken"));
  test::hold("held", 1h, 7, "why");
  CHECK(has(stuck("held"), "1 message delivered again and again (the most: 7 times), to be tried again\n"));
  CHECK(has(stuck("held"), "1 message was held by one delivery"));
  CHECK(has(output_of({"export", "held"}), "in flight: 1 message;"));
  test::hold("late", -5min);
  CHECK(has(stuck("late"), "1 message is in unack after the end of the lease or backoff"));
  CHECK(has(output_of({"stats", "late"}), "1 lease ended and not taken back"));
  test::send("due", {"x"}, 1h);
  test::rewind("dp:due", 2h);
  CHECK(has(stuck("due"), "1 message is due and not taken"));
  const std::string longer = test::send("long", {std::string(4097, 'x')}).front();
  CHECK(has(output_of({"show", "long", longer}), "1 more byte: "));
  test::redis().cmd({"SADD", "dp:queues", "dp:-x"});
  CHECK(has(output_of({"queues", "--names"}), "1 name was left out"));
  const auto wrong =
      test::matches(all,
                    "(^|[^0-9.,:])1 ([a-z]+ )?(are|were|have|need|wait|messages|lines|names|bytes|leases|letters|"
                    "reasons|ids|findings|queues|deliveries)\\b");
  CHECK_MESSAGE(wrong.empty(), wrong.front().front());
}

TEST_CASE("texts: dqctl work warns once of a server without persistence, after any number of reconnections") {
  delayqueue::PrivateServerOptions without_files;
  without_files.arguments = {"--appendonly", "no", "--save", ""};
  delayqueue::PrivateServer server(without_files);
  Redis redis(server.socket());
  DqctlOptions options;
  options.environment["DELAYQUEUE_URI"] = server.url();
  delayqueue::Producer producer(server.url(), "q");
  Dqctl work({"work", "q", "--exec", "cat >/dev/null", "--concurrency", "4"}, options);
  REQUIRE(work.wait_for("appendonly no"));
  for (std::uint64_t i = 1; i <= 4; ++i) {
    redis.cmd({"CLIENT", "KILL", "TYPE", "normal"});
    const std::string id = producer.send("x").id;
    CHECK(eventually([&] { return test::counts("q", server.url()).totals.acked == i; }));
  }
  work.signal(SIGINT);
  const Ran ran = expect(work.wait(), 0);
  CHECK(count_of(ran.err, "appendonly no") == 1);
}
