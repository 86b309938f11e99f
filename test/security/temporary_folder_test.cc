// The library removes temporary folders of killed processes, and no others.
#include "support/test.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "embedded/folder_servers.h"
#include "embedded/temporary_folder.h"
#include "other_user.h"
#include "support/local.h"

namespace fs = std::filesystem;
using delayqueue::TemporaryFolder;

namespace {

// Sets TMPDIR to a new folder during its lifetime.
class OwnTmpdir {
 public:
  OwnTmpdir() {
    const char* const value = std::getenv("TMPDIR");
    had_ = value != nullptr;
    if (had_) before_ = value;
    ::mkdir(path_.c_str(), 0700);
    ::setenv("TMPDIR", path_.c_str(), 1);
  }
  ~OwnTmpdir() { had_ ? ::setenv("TMPDIR", before_.c_str(), 1) : ::unsetenv("TMPDIR"); }

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  const test::TempDir base_;
  const std::string path_ = base_.file("t");
  bool had_ = false;
  std::string before_;
};

std::string pid_of_ended_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return std::to_string(child);
}

// Makes a folder as a killed process leaves it behind.
std::string stale(const OwnTmpdir& tmpdir, const std::string& name) {
  std::string marker_text;
  {
    const TemporaryFolder living;
    std::ifstream file(living.path() / ".temporary");
    std::getline(file, marker_text);
  }
  const std::string folder = tmpdir / name;
  REQUIRE(::mkdir(folder.c_str(), 0700) == 0);
  std::ofstream(folder + "/.temporary") << marker_text << '\n';
  ::chmod((folder + "/.temporary").c_str(), 0600);
  std::ofstream(folder + "/data") << "messages";
  return folder;
}

}  // namespace

TEST_CASE("temporary folder: one of an ended process is removed when the next one is made") {
  const OwnTmpdir tmpdir;
  const auto folder = stale(tmpdir, "delayqueue-" + pid_of_ended_process() + "-aB3xyz");
  { const TemporaryFolder next; }
  CHECK_FALSE(fs::exists(folder));
}

TEST_CASE("temporary folder: a folder that differs in any point from one that the library makes stays") {
  const OwnTmpdir tmpdir;
  const std::string pid = pid_of_ended_process(), exact = "delayqueue-" + pid + "-aB3xyz";
  std::string folder;
  SUBCASE("no marker") {
    folder = stale(tmpdir, exact);
    fs::remove(folder + "/.temporary");
  }
  SUBCASE("a marker with another text") {
    folder = stale(tmpdir, exact);
    std::ofstream(folder + "/.temporary", std::ios::app) << "no\n";
  }
  SUBCASE("a marker with another mode") {
    folder = stale(tmpdir, exact);
    ::chmod((folder + "/.temporary").c_str(), 0644);
  }
  SUBCASE("a marker that is a link") {
    folder = stale(tmpdir, exact);
    fs::rename(folder + "/.temporary", tmpdir / "elsewhere");
    fs::create_symlink(tmpdir / "elsewhere", folder + "/.temporary");
  }
  SUBCASE("another mode") {
    folder = stale(tmpdir, exact);
    ::chmod(folder.c_str(), 0755);
  }
  SUBCASE("a name with a shorter end") { folder = stale(tmpdir, "delayqueue-" + pid + "-aB3xy"); }
  SUBCASE("a name with a longer end") { folder = stale(tmpdir, "delayqueue-" + pid + "-aB3xyz0"); }
  SUBCASE("a name with another character in its end") { folder = stale(tmpdir, "delayqueue-" + pid + "-aB3-yz"); }
  SUBCASE("a name with another beginning") { folder = stale(tmpdir, "Delayqueue-" + pid + "-aB3xyz"); }
  SUBCASE("a living process") { folder = stale(tmpdir, "delayqueue-" + std::to_string(::getppid()) + "-aB3xyz"); }
  SUBCASE("a date instead of a process") {
    folder = tmpdir / "delayqueue-20261122-orders";
    ::mkdir(folder.c_str(), 0700);
    std::ofstream(folder + "/data") << "messages";
  }
  { const TemporaryFolder next; }
  CHECK(fs::exists(folder + "/data"));
}

TEST_CASE("temporary folder: one whose lock is held stays, even if no process here has its number") {
  const OwnTmpdir tmpdir;
  const auto folder = stale(tmpdir, "delayqueue-" + pid_of_ended_process() + "-aB3xyz");
  const int lock = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY);
  for (const int kind : {LOCK_SH, LOCK_EX}) {
    REQUIRE(::flock(lock, kind) == 0);
    { const TemporaryFolder next; }
    CHECK(fs::exists(folder));
  }
  ::close(lock);
}

TEST_CASE("temporary folder: neither a link nor its target is removed") {
  const OwnTmpdir tmpdir;
  const auto folder = stale(tmpdir, "kept");
  const auto link = tmpdir / ("delayqueue-" + pid_of_ended_process() + "-aB3xyz");
  fs::create_symlink(folder, link);
  { const TemporaryFolder next; }
  CHECK(fs::exists(folder));
  CHECK(fs::is_symlink(link));
}

TEST_CASE("temporary folder: root does not remove one of another user") {
  if (!test::can_be_other_user()) return;
  const OwnTmpdir tmpdir;
  const auto folder = stale(tmpdir, "delayqueue-" + pid_of_ended_process() + "-aB3xyz");
  REQUIRE(::chown(folder.c_str(), test::kOtherUser, test::kOtherUser) == 0);
  { const TemporaryFolder next; }
  CHECK(fs::exists(folder));
}

TEST_CASE("temporary folder: the folder of a running embedded:/folder stays, even if it looks like a temporary one") {
  const OwnTmpdir tmpdir;
  const auto folder = stale(tmpdir, "delayqueue-" + pid_of_ended_process() + "-orders");
  const auto socket = delayqueue::embedded_socket(folder);
  CHECK_FALSE(fs::exists(folder + "/.temporary"));
  { const delayqueue::PrivateServer next; }
  CHECK(test::Redis(socket).cmd({"PING"}) == "PONG");
  std::ofstream(folder + "/.temporary") << "planted";
  { const delayqueue::PrivateServer next; }
  CHECK(fs::exists(folder + "/data"));
}
