#include "embedded/folder_use.h"

#include "embedded/server_process.h"
#include "os/interrupt.h"

#include <delayqueue/error.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#ifdef __linux__
#include <sys/utsname.h>
#endif
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <stdexcept>
#include <thread>

namespace delayqueue {
namespace {

constexpr char kName[] = "users";
constexpr int kOpenUsers = O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC;  // read, too: so there need be no reader

}  // namespace

FolderUse::FolderUse(const Descriptor& folder, const std::string& path) {
  if (::mkfifoat(folder.get(), kName, 0600) == 0) {
    static_cast<void>(::fchmodat(folder.get(), kName, 0600, 0) == 0);  // whatever the umask is
  }
  file_ = above_standard(::openat(folder.get(), kName, kOpenUsers));
  again_ = above_standard(::openat(folder.get(), kName, kOpenUsers));
  struct stat facts {};
  if (file_.get() < 0 || again_.get() < 0 || ::fstat(file_.get(), &facts) != 0) {
    fail_with("cannot open " + path + "/" + kName, errno);
  }
  if (!S_ISFIFO(facts.st_mode) || facts.st_uid != ::geteuid() || facts.st_nlink != 1) {
    throw SetupError("cannot use " + path + "/" + kName +
                     ": it is not the FIFO of this user that is expected; remove it");
  }
}

// A fork keeps both files open. An exclusive lock that it has inherited would keep all others out while it lives.
FolderUse::~FolderUse() {
  if (owner_ != ::getpid()) return;
  ::flock(file_.get(), LOCK_UN);
  ::flock(again_.get(), LOCK_UN);
}

// The file was opened before: a process that closes it after this can no longer be the last one. One that closed it
// earlier had let go of its lock by then, so the exclusive lock tells.
bool FolderUse::alone_or_with_others(std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) == 0) return true;
    if (::flock(file_.get(), LOCK_SH | LOCK_NB) == 0) return false;
    if (std::chrono::steady_clock::now() >= deadline) {
      throw std::runtime_error("another process has been starting or ending the server for too long");
    }
    if (Interrupt::is_raised_here()) {
      throw std::runtime_error("stopped while another process was starting or ending the server");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void FolderUse::share() { ::flock(file_.get(), LOCK_SH); }

// A fork still has open what is closed here, with the shared lock: then the exclusive one fails.
bool FolderUse::is_last() {
  file_ = Descriptor();
  return ::flock(again_.get(), LOCK_EX | LOCK_NB) == 0;
}

bool FolderUse::is_of(const Descriptor& folder) const {
  struct stat mine {
  }, found{};
  return ::fstat(file_.get(), &mine) == 0 && ::fstatat(folder.get(), kName, &found, AT_SYMLINK_NOFOLLOW) == 0 &&
         mine.st_dev == found.st_dev && mine.st_ino == found.st_ino;
}

#if defined(__linux__) && defined(F_SETSIG)

bool system_tells_of_last_user() {
  utsname system{};
  int major = 0, minor = 0;
  if (::uname(&system) != 0 || std::sscanf(system.release, "%d.%d", &major, &minor) != 2) return false;
  return major > 5 || (major == 5 && minor >= 6);  // older ones tell of every user
}

void end_with_last_user(int folder) {
  const int users = ::openat(folder, kName, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);  // for as long as the server lives
  ::fcntl(users, F_SETSIG, SIGTERM);
  ::fcntl(users, F_SETOWN, -::getpid());
  ::fcntl(users, F_SETFL, O_ASYNC | O_NONBLOCK);
}

#else

bool system_tells_of_last_user() { return false; }
void end_with_last_user(int) {}

#endif

}  // namespace delayqueue
