// Another user of this machine, as which a test that runs as root can run code.
#pragma once

#include <doctest/doctest.h>
#include <grp.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/standard.h"

namespace test {

// An arbitrary id: a process may use an id without an account.
constexpr uid_t kOtherUser = 54321;

// Returns false, and prints that the test is skipped, if the test does not run as root.
inline bool can_be_other_user() {
  if (::geteuid() == 0) return true;
  std::cout << "skipped: only root can run code as another user: " << doctest::getContextOptions()->currentTest->m_name
            << std::endl;
  return false;
}

// A process of the other user, forked from this one. It must not use doctest.
class OtherUser {
 public:
  // Returns when `prepare` has returned true in the new process. Then `act` runs there; its result is the exit code.
  OtherUser(const std::function<bool()>& prepare, const std::function<int()>& act) {
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    std::cout.flush();
    pid_ = ::fork();
    if (pid_ == 0) {
      const bool is_other = ::setgroups(0, nullptr) == 0 && ::setgid(kOtherUser) == 0 && ::setuid(kOtherUser) == 0;
      const char answer = is_other && prepare() ? 'y' : 'n';
      if (::write(ready[1], &answer, 1) != 1) ::_exit(98);
      ::_exit(answer == 'y' ? act() : 99);
    }
    ::close(ready[1]);
    char answer = 'n';
    const bool written = ::read(ready[0], &answer, 1) == 1;
    ::close(ready[0]);
    REQUIRE(written);
    REQUIRE(answer == 'y');
  }
  ~OtherUser() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    wait();
  }
  OtherUser(const OtherUser&) = delete;
  OtherUser& operator=(const OtherUser&) = delete;

  int wait() {
    int status = -1;
    if (pid_ > 0) ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = -1;
};

// Runs `act` as the other user and returns its exit code.
inline int as_other_user(const std::function<int()>& act) {
  return OtherUser([] { return true; }, act).wait();
}

// A folder in which every user can create files, as in /tmp.
class SharedFolder {
 public:
  SharedFolder() {
    REQUIRE(::mkdtemp(path_.data()) != nullptr);
    REQUIRE(::chmod(path_.c_str(), 01777) == 0);
  }
  ~SharedFolder() { std::filesystem::remove_all(path_); }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_ = "/tmp/dq-shared-XXXXXX";
};

}  // namespace test
