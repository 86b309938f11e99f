// Tests of programs that run with stdin, stdout or stderr closed. The next descriptor that such a program opens gets
// the number of the closed stream. It must not be a connection to Redis: Redis would execute the text that the program
// prints.
#include "preamble.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "commands.h"
#include "support/local.h"
#include "support/paths.h"
#include "support/process.h"

namespace {

using test::redis;
using test::server;

constexpr char kCommand[] = "DEL canary\r\n";
constexpr int kAll = 8;  // combinations of closed streams: bit n closes descriptor n

std::string contents(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A program that runs with some standard streams closed. The open ones read nothing and write to files.
class Program : public test::Child {
 public:
  Program(std::vector<std::string> words, int closed) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const std::string uri = "DELAYQUEUE_URI=" + server().url();
    const std::string out = out_file(), err = err_file();
    int exec[2];  // closed by a successful exec
    REQUIRE(::pipe2(exec, O_CLOEXEC) == 0);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ > 0) {
      ::close(exec[1]);
      [[maybe_unused]] const auto end = ::read(exec[0], exec, 1);
      ::close(exec[0]);
      return;
    }
    ::putenv(const_cast<char*>(uri.c_str()));
    ::dup2(::open("/dev/null", O_RDONLY), 0);
    ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
    ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
    for (int fd = 3; fd < 1024; ++fd) {
      if (fd != exec[1]) ::close(fd);
    }
    for (int fd = 0; fd < 3; ++fd) {
      if ((closed >> fd & 1) != 0) ::close(fd);
    }
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }

  // The target of the link /proc/<pid>/fd/<fd>; empty if the descriptor is closed.
  std::string link(int fd) const {
    char to[256];
    const std::string path = "/proc/" + std::to_string(pid_) + "/fd/" + std::to_string(fd);
    const auto size = ::readlink(path.c_str(), to, sizeof to);
    return size < 0 ? "" : std::string(to, static_cast<std::size_t>(size));
  }

  bool has_socket() const {
    for (int fd = 0; fd < 64; ++fd) {
      if (link(fd).rfind("socket:", 0) == 0) return true;
    }
    return false;
  }

  std::string out() const { return contents(out_file()); }
  std::string err() const { return contents(err_file()); }

 private:
  std::string out_file() const { return files_.file("out"); }
  std::string err_file() const { return files_.file("err"); }

  const test::TempDir files_;
};

bool canary_lives() { return redis().cmd({"GET", "canary"}) == "alive"; }

// Checks the descriptors 0 to 2 of a program that connects while the server is frozen.
void look_at_streams(Program& program) {
  CHECK(eventually([&] { return program.has_socket() || program.ended(); }, kPatience));
  for (int fd = 0; fd < 3; ++fd) {
    CAPTURE(fd);
    std::string link;
    // A new descriptor has a low number until the library moves it up, which it does before it connects.
    const bool harmless = eventually([&] {
      link = program.link(fd);
      return link.empty() || link == "/dev/null" || link.find("/out") != std::string::npos ||
             link.find("/err") != std::string::npos;
    });
    CHECK_MESSAGE(harmless, link);
  }
}

// What dqctl serve answers to GET /healthz at this unix socket.
std::string answer_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(eventually([&] { return ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0; },
                     kPatience));
  const std::string request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
  ::send(fd, request.data(), request.size(), MSG_NOSIGNAL);
  std::string answer;
  char some[1024];
  for (ssize_t n = 0; (n = ::read(fd, some, sizeof some)) > 0;) answer.append(some, static_cast<std::size_t>(n));
  ::close(fd);
  return answer;
}

class Frozen {
 public:
  Frozen() { ::kill(server().pid(), SIGSTOP); }
  ~Frozen() { ::kill(server().pid(), SIGCONT); }
};

TEST_CASE("closed streams: no connection, pipe or file of the library gets the descriptor 0, 1 or 2") {
  redis().cmd({"SET", "canary", "alive"});
  for (const char* kind : {"Producer", "Consumer", "Inspector", "PrivateServer", "embedded:"}) {
    for (int closed = 0; closed < kAll; ++closed) {
      CAPTURE(kind);
      CAPTURE(closed);
      const test::TempDir folder;
      Program program(
          {test::program_path("streams_program"), kind, server().url(), fresh_queue(), folder.file("report")}, closed);
      CHECK(program.wait() == 0);
      CHECK(contents(folder.file("report")) == "");
      CHECK(canary_lives());
    }
  }
}

// The arguments of each command, for a queue with one message.
std::map<std::string, std::vector<std::string>> arguments_of_commands(const std::string& queue, const std::string& id,
                                                                      const std::string& socket) {
  return {{"queues", {"queues", "--names"}},
          {"stats", {"stats", queue}},
          {"metrics", {"metrics", queue}},
          {"ls", {"ls", queue, "--state", "pending"}},
          {"show", {"show", queue, id, "--payload", "raw"}},
          {"find", {"find", id}},
          {"actions", {"actions", queue}},
          {"limit", {"limit", queue}},
          {"reasons", {"reasons", queue}},
          {"stuck", {"stuck", queue}},
          {"workers", {"workers"}},
          {"top", {"top"}},
          {"serve", {"serve", "--socket", socket}},
          {"events", {"events", queue, "--for", "10ms"}},
          {"doctor", {"doctor", queue}},
          {"send", {"send", queue, kCommand}},
          {"schedule", {"schedule", "add", queue, "hourly", "--every", "1h", "--payload", kCommand}},
          {"work", {"work", queue, "--exec", "cat", "--until-empty"}},
          {"cancel", {"cancel", queue, id}},
          {"reschedule", {"reschedule", queue, id, "--in", "2h"}},
          {"release", {"release", queue, id}},
          {"bury", {"bury", queue, id}},
          {"extend", {"extend", queue, id, "--by", "1h"}},
          {"redrive", {"redrive", queue, "--all", "--yes"}},
          {"purge", {"purge", queue, "--all", "--state", "pending", "--yes"}},
          {"pause", {"pause", queue, "--for", "1ms"}},
          {"resume", {"resume", queue}},
          {"drain", {"drain", queue}},
          {"forget", {"forget", queue}},
          {"partitions", {"partitions", queue, "--set", "2"}},
          {"export", {"export", queue}},
          {"import", {"import", queue, "-"}},
          {"scripts", {"scripts", "list"}},
          {"version", {"version"}},
          {"completion", {"completion", "bash"}},
          {"man", {"man"}}};
}

TEST_CASE("closed streams: no command of dqctl sends its output to Redis") {
  redis().cmd({"SET", "canary", "alive"});
  redis().cmd({"SADD", "dp:queues", std::string("dp:") + kCommand});
  dqctl::Context context;
  dqctl::Cli cli(context.options);
  dqctl::add_commands(cli, context);
  std::vector<std::string> names{"man"};
  for (const dqctl::CommandInfo& command : cli.commands()) names.push_back(command.name);
  for (const std::string& name : names) {
    for (int closed = 0; closed < kAll; ++closed) {
      CAPTURE(name);
      CAPTURE(closed);
      const std::string queue = fresh_queue();
      const std::string id = test::send(queue, {kCommand}, 1h).front();
      const test::TempDir folder;
      const auto known = arguments_of_commands(queue, id, folder.file("socket"));
      REQUIRE(known.count(name) == 1);  // add a new command to the table above
      std::vector<std::string> words = known.at(name);
      words.insert(words.begin(),
                   {test::program_path("dqctl"), "--connect-timeout", "30s", "--command-timeout", "30s"});
      std::optional<Frozen> frozen(std::in_place);
      Program program(words, closed);
      look_at_streams(program);
      frozen.reset();
      if (name == "serve") {
        const std::string answer = answer_of(folder.file("socket"));
        CHECK_MESSAGE(answer.rfind("HTTP/1.1 200 ", 0) == 0, answer);
        look_at_streams(program);
        program.kill(SIGTERM);
      }
      const int code = program.wait();
      CHECK(canary_lives());
      const bool prints = name != "work" && name != "serve";
      const bool without_stdout = (closed & 2) != 0;
      if (!without_stdout || !prints) {
        CHECK(code != 127);
        continue;
      }
      CHECK(code == 1);
      CHECK(redis().cmd({"ZSCORE", "dp:" + queue + ":pending", id}).nil() == false);  // the command changed nothing
      const bool without_stderr = (closed & 4) != 0;
      const std::string expected =
          without_stderr ? "" : "dqctl: cannot write to stdout: it is closed; nothing was done";
      CHECK_MESSAGE(program.err().rfind(expected, 0) == 0, program.err());
    }
  }
}

TEST_CASE("closed streams: dqctl send reads no message from a closed stdin") {
  const std::string queue = fresh_queue();
  Program program({test::program_path("dqctl"), "send", queue, "-"}, 1);
  CHECK(program.wait() == 1);
  CHECK_MESSAGE(program.err().find("'stdin' cannot be read") != std::string::npos, program.err());
  CHECK(redis().cmd({"EXISTS", "dp:" + queue + ":ready"}) == 0);
}

TEST_CASE("closed streams: the file of --backup holds the messages and none of dqctl's own output") {
  for (const int closed : {0, 1, 4, 5}) {
    CAPTURE(closed);
    const std::string queue = fresh_queue();
    test::send(queue, test::numbered(3), 1h);
    const test::TempDir folder;
    Program program({test::program_path("dqctl"), "purge", queue, "--all", "--state", "pending", "--yes", "--backup",
                     folder.file("backup")},
                    closed);
    CHECK(program.wait() == 0);
    CHECK(lines_of(contents(folder.file("backup"))).size() == 3);
  }
}

TEST_CASE("closed streams: a command run by dqctl work writes to no connection") {
  redis().cmd({"SET", "canary", "alive"});
  for (int closed = 0; closed < kAll; ++closed) {
    CAPTURE(closed);
    const std::string queue = fresh_queue();
    test::send(queue, {kCommand});
    Program program({test::program_path("dqctl"), "work", queue, "--until-empty", "--exec",
                     "cat; cat <&0; echo 'DEL canary' >&2; for fd in 0 1 2; do readlink /proc/self/fd/$fd; done"},
                    closed);
    CHECK(program.wait() == 0);
    CHECK(canary_lives());
  }
}

TEST_CASE("closed streams: no example sends its output to Redis") {
  redis().cmd({"SET", "canary", "alive"});
  for (int closed = 0; closed < kAll; ++closed) {
    const std::string queue = fresh_queue();
    const std::string id = test::send(queue, {kCommand}).front();
    const std::string url = server().url();
    const std::vector<std::vector<std::string>> programs = {
        {"send", url, queue, kCommand},
        {"work", url, queue},
        {"cancel", url, queue, id},
        {"order_timeout", url, test::source_path("examples/orders.jsonl")}};
    for (std::vector<std::string> words : programs) {
      const std::string name = words.front();
      CAPTURE(name);
      CAPTURE(closed);
      words.front() = test::program_path(name);
      std::optional<Frozen> frozen(std::in_place);
      Program program(words, closed);
      look_at_streams(program);
      frozen.reset();
      if (name == "work") {
        CHECK(eventually([&] { return redis().cmd({"HGET", "dp:" + queue + ":stats", "acked"}) == "2"; }, kPatience));
        look_at_streams(program);
        program.kill(SIGTERM);
      }
      if (name == "order_timeout") {
        std::this_thread::sleep_for(100ms);
        look_at_streams(program);
        program.kill(SIGKILL);
      }
      program.wait();
      CHECK(canary_lives());
      // The frozen server may have been too slow for it.
      const bool gave_up = name == "send" && redis().cmd({"HGET", "dp:" + queue + ":stats", "sent"}) == "1";
      if (gave_up) test::send(queue, {kCommand});
    }
  }
}

}  // namespace
