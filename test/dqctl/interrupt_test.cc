// SIGINT in the middle of a command: dqctl ends soon, and -o json still writes a document.
#include "preamble.h"

#include <sys/ioctl.h>
#include <sys/wait.h>

#include "support/paths.h"
#include "work_support.h"

namespace {

// A dqctl whose stdin stays open after the test has written to it.
class OpenInput {
 public:
  explicit OpenInput(const std::string& arguments) {
    const std::string line = "echo $$ >'" + folder_.file("pid") + "'; DELAYQUEUE_URI='" + test::server().url() +
                             "' exec '" + test::program_path("dqctl") + "' " + arguments + " >'" + folder_.file("out") +
                             "' 2>'" + folder_.file("err") + "'";
    input_ = ::popen(line.c_str(), "w");
    REQUIRE(input_ != nullptr);
  }
  ~OpenInput() {
    if (input_ == nullptr) return;
    ::kill(std::stoi(content_of(folder_.file("pid"))), SIGKILL);
    ::pclose(input_);
  }
  OpenInput(const OpenInput&) = delete;
  OpenInput& operator=(const OpenInput&) = delete;

  // Returns when dqctl has read the keys and waits for more.
  void type(const std::string& text) {
    std::fputs(text.c_str(), input_);
    std::fflush(input_);
    int unread = 1;
    REQUIRE(eventually([&] { return ::ioctl(::fileno(input_), FIONREAD, &unread) == 0 && unread == 0; }, 30s));
  }

  // Sends SIGINT once. Returns the exit code, or -1 if dqctl does not end.
  int interrupt() {
    const std::string pid = content_of(folder_.file("pid"));
    ::kill(std::stoi(pid), SIGINT);
    const std::string number = pid.substr(0, pid.find('\n'));
    if (!eventually([&] { return !test::process_runs(number); }, 30s)) return -1;
    const int status = ::pclose(std::exchange(input_, nullptr));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::string out() const { return content_of(folder_.file("out")); }
  std::string err() const { return content_of(folder_.file("err")); }

 private:
  const test::TempDir folder_{};
  FILE* input_ = nullptr;
};

bool is_connected() { return test::redis().cmd({"CLIENT", "LIST"}).text.find(" name=dqctl ") != std::string::npos; }

}  // namespace

TEST_CASE("interrupt: send ends although its stdin stays open, and sends nothing") {
  const std::string queue = fresh_queue();
  OpenInput send("send " + queue + " - -o json");
  send.type("half a pay");
  CHECK(send.interrupt() == 130);
  CHECK(parse_json(send.out()).at("error") == "stdin: not read to its end; nothing was sent");
  CHECK(delayqueue::Inspector(test::server().url(), queue).counts().totals.sent == 0);
}

TEST_CASE("interrupt: a command that reads ids writes a JSON error and changes nothing") {
  test::Work work;
  work.send("x");
  for (const int count : {1, 30}) {  // with 30 it needs --yes
    CAPTURE(count);
    OpenInput cancel("cancel " + work.name + " - -o json");
    std::string ids;
    for (int i = 0; i < count; ++i) ids += "0197f3a4-5b6c-7d8e-9f01-23456789abcd\n";
    cancel.type(ids);
    CHECK(cancel.interrupt() == 130);
    CHECK_MESSAGE(parse_json(cancel.out()).at("error") == "interrupted; nothing was done", cancel.out());
    CHECK_MESSAGE(has(cancel.err(), "interrupted; nothing was done"), cancel.err());
    CHECK(work.inspector.counts().ready == 1);
  }
}

TEST_CASE("interrupt: stuck and doctor write a JSON document with the error") {
  test::redis().cmd({"FLUSHALL"});
  test::Work work;
  work.send("x");
  test::redis().cmd({"ZADD", "dp:" + work.name + ":dead", "1", "no UUID"});
  const std::vector<std::vector<std::string>> commands = {{"stuck", "-o", "json", "--look", "10m"},
                                                          {"stuck", work.name, "-o", "json", "--look", "10m"},
                                                          {"stuck", work.name, "-o", "ndjson", "--look", "10m"},
                                                          {"doctor", work.name, "-o", "json", "--settle", "10m"}};
  for (const auto& words : commands) {
    REQUIRE(eventually([] { return !is_connected(); }, 30s));
    Dqctl dqctl(words);
    REQUIRE(eventually(is_connected, 30s));
    dqctl.signal(SIGINT);
    const Ran ran = expect(dqctl.wait(), 130);
    CAPTURE(ran.out);
    CAPTURE(ran.err);
    CAPTURE(words.front());
    CHECK(test::text_lines(ran.out).size() == 1);
    CHECK(parse_json(ran.out).at("error").get<std::string>().find("interrupted") != std::string::npos);
  }
}

TEST_CASE("interrupt: a dry run writes the error as one JSON document or line") {
  delayqueue::PrivateServer server;
  delayqueue::Producer(server.url(), "q").send("x");
  const auto has_handler = [](int pid) {  // for SIGINT, by the bits of caught signals
    const std::string status = content_of("/proc/" + std::to_string(pid) + "/status");
    const std::size_t at = status.find("SigCgt:");
    const bool is_dqctl = status.rfind("Name:\tdqctl\n", 0) == 0;
    return is_dqctl && at != std::string::npos &&
           (std::stoull(status.substr(at + 7), nullptr, 16) & 1U << (SIGINT - 1)) != 0;
  };
  for (const std::string format : {"json", "ndjson"}) {
    CAPTURE(format);
    DqctlOptions options;
    options.environment["DELAYQUEUE_URI"] = server.url();
    ::kill(server.pid(), SIGSTOP);
    Dqctl dqctl({"purge", "q", "--state", "ready", "--match", "*", "-o", format, "--connect-timeout", "60s",
                 "--command-timeout", "60s"},
                options);
    const bool ready = eventually([&] { return has_handler(dqctl.pid()); }, 30s);
    dqctl.signal(SIGINT);
    ::kill(server.pid(), SIGCONT);
    REQUIRE(ready);
    const Ran ran = expect(dqctl.wait(), 130);
    CAPTURE(ran.out);
    CAPTURE(ran.err);
    REQUIRE(test::text_lines(ran.out).size() == 1);
    CHECK(parse_json(ran.out).at("error") == "interrupted; nothing was done");
    CHECK(ran.err == "dqctl: interrupted; nothing was done\n");
  }
}
