// A program that runs with other rights than its caller's runs no program that the caller's environment names. No
// program in the current directory is run by mistake.
#include "support/test.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "other_user.h"
#include "support/local.h"
#include "support/sanitized.h"

namespace fs = std::filesystem;

namespace {

// Writes a program that creates the file `mark` when it is run.
void write_trap(const std::string& file, const std::string& mark) {
  std::ofstream(file) << "#!/bin/sh\ntouch '" << mark << "'\n";
  ::chmod(file.c_str(), 0755);
}

}  // namespace

TEST_CASE("helper: a private server in a setuid program" * doctest::skip()) {
  const delayqueue::PrivateServer server;
  CHECK(server.folder().rfind("/tmp/delayqueue-", 0) == 0);
  std::ifstream file("/proc/" + std::to_string(server.pid()) + "/environ");
  std::string environment;
  std::getline(file, environment);
  CHECK(environment == "");
}

TEST_CASE("environment: a setuid program ignores its caller's environment and runs the system's redis-server in /tmp") {
  if (!test::can_be_other_user()) return;
  if (TEST_SANITIZED) {
    std::cout << "skipped: a sanitizer's search for leaks does not run in a setuid program" << std::endl;
    return;
  }
  const test::SharedFolder shared;
  const std::string program = shared / "program", trap = shared / "redis-server", mark = shared / "mark";
  fs::copy_file("/proc/self/exe", program);
  REQUIRE(::chown(program.c_str(), test::kOtherUser + 1, test::kOtherUser + 1) == 0);
  REQUIRE(::chmod(program.c_str(), 04755) == 0);
  write_trap(trap, mark);
  const std::string folder = fs::path(trap).parent_path();
  const auto attack = [&] {
    std::string self = "test", name = "--test-case=helper: a private server in a setuid program", all = "--no-skip";
    std::array<char*, 4> words{self.data(), name.data(), all.data(), nullptr};
    std::string chosen = "DELAYQUEUE_REDIS_SERVER=" + trap, path = "PATH=" + folder, tmpdir = "TMPDIR=" + folder;
    std::array<char*, 4> environment{chosen.data(), path.data(), tmpdir.data(), nullptr};
    ::execve(program.c_str(), words.data(), environment.data());
    return 97;
  };
  CHECK(test::as_other_user(attack) == 0);
  CHECK_FALSE(fs::exists(mark));
}

TEST_CASE("environment: an empty or relative entry of PATH is skipped, so the current directory is not searched") {
  const test::TempDir base;
  const std::string mark = base.file("mark");
  fs::create_directory(base.file("bin"));
  write_trap(base.file("redis-server"), mark);
  write_trap(base.file("bin/redis-server"), mark);
  for (const std::string path : {"", ":", "::", ".", "bin", "./bin", ":bin:/nix"}) {
    CAPTURE(path);
    std::cout.flush();
    const pid_t child = ::fork();
    if (child == 0) {
      ::unsetenv("DELAYQUEUE_REDIS_SERVER");
      ::setenv("PATH", path.c_str(), 1);
      if (::chdir(base.file("").c_str()) != 0) ::_exit(2);
      try {
        const delayqueue::PrivateServer server;
      } catch (const delayqueue::SetupError&) {
        ::_exit(0);
      } catch (const std::runtime_error&) {
        ::_exit(1);
      }
      ::_exit(3);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
    CHECK_FALSE(fs::exists(mark));
  }
}
