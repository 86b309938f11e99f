#include "embedded/temporary_folder.h"

#include "embedded/private_folder.h"
#include "os/environment.h"

#include <delayqueue/error.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

namespace delayqueue {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNamePrefix = "delayqueue-";
constexpr char kMarker[] = ".temporary";
constexpr std::string_view kMarkerText =
    "Temporary folder of delayqueue. It is deleted with its contents after the process that made it has ended.\n";

// As fs::temp_directory_path(), but ignores variables that are not trusted or name no absolute path of a folder.
fs::path temp_directory() {
  for (const char* name : {"TMPDIR", "TMP", "TEMP", "TEMPDIR"}) {
    const char* value = trusted_environment(name);
    std::error_code ignored;
    if (value != nullptr && value[0] == '/' && fs::is_directory(value, ignored)) return value;
  }
  return "/tmp";
}

bool consists_of(std::string_view text, std::string_view allowed) {
  return !text.empty() && text.find_first_not_of(allowed) == std::string_view::npos;
}

// Whether the name is delayqueue-<pid>-<six letters and digits> and the process has ended.
bool is_folder_of_ended_process(const std::string& name) {
  constexpr std::string_view kDigits = "0123456789";
  constexpr std::string_view kLettersAndDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  if (name.compare(0, kNamePrefix.size(), kNamePrefix) != 0) return false;
  const std::string_view rest = std::string_view(name).substr(kNamePrefix.size());
  const auto dash = rest.find('-');
  if (dash == std::string_view::npos || dash > 9) return false;  // std::stoi can read a pid of 9 digits
  const std::string pid(rest.substr(0, dash));
  const std::string_view random = rest.substr(dash + 1);
  if (!consists_of(pid, kDigits) || random.size() != 6 || !consists_of(random, kLettersAndDigits)) return false;
  return ::kill(std::stoi(pid), 0) != 0 && errno == ESRCH;
}

bool is_marked(const Descriptor& folder) {
  const Descriptor marker = open_own_file(folder.get(), kMarker, O_RDONLY);
  struct stat status {};
  if (marker.get() < 0 || ::fstat(marker.get(), &status) != 0 || (status.st_mode & 07777U) != 0600) return false;
  char text[kMarkerText.size() + 1];
  const auto size = ::read(marker.get(), text, sizeof text);
  return size > 0 && std::string_view(text, static_cast<std::size_t>(size)) == kMarkerText;
}

// Removes a folder whose name has the pid of no process here. That is no proof, because containers with other pid
// namespaces may share the parent folder: so the folder must also be this user's, marked and not locked.
void remove_if_stale(const fs::path& path) {
  const Descriptor folder = above_standard(::open(path.c_str(), kOpenFolder));
  struct stat status {};
  if (folder.get() < 0 || ::fstat(folder.get(), &status) != 0) return;
  const bool is_ours_and_private = status.st_uid == ::geteuid() && (status.st_mode & 07777U) == 0700;
  if (!is_ours_and_private || ::flock(folder.get(), LOCK_EX | LOCK_NB) != 0 || !is_marked(folder)) return;
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

void remove_stale_folders(const fs::path& parent) {
  const Descriptor folder = above_standard(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) return;
  for (const auto& name : names_in(folder, parent.string())) {
    if (is_folder_of_ended_process(name)) remove_if_stale(parent / name);
  }
}

// Locks the folder, then marks it: in this order, because remove_if_stale() removes any marked folder that is not
// locked.
Descriptor lock_and_mark(const std::string& path) {
  Descriptor folder = open_private_folder(path);
  ::flock(folder.get(), LOCK_EX | LOCK_NB);
  const Descriptor marker = open_own_file(folder.get(), kMarker, O_WRONLY | O_CREAT);
  const auto size = static_cast<ssize_t>(kMarkerText.size());
  if (marker.get() < 0 || ::fchmod(marker.get(), 0600) != 0 ||
      ::write(marker.get(), kMarkerText.data(), kMarkerText.size()) != size) {
    fail_with("cannot write " + path + "/" + kMarker, errno);
  }
  return folder;
}

}  // namespace

TemporaryFolder::TemporaryFolder() : owner_(::getpid()) {
  const fs::path parent = temp_directory();
  remove_stale_folders(parent);
  std::string name = (parent / (std::string(kNamePrefix) + std::to_string(owner_) + "-XXXXXX")).string();
  if (::mkdtemp(name.data()) == nullptr) {
    fail_with("cannot make a temporary folder in " + parent.string() + " (set TMPDIR to use another one)", errno);
  }
  path_ = name;
  try {
    lock_ = lock_and_mark(name);
  } catch (...) {
    ::unlink((path_ / kMarker).c_str());
    ::rmdir(name.c_str());
    throw;
  }
}

TemporaryFolder::~TemporaryFolder() {
  if (owner_ != ::getpid()) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void keep_folder(const Descriptor& folder) { ::unlinkat(folder.get(), kMarker, 0); }

}  // namespace delayqueue
