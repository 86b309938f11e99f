// Completion of the names of queues and the ids in Redis. The tests run the real shells.
#include "preamble.h"

#include <poll.h>
#include <pty.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shell.h"

namespace {

using test::has_shell;
using test::text_lines;
using Strings = std::vector<std::string>;

// Names that a shell misreads unless they are quoted. No two begin with the same two characters.
const Strings kNames = {"a b",
                        "*",
                        "?x",
                        "it's",
                        "quote'",
                        "say \"hi\"",
                        "$(touch pwned)",
                        "`touch pwned`",
                        "b;touch pwned",
                        "~root",
                        "{a,b}",
                        "[x]",
                        "#note",
                        "c&b",
                        "d|b",
                        "k\\slash",
                        "!!",
                        "new:x=y",
                        "e>b",
                        "\xc3\xa4"};

bool is_there(const std::string& file) {
  struct stat found {};
  return ::lstat(file.c_str(), &found) == 0;
}

Strings sorted(Strings names) {
  std::sort(names.begin(), names.end());
  return names;
}

// The completions that dqctl offers for these words. dqctl stops after a short timeout, so a busy machine gets more
// tries.
Strings offered(Strings words, const DqctlOptions& options = {}) {
  words.insert(words.begin(), {"__complete", "--"});
  Ran ran = run(words, options);
  for (int tries = 1; ran.code == 1 && tries < 5; ++tries) ran = run(words, options);
  CHECK(ran.code == 0);
  return sorted(text_lines(ran.out));
}

// The output of a shell script, with more tries while it is empty, for the same reason.
std::string written_by(const std::string& shell, const std::string& text, const test::TempDir& folder) {
  std::string out = test::script(shell, text, folder);
  for (int tries = 1; out.empty() && tries < 5; ++tries) out = test::script(shell, text, folder);
  return out;
}

enum class Quote { none, single, twice };

// The text as a person types it with these quotes.
std::string typed(const std::string& text, Quote quote) {
  std::string out = quote == Quote::single ? "'" : quote == Quote::twice ? "\"" : "";
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || static_cast<signed char>(c) < 0;
    if (quote == Quote::single) {
      out += c == '\'' ? "'\\''" : std::string(1, c);
    } else if (quote == Quote::twice) {
      out += (std::string("\\\"$`").find(c) == std::string::npos ? "" : "\\") + std::string(1, c);
    } else {
      out += (letter ? "" : "\\") + std::string(1, c);
    }
  }
  return out;
}

// An interactive bash that reads the file `rc` in the folder.
class Bash {
 public:
  explicit Bash(const test::TempDir& folder) {
    const std::string rc = folder.file("rc"), uri = test::server().url();
    const winsize size{24, 200, 0, 0};
    pid_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
    if (pid_ == 0) {
      ::setenv("DELAYQUEUE_URI", uri.c_str(), 1);
      ::setenv("TERM", "dumb", 1);
      ::setenv("LC_ALL", "C.UTF-8", 1);
      ::execlp("bash", "bash", "--noprofile", "--rcfile", rc.c_str(), "-i", nullptr);
      ::_exit(127);
    }
    REQUIRE(pid_ > 0);
    REQUIRE(wait_for("ready> "));
  }

  ~Bash() {
    ::close(terminal_);
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  void type(const std::string& keys) {
    REQUIRE(::write(terminal_, keys.data(), keys.size()) == static_cast<ssize_t>(keys.size()));
  }

  // Returns false if the text does not come within 30 s.
  bool wait_for(const std::string& text) {
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    while (!has(seen_, text) && std::chrono::steady_clock::now() < deadline) {
      pollfd fd{terminal_, POLLIN, 0};
      char some[4096];
      if (::poll(&fd, 1, 100) <= 0) continue;
      const auto n = ::read(terminal_, some, sizeof some);
      if (n <= 0) break;
      seen_.append(some, static_cast<std::size_t>(n));
    }
    return has(seen_, text);
  }

  const std::string& seen() const { return seen_; }

 private:
  int terminal_ = -1;
  pid_t pid_ = -1;
  std::string seen_{};
};

// Makes one message in each state.
struct States {
  const std::string dead, pending, ready, unack;

  explicit States(const std::string& queue)
      : dead(test::make_dead(queue, Strings{"x"}, "why").front()),
        pending(test::send(queue, {"x"}, 1h).front()),
        ready(test::send(queue, {"x"}).front()),
        unack(test::hold(queue, 1h)) {}
};

}  // namespace

TEST_CASE("completion: bash completes each name unchanged, in single quotes, in double quotes and without quotes") {
  if (!has_shell("bash")) return;
  test::empty_server();
  for (const std::string& name : kNames) test::send(name, {"x"});
  const test::TempDir folder;
  std::ofstream(folder.file("rc")) << "cd '" << folder.file(".") << "'\nPATH='" << test::program_folder()
                                   << "':\"$PATH\"\nsource <(dqctl completion bash)\n"
                                   << "n=0; dqctl() { printf '{%s}' \"$@\"; echo \" run-$((++n))\"; }\nPS1='ready> '\n";
  Bash bash(folder);
  Strings expected;
  for (const std::string& name : kNames) {
    for (const Quote quote : {Quote::none, Quote::single, Quote::twice}) {
      if (quote == Quote::twice && name == "!!") continue;  // bash has replaced !! in double quotes before it completes
      const std::string line = "dqctl stats " + typed(name.substr(0, 2), quote);
      CAPTURE(line);
      expected.push_back("{stats}{" + name + "} run-" + std::to_string(expected.size() + 1));
      bash.type(line + "\t\r");
      REQUIRE(bash.wait_for("} run-" + std::to_string(expected.size())));
    }
  }
  for (const std::string& line : expected) {
    CAPTURE(line);
    CHECK(has(bash.seen(), line));
  }
  CHECK_FALSE(is_there(folder.file("pwned")));
}

TEST_CASE("completion: ids come from the states that the command works on, each once, and are UUIDs") {
  const std::string queue = fresh_queue() + " it's";
  const States ids(queue);
  for (const char* state : {"pending", "unack", "dead"}) {
    test::redis().cmd({"ZADD", "dp:" + queue + ":" + state, "4102444800", "$(touch pwned)"});
  }
  test::redis().cmd({"LPUSH", "dp:" + queue + ":ready", "--yes"});
  const Strings alive = sorted({ids.pending, ids.ready, ids.unack});
  const Strings all = sorted({ids.pending, ids.ready, ids.unack, ids.dead});
  for (const char* command : {"show", "cancel"}) CHECK(offered({command, queue, ""}) == all);
  for (const char* command : {"bury", "reschedule"}) CHECK(offered({command, queue, ""}) == alive);
  CHECK(offered({"release", queue, ""}) == sorted({ids.pending, ids.unack}));
  CHECK(offered({"extend", queue, "--by", "1m", ""}) == Strings{ids.unack});
  CHECK(offered({"redrive", queue, ""}) == Strings{ids.dead});
  CHECK(offered({"show", queue, ids.dead, "--payload", "hex", ""}) == alive);
  CHECK(offered({"show", queue, ids.dead}) == Strings{ids.dead});
  CHECK(offered({"-o", "json", "--utc", "show", "--", queue, ids.dead.substr(0, 35)}).size() >= 1);
  CHECK(offered({"show", queue, "no such"}).empty());
  CHECK(offered({"show", queue, "--payload", ""}) == Strings{"hex", "json", "raw", "text"});
  CHECK(offered({"ls", queue, ""}).empty());
  CHECK(offered({"nonsense", queue, ""}).empty());
  CHECK(offered({"show", "no such queue", ""}).empty());
  CHECK_FALSE(test::redis().cmd({"SISMEMBER", "dp:queues", "dp:no such queue"}) == 1);
}

TEST_CASE("completion: a long queue gives at most 100 ids, among them the one whose start is typed") {
  const std::string queue = fresh_queue();
  const Strings ids = test::send(queue, test::numbered(400), 1h);
  CHECK(offered({"show", queue, ""}).size() == 100);
  CHECK(offered({"show", queue, ids[350]}) == Strings{ids[350]});
}

TEST_CASE("completion: the options before the cursor choose the server and the queue") {
  test::empty_server();
  delayqueue::KeyOptions other;
  other.prefix = "other";
  delayqueue::Producer producer({test::server().url(), with(&delayqueue::ClientOptions::keys, other)}, "elsewhere");
  producer.send("x");
  test::send("here", {"x"});
  CHECK(offered({"stats", ""}) == Strings{"here"});
  CHECK(offered({"--prefix", "other", "stats", ""}) == Strings{"elsewhere"});
  CHECK(offered({"stats", "--prefix=other", ""}) == Strings{"elsewhere"});
  DqctlOptions nowhere;
  nowhere.environment["DELAYQUEUE_URI"] = "unix:///no/such";
  CHECK(offered({"-u", test::server().url(), "stats", ""}, nowhere) == Strings{"here"});
  CHECK(offered({"stats", "-u" + test::server().url(), ""}, nowhere) == Strings{"here"});
  CHECK(run({"__complete", "--", "stats", ""}, nowhere).out.empty());
}

TEST_CASE("completion: redrive --to offers the other queues, in every shell") {
  test::empty_server();
  for (const char* name : {"orders", "a b", "orders:slow"}) test::send(name, {"x"});
  CHECK(offered({"redrive", "orders", "--to", ""}) == Strings{"a b", "orders:slow"});
  CHECK(offered({"redrive", "orders", "--to="}) == Strings{"a b", "orders:slow"});
  const test::TempDir folder;
  if (has_shell("bash")) {
    const std::string out = written_by("bash --norc", test::kBashHead + R"(complete_for dqctl redrive orders --to ''
complete_for dqctl redrive orders --to orders : s
complete_for dqctl redrive orders --to = a
complete_for dqctl ls orders --state = de
)",
                                       folder);
    CHECK(out == "a\\ b\norders:slow\nslow\na\\ b\ndead\n");
  }
  if (has_shell("zsh")) {
    const std::string out =
        written_by("zsh -f", test::kZshHead + "complete_for dqctl redrive orders --to ''\n", folder);
    CHECK(out == "a b\norders:slow\n");
  }
  if (has_shell("fish")) {
    const std::string complete = "dqctl completion fish | source\ncomplete -C 'dqctl redrive orders --to '\n";
    const std::string out = written_by("fish --no-config", complete, folder);
    CHECK(has("\n" + out, "\na b"));
    CHECK_FALSE(has("\n" + out, "\norders\n"));
  }
}

TEST_CASE("completion: ids of a queue with a quoted name are completed, in every shell") {
  test::empty_server();
  const States ids("a b$(touch pwned)'");
  const Strings all = sorted({ids.pending, ids.ready, ids.unack, ids.dead});
  const test::TempDir folder;
  std::ofstream(folder.file("typed")) << "'a b$(touch pwned)'\\'''";  // valid in all three shells
  if (has_shell("bash")) {
    const std::string complete = test::kBashHead + "complete_for dqctl show \"$(<typed)\" ''\n";
    CHECK(sorted(text_lines(written_by("bash --norc", complete, folder))) == all);
    const std::string expanded = test::kBashHead + "complete_for dqctl show '$(touch pwned)' ''\n";
    CHECK(test::script("bash --norc", expanded, folder).empty());
  }
  if (has_shell("zsh")) {
    const std::string complete = test::kZshHead + "complete_for dqctl show \"$(<typed)\" ''\n";
    CHECK(sorted(text_lines(written_by("zsh -f", complete, folder))) == all);
  }
  if (has_shell("fish")) {
    const std::string complete = "dqctl completion fish | source\ncomplete -C 'dqctl show '(cat typed)' '\n";
    const std::string out = written_by("fish --no-config", complete, folder);
    for (const std::string& id : all) CHECK(has(out, id));
  }
  CHECK_FALSE(is_there(folder.file("pwned")));
}

TEST_CASE("completion: no shell starts an embedded server for it, for any source of the URL") {
  const test::TempDir folder;
  const std::string queue = folder.file("queue"), url = "embedded:" + queue;
  DqctlOptions embedded;
  embedded.environment["DELAYQUEUE_URI"] = url;
  for (const Strings& words :
       {Strings{"stats", ""}, Strings{"show", "orders", ""}, Strings{"redrive", "q", "--to", ""}}) {
    CHECK(offered(words, embedded).empty());
    Strings named = words;
    named.insert(named.begin(), {"-u", url});
    CHECK(offered(named).empty());
  }
  if (has_shell("bash")) {
    CHECK(test::script("bash --norc", test::kBashHead + "complete_for dqctl stats ''\n", folder, url).empty());
    const std::string named = test::kBashHead + "complete_for dqctl -u embedded : " + queue + " stats ''\n";
    CHECK(test::script("bash --norc", named, folder).empty());
  }
  if (has_shell("zsh")) test::script("zsh -f", test::kZshHead + "complete_for dqctl stats ''\n", folder, url);
  if (has_shell("fish")) {
    const std::string complete = "dqctl completion fish | source\ncomplete -C 'dqctl -u " + url + " stats '\n";
    test::script("fish --no-config", complete, folder);
  }
  CHECK_FALSE(is_there(queue));
  CHECK(run({"-u", url, "queues"}).code == 0);  // any other command starts it
  CHECK(is_there(queue));
}

TEST_CASE("completion: it ends within seconds, with nothing, if the servers do not answer") {
  const std::list<test::Port> ports(12);
  std::vector<delayqueue::Descriptor> listening;
  std::string sentinels;
  for (const test::Port& port : ports) {
    listening.push_back(test::listen_on(port));
    sentinels += (sentinels.empty() ? "" : ",") + ("127.0.0.1:" + std::to_string(port.number()));
  }
  DqctlOptions silent;
  silent.environment["DELAYQUEUE_URI"] = "redis+sentinel://" + sentinels + "/master";
  Ran ran;
  for (int tries = 0; tries < 4; ++tries) {  // a busy machine may delay one run
    ran = expect(run({"__complete", "--", "stats", ""}, silent), 1, {out_is("")});
    if (ran.took < 6s) break;
  }
  CHECK(ran.took < 6s);  // less than the twelve seconds of one second each
}
