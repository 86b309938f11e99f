#include "embedded/private_folder.h"

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
#include <utility>

namespace delayqueue {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kOthersEnter = 077;
constexpr mode_t kOthersWrite = 022;
#ifdef O_PATH
constexpr int kPassThrough = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;  // needs no right to list it
#else
constexpr int kPassThrough = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
#endif

std::string owner_and_mode(const struct stat& facts) {
  std::string octal;
  for (int shift = 9; shift >= 0; shift -= 3) octal += static_cast<char>('0' + (facts.st_mode >> shift & 7U));
  return "uid " + std::to_string(facts.st_uid) + ", mode " + octal;
}

bool belongs_to_root_or_us(const struct stat& facts) { return facts.st_uid == 0 || facts.st_uid == ::geteuid(); }

// From the root to the folder, one name at a time: between the check of a folder and the use of it nothing can be
// put in its place.
class Walk {
 public:
  explicit Walk(const std::string& path) : path_(path) {
    add(path);
    to_root();
  }

  Descriptor to_the_end() {
    if (left_.empty()) refuse("it is the root of the file system; use a folder below your home");
    while (left_.size() > 1) pass_through();
    struct stat facts {};
    if (look(facts) && S_ISLNK(facts.st_mode)) refuse("it is a symbolic link; name the folder it leads to");
    enter(kOpenFolder);
    facts = facts_of_folder();
    if (facts.st_uid != ::geteuid()) {
      refuse("it belongs to another user (" + owner_and_mode(facts) + "; this process has uid " +
             std::to_string(::geteuid()) + "); use a folder of your own, such as one below your home");
    }
    if ((facts.st_mode & kOthersEnter) != 0) {
      refuse("it is open to other users (" + owner_and_mode(facts) + "); close it: chmod 700 " + at_);
    }
    return std::move(folder_);
  }

 private:
  // In front of what is left, for that may be the rest after a link.
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

  // Looks at the next one. False: there was none, so it has been made.
  bool look(struct stat& facts) {
    const char* name = left_.front().c_str();
    for (;;) {
      if (::fstatat(folder_.get(), name, &facts, AT_SYMLINK_NOFOLLOW) == 0) return true;
      if (errno != ENOENT) fail("look at", next(), errno);
      if (::mkdirat(folder_.get(), name, 0700) == 0) break;
      if (errno != EEXIST) fail("make", next(), errno);  // else another process has made something: look again
    }
    // The umask may have removed permissions. If this fails, entering the folder refuses it.
    static_cast<void>(::fchmodat(folder_.get(), name, 0700, AT_SYMLINK_NOFOLLOW) == 0);
    return false;
  }

  void pass_through() {
    struct stat facts {};
    if (left_.front() != ".." && look(facts) && S_ISLNK(facts.st_mode)) return follow(facts);
    enter(kPassThrough);
    check_parent();
  }

  void follow(const struct stat& facts) {
    if (!belongs_to_root_or_us(facts)) {
      refuse(next() + " is a symbolic link of another user (" + owner_and_mode(facts) + "); use another folder");
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
    const struct stat facts = facts_of_folder();
    if (!belongs_to_root_or_us(facts)) {
      refuse(at_ + " above it belongs to another user (" + owner_and_mode(facts) +
             "), who could replace it; use a folder below your home");
    }
    if ((facts.st_mode & kOthersWrite) != 0 && (facts.st_mode & S_ISVTX) == 0) {
      refuse("other users can write to " + at_ + " above it (" + owner_and_mode(facts) +
             ") and so replace it; forbid that: chmod go-w " + at_);
    }
  }

  struct stat facts_of_folder() const {
    struct stat facts {};
    if (::fstat(folder_.get(), &facts) != 0) fail("look at", at_, errno);
    return facts;
  }

  std::string next() const { return (fs::path(at_) / left_.front()).string(); }

  [[noreturn]] void refuse(const std::string& why) const {
    throw SetupError("cannot use the folder " + path_ + ": " + why);
  }
  [[noreturn]] void fail(const std::string& doing, const std::string& what, int error) const {
    fail_with("cannot use the folder " + path_ + ": cannot " + doing + " " + what, error);
  }

  const std::string path_;
  std::deque<std::string> left_;  // names to come
  std::string at_;                // the path of folder_
  Descriptor folder_;
  int links_ = 0;
};

// ---- What is in a folder -------------------------------------------------------------------------------------------

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

// False if there is no such entry.
bool check_entry(const Descriptor& folder, const std::string& name, mode_t type, const std::string& shown) {
  struct stat facts {};
  if (::fstatat(folder.get(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return false;
    fail_with("cannot look at " + shown, errno);
  }
  const auto refuse = [&](const std::string& why) {
    throw SetupError("cannot use " + shown + ": " + why + " (" + owner_and_mode(facts) +
                     "); move it away, or use another folder");
  };
  if (S_ISLNK(facts.st_mode)) refuse("it is a symbolic link");
  if ((facts.st_mode & S_IFMT) != type) refuse("it is of another kind than the server makes");
  if (facts.st_uid != ::geteuid()) refuse("it belongs to another user, who could have put anything into it");
  if (type == S_IFREG && facts.st_nlink != 1) refuse("it is a hard link to a file that is elsewhere, too");
  if (type != S_IFSOCK && (facts.st_mode & kOthersWrite) != 0) refuse("other users can write to it");
  return true;
}

}  // namespace

Descriptor open_private_folder(const std::string& path) { return Walk(path).to_the_end(); }

std::vector<std::string> names_in(const Descriptor& folder) {
  Descriptor opened = above_standard(::openat(folder.get(), ".", kOpenFolder));
  const std::unique_ptr<DIR, CloseFolder> list(opened.get() >= 0 ? ::fdopendir(opened.get()) : nullptr);
  if (!list) fail_with("cannot list a folder", errno);
  opened.release();
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(list.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  return names;
}

void check_server_files(const Descriptor& folder, const std::string& path) {
  for (const auto& name : names_in(folder)) {
    const bool temporary = name.compare(0, 5, "temp-") == 0;  // the server's, before they get their names
    const auto known = {"lock", "log", "appendonly.aof", "dump.rdb"};
    if (temporary || std::find(known.begin(), known.end(), name) != known.end()) {
      check_entry(folder, name, S_IFREG, path + "/" + name);
    }
  }
  check_entry(folder, "s", S_IFSOCK, path + "/s");
  check_entry(folder, "users", S_IFIFO, path + "/users");
  const std::string data = "appendonlydir";
  if (!check_entry(folder, data, S_IFDIR, path + "/" + data)) return;
  const Descriptor inner = above_standard(::openat(folder.get(), data.c_str(), kOpenFolder));
  if (inner.get() < 0) fail_with("cannot open " + path + "/" + data, errno);
  for (const auto& name : names_in(inner)) check_entry(inner, name, S_IFREG, path + "/" + data + "/" + name);
}

}  // namespace delayqueue
