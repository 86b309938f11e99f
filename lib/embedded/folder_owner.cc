#include "embedded/folder_owner.h"

#include "embedded/server_process.h"
#include "os/per_process.h"

#include <delayqueue/detail/owned.h>
#include <delayqueue/error.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <mutex>
#include <set>
#include <utility>

namespace delayqueue {
namespace {

// The folders of this process. A record lock does not exclude a second object of the same process, and is lost when the
// process closes any other descriptor of the file: so the file is opened only for folders that are not in this set, and
// a failed attempt closes it before it unlocks the mutex.
struct OwnedFolders {
  std::mutex mutex;
  std::set<FolderId> ids;
};
PerProcess<OwnedFolders> owned_folders;

// Any program may have changed its name, so only harmless characters are shown.
std::string name_of_process(pid_t pid) {
  std::string name;
  std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/comm"), name);
  for (char& c : name) {
    if (c <= ' ' || c > '~') c = '?';
  }
  return name;
}

struct flock whole_file() {
  struct flock request {};
  request.l_type = F_WRLCK;
  request.l_whence = SEEK_SET;
  return request;
}

std::string text_for(pid_t pid) {
  if (pid <= 0) return "a process of another container has the folder";
  const std::string name = name_of_process(pid);
  return "process " + std::to_string(pid) + (name.empty() ? "" : " (" + name + ")") + " has the folder";
}

[[noreturn]] void refuse(const std::string& path, const std::string& who, const std::string& url) {
  throw SetupError("cannot start a server in " + path + ": " + who + "; to use its server, connect to " + url);
}

}  // namespace

FolderId id_of(const Descriptor& folder) {
  struct stat status {};
  if (::fstat(folder.get(), &status) != 0) fail_with("cannot stat the folder", errno);
  return {status.st_dev, status.st_ino};
}

FolderOwner::FolderOwner(const Descriptor& folder, const std::string& path, const std::string& url)
    : process_(internal::this_process()), id_(id_of(folder)) {
  OwnedFolders& owned = owned_folders.get();
  const std::lock_guard lock(owned.mutex);
  if (owned.ids.count(id_) != 0) refuse(path, "another server of this process runs in the folder", url);
  Descriptor file = open_own_file(folder.get(), "owner", O_RDWR | O_CREAT);
  if (file.get() < 0) fail_with("cannot open " + path + "/owner", errno);
  for (auto request = whole_file(); ::fcntl(file.get(), F_SETLK, &request) != 0;) {
    if (errno == EINTR) continue;
    if (errno != EACCES && errno != EAGAIN) fail_with("cannot lock " + path + "/owner", errno);
    auto holder = whole_file();
    if (::fcntl(file.get(), F_GETLK, &holder) != 0) fail_with("cannot read the lock of " + path + "/owner", errno);
    if (holder.l_type != F_UNLCK) refuse(path, text_for(holder.l_pid), url);  // else it has just been released
  }
  owned.ids.insert(id_);
  file_ = std::move(file);
}

// In a fork this closes a copy, and the lock of the parent stays. But if this process has got the folder meanwhile, the
// copy stays open: to close any descriptor of the file releases the lock.
FolderOwner::~FolderOwner() {
  OwnedFolders* const owned = owned_folders.find();
  if (owned == nullptr) return;
  const std::lock_guard lock(owned->mutex);
  const bool is_fork = process_ != internal::this_process();
  if (is_fork && owned->ids.count(id_) != 0) {
    file_.release();
    return;
  }
  file_ = Descriptor();
  if (!is_fork) owned->ids.erase(id_);
}

}  // namespace delayqueue
