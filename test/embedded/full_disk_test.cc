// A full disk: stop() reports acknowledged writes that are not on disk.
#include "support/test.h"

#ifdef __linux__
#include <sys/mount.h>
#endif
#include <sys/stat.h>

#include "support/local.h"

using doctest::Contains;

namespace {

// A separate, small file system mounted on a folder.
class SmallDisk {
 public:
  explicit SmallDisk(std::string folder) : folder_(std::move(folder)) {
    ::mkdir(folder_.c_str(), 0700);
#ifdef __linux__
    mounted_ = ::mount("tmpfs", folder_.c_str(), "tmpfs", 0, "size=1m,mode=0700") == 0;
#endif
    if (!mounted_) std::cout << "skipped: mounting a small disk needs root; run the tests as root" << std::endl;
  }
  ~SmallDisk() {
#ifdef __linux__
    if (mounted_) ::umount2(folder_.c_str(), MNT_DETACH);
#endif
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool mounted() const { return mounted_; }
  void grow() {
#ifdef __linux__
    REQUIRE(::mount("tmpfs", folder_.c_str(), "tmpfs", MS_REMOUNT, "size=16m,mode=0700") == 0);
#endif
  }

 private:
  const std::string folder_;
  bool mounted_ = false;
};

// Sends until the server refuses; returns the number of acknowledged sends.
std::int64_t fill(const std::string& url) {
  delayqueue::Producer producer(url, "q");
  for (std::int64_t sent = 0;; ++sent) {
    try {
      producer.send(std::string(24'000, 'x'));
    } catch (const delayqueue::Error&) {
      return sent;
    }
  }
}

}  // namespace

TEST_CASE("full disk: stop() fails with advice and keeps the server; it succeeds when there is space again") {
  const test::TempDir base;
  SmallDisk disk(base.file("d"));
  if (!disk.mounted()) return;
  delayqueue::PrivateServerOptions options;
  options.folder = base.file("d/q");
  delayqueue::PrivateServer server(options);
  const auto sent = fill(server.url());
  REQUIRE(sent > 0);
  CHECK_THROWS_WITH_AS(server.stop(), Contains(("free space on the disk that holds " + options.folder).c_str()),
                       delayqueue::SetupError);
  CHECK(server.pid() > 0);
  disk.grow();
  server.stop();
  server.restart();
  CHECK(delayqueue::Inspector(server.url(), "q").counts().ready == sent);
}

TEST_CASE("full disk: without one, stop() returns with all acknowledged writes on disk") {
  delayqueue::PrivateServer server;
  delayqueue::Producer producer(server.url(), "q");
  for (int i = 0; i < 100; ++i) producer.send("x");
  server.stop();
  CHECK(server.pid() == -1);
  server.restart();
  CHECK(delayqueue::Inspector(server.url(), "q").counts().ready == 100);
}

TEST_CASE("full disk: a temporary folder that cannot be made leaves no files, and can be made when there is space") {
  const test::TempDir base;
  const std::string folder = base.file("d");
  SmallDisk disk(folder);
  if (!disk.mounted()) return;
  std::ofstream filling(folder + "/filling");
  while (filling << std::string(4096, 'x') << std::flush) {
  }
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before != nullptr ? before : "/tmp";
  ::setenv("TMPDIR", folder.c_str(), 1);
  for (int i = 0; i < 10; ++i) {
    try {
      delayqueue::PrivateServer server;
      FAIL_CHECK("no error");
    } catch (const delayqueue::SetupError& e) {
      FAIL_CHECK(std::string(e.what()));
    } catch (const std::runtime_error& e) {
      CHECK_MESSAGE(std::string(e.what()).find("No space left") != std::string::npos, e.what());
    }
  }
  const std::filesystem::directory_iterator left(folder);
  CHECK(std::distance(begin(left), end(left)) == 1);
  disk.grow();
  CHECK_NOTHROW(delayqueue::PrivateServer());
  ::setenv("TMPDIR", kept.c_str(), 1);
}
