// The folder of an embedded server: races with other processes while it is made.
#include "support/test.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include "embedded/private_folder.h"
#include "support/forked.h"
#include "support/local.h"

namespace {

std::function<void()> before_next_mkdirat;  // the action of another process at that moment

}  // namespace

// Replaces the function of the C library.
extern "C" int mkdirat(int folder, const char* path, mode_t mode) {
  using Call = int (*)(int, const char*, mode_t);
  static const auto real = reinterpret_cast<Call>(::dlsym(RTLD_NEXT, "mkdirat"));
  if (before_next_mkdirat) std::exchange(before_next_mkdirat, nullptr)();
  return real(folder, path, mode);
}

TEST_CASE("private folder: a link that appears while the folder is made is not followed: its target keeps its mode") {
  const test::TempDir base;
  const std::string target = base.file("target"), folder = base.file("folder");
  REQUIRE(::mkdir(target.c_str(), 0755) == 0);
  REQUIRE(::chmod(target.c_str(), 0755) == 0);
  before_next_mkdirat = [&] { REQUIRE(::symlink(target.c_str(), folder.c_str()) == 0); };
  CHECK_THROWS_WITH_AS(delayqueue::open_private_folder(folder), doctest::Contains("it is a symbolic link"),
                       delayqueue::SetupError);
  CHECK_FALSE(before_next_mkdirat);
  CHECK(test::mode_of(target) == 0755);
}

TEST_CASE("private folder: a relative folder whose working directory was removed is refused with advice") {
  const test::TempDir base;
  const std::string gone = base.file("gone");
  REQUIRE(::mkdir(gone.c_str(), 0700) == 0);
  const auto is_refused = [](const std::function<void()>& call) {
    try {
      call();
    } catch (const delayqueue::SetupError& e) {
      return std::string(e.what()).find("use an absolute path") != std::string::npos;
    }
    return false;
  };
  CHECK(test::in_child([&] {
          if (::chdir(gone.c_str()) != 0 || ::rmdir(gone.c_str()) != 0) return false;
          delayqueue::PrivateServerOptions options;
          options.folder = "relative";
          return is_refused([] { delayqueue::Producer("embedded:relative", "q"); }) &&
                 is_refused([&] { delayqueue::PrivateServer{options}; });
        }) == 0);
}

TEST_CASE("private folder: a folder that another process makes at the same time is used") {
  const test::TempDir base;
  const std::string folder = base.file("folder");
  before_next_mkdirat = [&] { REQUIRE(::mkdir(folder.c_str(), 0700) == 0); };
  CHECK(delayqueue::open_private_folder(folder).get() >= 0);
  CHECK_FALSE(before_next_mkdirat);
}
