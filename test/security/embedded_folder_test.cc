// The folder of an embedded server belongs to its user alone. Another user who can create a file in it runs code in the
// server; one who can enter it reads the messages.
#include "preamble.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "embedded/folder_servers.h"
#include "other_user.h"
#include "support/local.h"

namespace fs = std::filesystem;
using delayqueue::PrivateServer;
using delayqueue::SetupError;
using doctest::Contains;
using test::can_be_other_user;
using test::kOtherUser;

namespace {

void write(const std::string& file, const std::string& text) { std::ofstream(file) << text; }

PrivateServer private_server_in(const std::string& folder) {
  delayqueue::PrivateServerOptions options;
  options.folder = folder;
  return PrivateServer(options);
}

// Writes an append-only file as redis-server does. It holds one command, which Redis runs when it starts.
void write_append_only_file(const std::string& folder) {
  fs::create_directories(folder + "/appendonlydir");
  write(folder + "/appendonlydir/appendonly.aof.manifest", "file appendonly.aof.1.incr.aof seq 1 type i\n");
  write(folder + "/appendonlydir/appendonly.aof.1.incr.aof", "*3\r\n$3\r\nSET\r\n$7\r\nplanted\r\n$3\r\nyes\r\n");
}

// Opens the folder in each way of the library, and with dqctl. Returns the texts of the refusals.
std::string refusal_by_all(const std::string& folder) {
  const std::string url = "embedded:" + folder;
  const std::map<std::string, std::function<void()>> ways{
      {"Producer", [&] { delayqueue::Producer(url, "q").send("x"); }},
      {"Consumer",
       [&] { delayqueue::Consumer(url, "q", [](const delayqueue::Message&) { return delayqueue::ack(); }).start(); }},
      {"Inspector", [&] { static_cast<void>(delayqueue::Inspector(url, "q").counts()); }},
      {"QueueAdmin", [&] { delayqueue::QueueAdmin(url, "q").resume(); }},
      {"PrivateServer", [&] { private_server_in(folder); }}};
  std::string all;
  for (const auto& way : ways) {
    CAPTURE(way.first);
    try {
      way.second();
      FAIL_CHECK("not refused");
    } catch (const SetupError& e) {
      all += std::string(e.what()) + '\n';
    }
  }
  DqctlOptions options;
  options.environment["DELAYQUEUE_URI"] = url;
  const auto ran = run({"queues"}, options);
  CHECK(ran.code != 0);
  CHECK_MESSAGE(ran.err.find(folder) != std::string::npos, ran.err);
  return all;
}

// Listens on the path. Returns whether a client sent anything.
int listen_as(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return -1;
  ::chmod(path.c_str(), 0777);
  return ::listen(fd, 8) == 0 ? fd : -1;
}

}  // namespace

TEST_CASE("embedded folder: one created by another user is refused, and its append-only file is not run") {
  if (!can_be_other_user()) return;
  const test::SharedFolder shared;
  const std::string folder = shared / "queue";
  const auto attack = [&folder] {
    ::umask(0);
    write_append_only_file(folder);
    return 0;
  };
  REQUIRE(test::as_other_user(attack) == 0);
  const auto text = refusal_by_all(folder);
  CHECK_MESSAGE(text.find(folder) != std::string::npos, text);
  CHECK_MESSAGE(text.find("belongs to another user (uid 54321, mode 0777") != std::string::npos, text);
  CHECK_FALSE(fs::exists(folder + "/log"));
  REQUIRE(::chown(folder.c_str(), ::geteuid(), ::getegid()) == 0);
  REQUIRE(::chmod(folder.c_str(), 0700) == 0);
  const auto inner = refusal_by_all(folder);
  CHECK_MESSAGE(inner.find(folder + "/appendonlydir: it belongs to another user") != std::string::npos, inner);
  REQUIRE(::chown((folder + "/appendonlydir").c_str(), ::geteuid(), ::getegid()) == 0);
  REQUIRE(::chmod((folder + "/appendonlydir").c_str(), 0700) == 0);
  const auto file = refusal_by_all(folder);
  CHECK_MESSAGE(file.find("/appendonlydir/appendonly.aof.") != std::string::npos, file);
  CHECK_FALSE(fs::exists(folder + "/log"));
}

TEST_CASE("embedded folder: another user can neither enter nor replace it") {
  if (!can_be_other_user()) return;
  const test::SharedFolder shared;
  const std::string folder = shared / "queue";
  ::umask(0);
  delayqueue::Producer("embedded:" + folder, "q").send("secret");
  const auto attack = [&folder] {
    if (::access((folder + "/s").c_str(), F_OK) == 0) return 1;
    if (::open((folder + "/appendonlydir").c_str(), O_RDONLY) >= 0) return 2;
    if (::rename(folder.c_str(), (folder + ".old").c_str()) == 0) return 3;
    return 0;
  };
  CHECK(test::as_other_user(attack) == 0);
  ::umask(022);
}

TEST_CASE(
    "embedded folder: one that is open to other users is refused, and the error names the command that closes it") {
  const test::TempDir base;
  const std::string folder = base.file("queue");
  REQUIRE(::mkdir(folder.c_str(), 0700) == 0);
  for (const mode_t mode : {0755U, 0710U, 0701U}) {
    REQUIRE(::chmod(folder.c_str(), mode) == 0);
    const auto text = refusal_by_all(folder);
    CHECK_MESSAGE(text.find("it is open to other users") != std::string::npos, text);
    CHECK_MESSAGE(text.find("chmod 700 " + folder) != std::string::npos, text);
  }
  REQUIRE(::chmod(folder.c_str(), 0700) == 0);
  delayqueue::Producer("embedded:" + folder, "q").send("x");
}

TEST_CASE("embedded folder: it, new parents and the files in it are closed to other users under any umask") {
  for (const mode_t mask : {0U, 0077U, 0277U}) {
    CAPTURE(mask);
    const test::TempDir base;
    const mode_t before = ::umask(mask);
    {
      const auto server = private_server_in(base.file("a/b/queue"));
      ::umask(before);
      for (const char* made : {"a", "a/b", "a/b/queue"}) CHECK(test::mode_of(base.file(made)) == 0700);
      for (const auto& entry : fs::recursive_directory_iterator(base.file("a/b/queue"))) {
        CAPTURE(entry.path().string());
        CHECK((test::mode_of(entry.path()) & 077) == 0);
      }
    }
  }
}

TEST_CASE("embedded folder: a parent folder that others can write to is refused, unless it is sticky") {
  const test::TempDir base;
  const std::string above = base.file("above"), folder = above + "/queue";
  REQUIRE(::mkdir(above.c_str(), 0700) == 0);
  for (const mode_t mode : {0770U, 0707U}) {
    REQUIRE(::chmod(above.c_str(), mode) == 0);
    const auto text = refusal_by_all(folder);
    CHECK_MESSAGE(text.find("chmod go-w " + above) != std::string::npos, text);
    CHECK_FALSE(fs::exists(folder));
  }
  REQUIRE(::chmod(above.c_str(), 01777) == 0);
  delayqueue::Producer("embedded:" + folder, "q").send("x");
}

TEST_CASE("embedded folder: one below a folder or a link of another user is refused") {
  if (!can_be_other_user()) return;
  const test::SharedFolder shared;
  const std::string own = shared / "own", theirs = shared / "theirs", link = shared / "link";
  REQUIRE(::mkdir(own.c_str(), 0700) == 0);
  const auto attack = [&] {
    return ::mkdir(theirs.c_str(), 0755) == 0 && ::symlink(own.c_str(), link.c_str()) == 0 ? 0 : 1;
  };
  REQUIRE(test::as_other_user(attack) == 0);
  REQUIRE(::mkdir((theirs + "/queue").c_str(), 0700) == 0);
  const auto below = refusal_by_all(theirs + "/queue");
  CHECK_MESSAGE(below.find(theirs + " above it belongs to another user (uid 54321") != std::string::npos, below);
  const auto behind = refusal_by_all(link + "/queue");
  CHECK_MESSAGE(behind.find(link + " is a symbolic link of another user (uid 54321") != std::string::npos, behind);
  CHECK_FALSE(fs::exists(own + "/queue"));
}

TEST_CASE("embedded folder: links of the user in its path are followed; a folder that is a link is refused") {
  const test::TempDir base;
  const std::string real = base.file("real");
  REQUIRE(::mkdir(real.c_str(), 0700) == 0);
  REQUIRE(::symlink("real/../real", base.file("link").c_str()) == 0);
  REQUIRE(::symlink(base.file("link").c_str(), base.file("absolute").c_str()) == 0);
  delayqueue::Producer("embedded:" + base.file("absolute/queue"), "q").send("x");
  CHECK(fs::exists(real + "/queue/s"));
  REQUIRE(::symlink("real/queue", base.file("queue").c_str()) == 0);
  const auto text = refusal_by_all(base.file("queue"));
  CHECK_MESSAGE(text.find("it is a symbolic link") != std::string::npos, text);
  REQUIRE(::symlink("loop", base.file("loop").c_str()) == 0);
  CHECK_THROWS_WITH_AS(delayqueue::embedded_socket(base.file("loop/queue")), Contains("symbolic link"), SetupError);
}

TEST_CASE("embedded folder: the server writes no file through a link that leads out of the folder") {
  const test::TempDir base;
  const std::string folder = base.file("queue"), victim = base.file("victim");
  REQUIRE(::mkdir(folder.c_str(), 0700) == 0);
  for (const std::string name : {"lock", "log", "appendonly.aof", "dump.rdb", "temp-rewriteaof-7.aof"}) {
    for (const bool hard : {false, true}) {
      CAPTURE(name);
      CAPTURE(hard);
      write(victim, "keep this");
      ::chmod(victim.c_str(), 0600);
      const std::string file = folder + "/" + name;
      REQUIRE((hard ? ::link(victim.c_str(), file.c_str()) : ::symlink(victim.c_str(), file.c_str())) == 0);
      const auto text = refusal_by_all(folder);
      CHECK_MESSAGE(text.find(file) != std::string::npos, text);
      CHECK(content_of(victim) == "keep this");
      fs::remove(file);
    }
  }
  fs::create_directory(base.file("other"));
  REQUIRE(::symlink("../other", (folder + "/appendonlydir").c_str()) == 0);
  const auto text = refusal_by_all(folder);
  CHECK_MESSAGE(text.find("appendonlydir: it is a symbolic link") != std::string::npos, text);
}

TEST_CASE("embedded folder: a socket that is a link to another server is refused") {
  const test::TempDir base;
  const std::string folder = base.file("queue");
  REQUIRE(::mkdir(folder.c_str(), 0700) == 0);
  const PrivateServer other;
  REQUIRE(::symlink(other.socket().c_str(), (folder + "/s").c_str()) == 0);
  const auto text = refusal_by_all(folder);
  CHECK_MESSAGE(text.find(folder + "/s: it is a symbolic link") != std::string::npos, text);
  CHECK(Redis(other.socket()).cmd({"DBSIZE"}) == 0);
}

TEST_CASE("embedded folder: nothing is sent to a server of another user that listens on its socket") {
  if (!can_be_other_user()) return;
  const test::SharedFolder shared;
  const std::string folder = shared / "queue", socket = folder + "/s";
  REQUIRE(::mkdir(folder.c_str(), 0700) == 0);
  REQUIRE(::chmod(folder.c_str(), 0777) == 0);
  int fd = -1;
  const auto prepare = [&] { return (fd = listen_as(socket)) >= 0; };
  const auto count_bytes = [&fd] {
    char byte = 0;
    for (;;) {
      const int link = ::accept(fd, nullptr, nullptr);
      if (::read(link, &byte, 1) == 1) return byte == '!' ? 0 : 1;
      ::close(link);
    }
  };
  test::OtherUser attacker(prepare, count_bytes);
  REQUIRE(::chmod(folder.c_str(), 0700) == 0);
  const auto text = refusal_by_all(folder);
  CHECK_MESSAGE(text.find("uid 54321") != std::string::npos, text);
  REQUIRE(::chown(socket.c_str(), ::geteuid(), ::getegid()) == 0);
  CHECK_THROWS_WITH_AS(delayqueue::embedded_socket(folder), Contains("the server there runs as uid 54321"), SetupError);
  const int own = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket.copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(::connect(own, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::write(own, "!", 1) == 1);
  CHECK(attacker.wait() == 0);
  ::close(own);
}

TEST_CASE("embedded folder: a configuration file in it has no effect") {
  const test::TempDir base;
  const std::string folder = base.file("queue");
  REQUIRE(::mkdir(folder.c_str(), 0700) == 0);
  for (const std::string name : {"redis.conf", "valkey.conf", "users.acl", "sentinel.conf"}) {
    write(folder + "/" + name, "appendonly no\nrequirepass planted\n");
  }
  Redis redis(delayqueue::embedded_socket(folder));
  CHECK(redis.cmd({"CONFIG", "GET", "appendonly"}) == std::vector<std::string>{"appendonly", "yes"});
}
