// dqctl with -o json or -o ndjson writes valid JSON to stdout, for every content of a queue and after every failure.
#include "preamble.h"

#include <signal.h>
#include <sys/resource.h>

using Strings = std::vector<std::string>;

namespace {

const Strings kKeys = {"pending", "ready",    "unack",  "retry",  "retry:cnt", "garbage", "dead",
                       "stats",   "attempts", "reason", "paused", "watch",     "actions"};

// Every command that reads a single queue.
std::vector<Strings> commands() {
  return {{"queues"},
          {"stats", "bad"},
          {"stats", "bad", "good"},
          {"stuck", "bad", "--look", "1ms"},
          {"ls", "bad", "--state", "pending"},
          {"ls", "bad", "--state", "ready"},
          {"ls", "bad", "--state", "unack"},
          {"ls", "bad", "--state", "retry"},
          {"ls", "bad", "--state", "dead"},
          {"reasons", "bad"},
          {"actions", "bad"},
          {"find", "x"},
          {"find", kId},
          {"show", "bad", kId},
          {"doctor", "bad", "--settle", "0s"},
          {"cancel", "bad", kId},
          {"reschedule", "bad", kId, "--in", "1h"},
          {"release", "bad", kId},
          {"bury", "bad", kId},
          {"extend", "bad", kId, "--by", "1h"},
          {"redrive", "bad", kId},
          {"redrive", "bad", "--all"},
          {"redrive", "bad", "--all", "--yes"},
          {"purge", "bad", "--state", "dead", "--older-than", "1ms"},
          {"purge", "bad", "--state", "dead", "--older-than", "1ms", "--yes"},
          {"resume", "bad"},
          {"drain", "bad", "--timeout", "1ms"}};
}

void check_whole(const Ran& ran, bool lines) {
  CAPTURE(ran.out);
  CAPTURE(ran.err);
  CHECK(ran.signal == 0);
  CHECK_FALSE(ran.out.empty());
  if (lines) {
    CHECK_NOTHROW(lines_of(ran.out));
  } else {
    CHECK(json::accept(ran.out));
  }
}

std::string joined(const Strings& words) {
  std::string text;
  for (const std::string& word : words) text += word + ' ';
  return text;
}

}  // namespace

TEST_CASE("json: a key of a wrong type leaves the document of every command valid, and other queues shown") {
  for (const std::string& key : kKeys) {
    for (const char* type : {"string", "zset"}) {
      test::empty_server();
      test::send("bad", {"1"}, std::chrono::hours(1));
      test::send("good", {"1", "2"});
      test::redis().cmd({"DEL", "dp:bad:" + key});
      if (std::string(type) == "zset") {
        test::redis().cmd({"ZADD", "dp:bad:" + key, "1", "x"});
      } else {
        test::redis().cmd({"SET", "dp:bad:" + key, "x"});
      }
      for (Strings command : commands()) {
        command.insert(command.end(), {"-o", "json"});
        INFO(key << " as " << type << ": " << joined(command));
        const Ran ran = run(command);
        check_whole(ran, false);
        if (command.front() != "queues") continue;
        const json queues = parse_json(ran.out).at("queues");
        REQUIRE(queues.size() == 2);
        CHECK(holds(queues[1], {{"queue", "good"}, {"ready", 2}}));
        CHECK((ran.code == 4) == !queues[0].at("error").is_null());
      }
    }
  }
}

TEST_CASE("json: an error in the arguments, a missing queue and a missing server give error objects") {
  test::empty_server();
  const auto error_of = [](Strings arguments, int code, const DqctlOptions& options = {}) {
    INFO(joined(arguments));
    std::string text;
    for (const char* form : {"json", "ndjson"}) {
      Strings all = arguments;
      all.insert(all.end(), {"-o", form});
      const Ran ran = expect(run(all, options), code);
      check_whole(ran, std::string(form) == "ndjson");
      const json document = parse_json(ran.out);
      text = document.at("error");
      CHECK(ran.err == "dqctl: " + text + "\n");
    }
    return text;
  };
  CHECK(has(error_of({"stats", "nowhere"}, 3), "nowhere"));
  CHECK(has(error_of({"ls"}, 2), "QUEUE"));
  CHECK(has(error_of({"dance"}, 2), "dqctl --help"));
  CHECK(has(error_of({"queues", "--prefix", ""}, 2), "prefix"));
  DqctlOptions nowhere;
  nowhere.environment["DELAYQUEUE_URI"] = "unix:///no/such/socket";
  CHECK(has(error_of({"queues"}, 1, nowhere), "/no/such/socket"));
  CHECK(parse_json(run({"-o", "json", "ls"}).out).contains("error"));
  CHECK(parse_json(run({"--output=json", "ls"}).out).contains("error"));
  CHECK(run({"ls"}).out.empty());
}

TEST_CASE("json: a server that dies in the middle of a list leaves a valid document that names the error") {
  delayqueue::PrivateServer server;
  delayqueue::Producer producer(server.url(), "q");
  std::vector<std::string> payloads(3000, std::string(2000, 'x'));
  producer.send_batch(payloads, delayed(std::chrono::hours(1)));
  DqctlOptions options;
  options.environment["DELAYQUEUE_URI"] = server.url();
  // --match fetches whole payloads, in pages of 64. dqctl blocks on the full pipe until the test has killed the server.
  Dqctl running({"ls", "q", "--state", "pending", "--match", "*", "--limit", "0", "-o", "json"}, options);
  REQUIRE(running.wait_for("\"id\""));
  ::kill(server.pid(), SIGKILL);
  const Ran ran = running.wait();
  check_whole(ran, false);
  const json document = parse_json(ran.out);
  if (ran.code == 0) return;  // all pages had been read already
  CHECK(document.contains("error"));
  CHECK(document.at("messages").size() < 3000);
}

TEST_CASE("queues: more queues than a process may open connections are all listed") {
  test::empty_server();
  for (int i = 0; i < 1500; ++i) test::redis().cmd({"SADD", "dp:queues", "dp:queue" + std::to_string(i)});
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  rlimit few = before;
  few.rlim_cur = std::min<rlim_t>(before.rlim_cur, 400);
  ::setrlimit(RLIMIT_NOFILE, &few);
  const Ran ran = run({"queues", "-o", "json"});
  ::setrlimit(RLIMIT_NOFILE, &before);
  CHECK(ran.code == 0);
  CHECK(parse_json(ran.out).at("queues").size() == 1500);
  test::empty_server();
}
