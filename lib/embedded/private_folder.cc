#include "embedded/private_folder.h"

#include "os/resources.h"

#include <delayqueue/error.h>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

namespace delayqueue {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kOthersEnter = 077;
constexpr mode_t kOthersWrite = 022;
#ifdef O_PATH
constexpr int kPassThrough = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;  // O_PATH needs no right to list the folder
#else
constexpr int kPassThrough = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
#endif

std::string owner_and_mode(const struct stat& status) {
  std::string octal;
  for (int shift = 9; shift >= 0; shift -= 3) octal += static_cast<char>('0' + (status.st_mode >> shift & 7U));
  return "uid " + std::to_string(status.st_uid) + ", mode " + octal;
}

bool belongs_to_root_or_us(const struct stat& status) { return status.st_uid == 0 || status.st_uid == ::geteuid(); }

// Opens each folder from the root to the target, one name at a time, and checks the opened folder. So no folder can be
// replaced between its check and its use.
class Walk {
 public:
  explicit Walk(const std::string& path) : path_(path) {
    add(path);
    to_root();
  }

  Descriptor to_the_end() {
    if (left_.empty()) refuse("it is the root of the file system; use a folder below your home");
    while (left_.size() > 1) pass_through();
    struct stat status {};
    if (stat_next(status) && S_ISLNK(status.st_mode)) refuse("it is a symbolic link; use its target");
    enter(kOpenFolder);
    status = stat_folder();
    if (status.st_uid != ::geteuid()) {
      refuse("it belongs to another user (" + owner_and_mode(status) + "; this process has uid " +
             std::to_string(::geteuid()) + "); use a folder of your own, such as one below your home");
    }
    if ((status.st_mode & kOthersEnter) != 0) {
      refuse("it is open to other users (" + owner_and_mode(status) + "); close it: chmod 700 " + at_);
    }
    return std::move(folder_);
  }

 private:
  // Puts the names of the path before the remaining ones, for `path` may be the target of a link in the middle.
  void add(const std::string& path) {
    std::deque<std::string> names;
    for (const auto& part : fs::path(path)) {
      if (part != "/" && part != "." && !part.empty()) names.push_back(part.string());
    }
    left_.insert(left_.begin(), names.begin(), names.end());
  }

  void to_root() {
    folder_ = above_standard(::open("/", kPassThrough));
    at_ = "/";
    if (folder_.get() < 0) fail("open", at_, errno);
    check_parent();
  }

  // Reads the attributes of the next entry. If there is none, makes a folder and returns false.
  bool stat_next(struct stat& status) {
    const char* name = left_.front().c_str();
    for (;;) {
      if (::fstatat(folder_.get(), name, &status, AT_SYMLINK_NOFOLLOW) == 0) return true;
      if (errno != ENOENT) fail("stat", next(), errno);
      if (::mkdirat(folder_.get(), name, 0700) == 0) break;
      if (errno != EEXIST) fail("make", next(), errno);  // EEXIST: another process has made an entry; read it
    }
    // The umask may have removed permissions. If this call fails, enter() refuses the folder.
    static_cast<void>(::fchmodat(folder_.get(), name, 0700, AT_SYMLINK_NOFOLLOW) == 0);
    return false;
  }

  void pass_through() {
    struct stat status {};
    if (left_.front() != ".." && stat_next(status) && S_ISLNK(status.st_mode)) return follow(status);
    enter(kPassThrough);
    check_parent();
  }

  void follow(const struct stat& status) {
    if (!belongs_to_root_or_us(status)) {
      refuse(next() + " is a symbolic link of another user (" + owner_and_mode(status) + "); use another folder");
    }
    char target[4096];
    const auto size = ::readlinkat(folder_.get(), left_.front().c_str(), target, sizeof target);
    if (size < 0) fail("read the link", next(), errno);
    if (++links_ > 40) fail("follow", next(), ELOOP);
    left_.pop_front();
    add(std::string(target, static_cast<std::size_t>(size)));
    if (size > 0 && target[0] == '/') to_root();
  }

  void enter(int flags) {
    Descriptor opened = above_standard(::openat(folder_.get(), left_.front().c_str(), flags));
    if (opened.get() < 0) fail("open", next(), errno);
    at_ = left_.front() == ".." ? fs::path(at_).parent_path().string() : next();
    folder_ = std::move(opened);
    left_.pop_front();
  }

  void check_parent() const {
    const struct stat status = stat_folder();
    if (!belongs_to_root_or_us(status)) {
      refuse(at_ + " above it belongs to another user (" + owner_and_mode(status) +
             "), who could replace it; use a folder below your home");
    }
    if ((status.st_mode & kOthersWrite) != 0 && (status.st_mode & S_ISVTX) == 0) {
      refuse("other users can write to " + at_ + " above it (" + owner_and_mode(status) +
             ") and so replace it; forbid that: chmod go-w " + at_);
    }
  }

  struct stat stat_folder() const {
    struct stat status {};
    if (::fstat(folder_.get(), &status) != 0) fail("stat", at_, errno);
    return status;
  }

  std::string next() const { return (fs::path(at_) / left_.front()).string(); }

  [[noreturn]] void refuse(const std::string& why) const {
    throw SetupError("cannot use the folder " + path_ + ": " + why);
  }
  [[noreturn]] void fail(const std::string& doing, const std::string& what, int error) const {
    fail_with("cannot use the folder " + path_ + ": cannot " + doing + " " + what, error);
  }

  const std::string path_;
  std::deque<std::string> left_;  // names not entered yet
  std::string at_;                // the path of folder_
  Descriptor folder_;
  int links_ = 0;
};

// ---- Files in a folder ---------------------------------------------------------------------------------------------

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

// False if there is no such entry.
bool check_entry(const Descriptor& folder, const std::string& name, mode_t type, const std::string& shown) {
  struct stat status {};
  if (::fstatat(folder.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return false;
    fail_with("cannot stat " + shown, errno);
  }
  const auto refuse = [&](const std::string& why) {
    throw SetupError("cannot use " + shown + ": " + why + " (" + owner_and_mode(status) +
                     "); move it away, or use another folder");
  };
  if (S_ISLNK(status.st_mode)) refuse("it is a symbolic link");
  if ((status.st_mode & S_IFMT) != type) refuse("its file type is not the one that the server makes");
  if (status.st_uid != ::geteuid()) refuse("it belongs to another user, who could have changed it");
  if (type == S_IFREG && status.st_nlink != 1) refuse("it has further hard links");
  if (type != S_IFSOCK && (status.st_mode & kOthersWrite) != 0) refuse("other users can write to it");
  return true;
}

std::string join(const std::string& folder, const std::string& name) { return folder + '/' + name; }

}  // namespace

std::string absolute_folder(const std::string& folder) {
  std::error_code error;
  const fs::path path = fs::absolute(folder, error).lexically_normal();
  if (error) {
    throw SetupError("cannot use the folder " + folder +
                     ": cannot find the working directory: " + reason(error.value()) + "; use an absolute path");
  }
  return (path.has_filename() ? path : path.parent_path()).string();
}

Descriptor open_private_folder(const std::string& path) { return Walk(path).to_the_end(); }

std::vector<std::string> names_in(const Descriptor& folder, const std::string& path) {
  Descriptor opened = above_standard(::openat(folder.get(), ".", kOpenFolder));
  const std::unique_ptr<DIR, CloseFolder> list(opened.get() >= 0 ? ::fdopendir(opened.get()) : nullptr);
  if (!list) fail_with("cannot list " + path, errno);
  opened.release();
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(list.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  return names;
}

void check_server_files(const Descriptor& folder, const std::string& path) {
  for (const auto& name : names_in(folder, path)) {
    const bool temporary = name.compare(0, 5, "temp-") == 0;  // files that the server renames when they are complete
    const auto known = {"lock", "owner", "log", "appendonly.aof", "dump.rdb"};
    if (temporary || std::find(known.begin(), known.end(), name) != known.end()) {
      check_entry(folder, name, S_IFREG, join(path, name));
    }
  }
  check_entry(folder, "s", S_IFSOCK, join(path, "s"));
  const std::string data = "appendonlydir";
  if (!check_entry(folder, data, S_IFDIR, join(path, data))) return;
  const Descriptor inner = above_standard(::openat(folder.get(), data.c_str(), kOpenFolder));
  if (inner.get() < 0) fail_with("cannot open " + join(path, data), errno);
  for (const auto& name : names_in(inner, join(path, data))) {
    check_entry(inner, name, S_IFREG, join(join(path, data), name));
  }
}

}  // namespace delayqueue
