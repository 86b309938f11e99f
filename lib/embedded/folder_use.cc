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
constexpr int kOpenUsers = O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC;  // O_WRONLY needs a reader

}  // namespace

FolderUse::FolderUse(const Descriptor& folder, const std::string& path) {
  if (::mkfifoat(folder.get(), kName, 0600) == 0) {
    static_cast<void>(::fchmodat(folder.get(), kName, 0600, 0) == 0);  // the umask may have removed bits
  }
  file_ = above_standard(::openat(folder.get(), kName, kOpenUsers));
  second_ = above_standard(::openat(folder.get(), kName, kOpenUsers));
  struct stat status {};
  if (file_.get() < 0 || second_.get() < 0 || ::fstat(file_.get(), &status) != 0) {
    fail_with("cannot open " + path + "/" + kName, errno);
  }
  if (!S_ISFIFO(status.st_mode) || status.st_uid != ::geteuid() || status.st_nlink != 1) {
    throw SetupError("cannot use " + path + "/" + kName + ": expected a FIFO of this user; remove the file");
  }
}

// Unlocks explicitly, because a fork keeps both files open: an exclusive lock that it inherited would block all other
// processes in join().
FolderUse::~FolderUse() {
  if (owner_ != ::getpid()) return;
  ::flock(file_.get(), LOCK_UN);
  ::flock(second_.get(), LOCK_UN);
}

// Takes the exclusive lock (true: no other users) or the shared one (false). There is no race with a last user that
// ends: this process has the file open already, so a user that closes it later is not the last one, and a user that
// closed it earlier has released its lock.
bool FolderUse::alone_or_with_others(std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) == 0) return true;
    if (::flock(file_.get(), LOCK_SH | LOCK_NB) == 0) return false;
    if (std::chrono::steady_clock::now() >= deadline) {
      throw ConnectionError("another process has been starting or ending the server for too long");
    }
    if (Interrupt::is_raised_here()) {
      throw ConnectionError("stopped while another process was starting or ending the server");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void FolderUse::share() { ::flock(file_.get(), LOCK_SH); }

// A fork still has file_ open with the shared lock, and then the exclusive lock fails.
bool FolderUse::is_last() {
  file_ = Descriptor();
  return ::flock(second_.get(), LOCK_EX | LOCK_NB) == 0;
}

bool FolderUse::is_of(const Descriptor& folder) const {
  struct stat mine {
  }, found{};
  return ::fstat(file_.get(), &mine) == 0 && ::fstatat(folder.get(), kName, &found, AT_SYMLINK_NOFOLLOW) == 0 &&
         mine.st_dev == found.st_dev && mine.st_ino == found.st_ino;
}

#if defined(__linux__) && defined(F_SETSIG)

bool supports_last_user_signal() {
  utsname system{};
  int major = 0, minor = 0;
  if (::uname(&system) != 0 || std::sscanf(system.release, "%d.%d", &major, &minor) != 2) return false;
  return major > 5 || (major == 5 && minor >= 6);  // older kernels signal the end of every user
}

void end_after_last_user(int folder) {
  const int users = ::openat(folder, kName, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);  // stays open while the server lives
  ::fcntl(users, F_SETSIG, SIGTERM);
  ::fcntl(users, F_SETOWN, -::getpid());
  ::fcntl(users, F_SETFL, O_ASYNC | O_NONBLOCK);
}

#else

bool supports_last_user_signal() { return false; }
void end_after_last_user(int) {}

#endif

}  // namespace delayqueue
