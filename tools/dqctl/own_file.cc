#include "own_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "exit.h"
#include "output/text.h"

namespace dqctl {
namespace {

constexpr std::size_t kLongestSecretFile = 64 * 1024;
constexpr const char* kExpectedSecret = "; expected a regular file with the password in its first line";

std::string text_of(int error) { return std::generic_category().message(error); }

[[noreturn]] void cannot_read(const std::string& option) {
  throw Usage(option + ": the file cannot be read: " + text_of(errno) + kExpectedSecret);
}

// Why dqctl must not write to the file. Empty: it may.
std::string objection_to(const struct stat& file) {
  if (!S_ISREG(file.st_mode)) return "is no regular file";
  if (file.st_uid != ::geteuid()) return "belongs to another user";
  if (file.st_nlink != 1) return "has a second name (a hard link)";
  return "";
}

}  // namespace

Fd open_own_file(const std::string& option, const std::string& file, IfExists if_exists) {
  // O_NONBLOCK: a pipe without a reader is an error, open() does not wait for one.
  const int how = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  Fd fd(::open(file.c_str(), if_exists == IfExists::refuse ? how | O_EXCL : how, S_IRUSR | S_IWUSR));
  const int error = errno;
  const std::string name = option + ": " + in_quotes(file);
  if (!fd.open() && error == EEXIST) throw Usage(name + " exists; name another file, or add to it with --append");
  if (!fd.open() && error == ELOOP) throw Usage(name + " is a symbolic link; name the file itself");
  if (!fd.open() && error == ENXIO) throw Usage(name + " is no regular file; name another");
  if (!fd.open()) throw Usage(name + ": " + text_of(error));
  struct stat found {};
  if (::fstat(fd.get(), &found) != 0) throw Usage(name + ": " + text_of(errno));
  const std::string objection = objection_to(found);
  if (!objection.empty()) throw Usage(name + ' ' + objection + "; name another file");
  if (if_exists == IfExists::append && (found.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    throw Usage(name + " is open to other users; chmod 600, or name another file");
  }
  if (if_exists == IfExists::replace && ::ftruncate(fd.get(), 0) != 0) throw Usage(name + ": " + text_of(errno));
  return fd;
}

std::string secret_in_file(const std::string& option, const std::string& file) {
  const std::string expected = kExpectedSecret;
  const Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.open()) cannot_read(option);
  struct stat found {};
  if (::fstat(fd.get(), &found) != 0 || !S_ISREG(found.st_mode)) {
    throw Usage(option + ": the file is not a regular file" + expected +
                "; put the output of a command into DELAYQUEUE_PASSWORD");
  }
  if ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    std::fprintf(stderr, "dqctl: %s: others may write the file; chmod go-w\n", option.c_str());
  } else if ((found.st_mode & S_IROTH) != 0 && found.st_uid == ::geteuid()) {
    std::fprintf(stderr, "dqctl: %s: every user of this machine may read the file; chmod 600\n", option.c_str());
  }
  return secret_in_file(option, fd);
}

std::string secret_in_file(const std::string& option, const Fd& fd) {
  const std::string expected = kExpectedSecret;
  std::string text;
  std::array<char, 4096> some;
  while (text.size() <= kLongestSecretFile && text.find('\n') == std::string::npos) {
    const auto n = ::read(fd.get(), some.data(), some.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) cannot_read(option);
    if (n == 0) break;
    text.append(some.data(), static_cast<std::size_t>(n));
  }
  if (text.size() > kLongestSecretFile) throw Usage(option + ": the first line is longer than 64 KiB" + expected);
  text.resize(std::min(text.find('\n'), text.size()));
  if (!text.empty() && text.back() == '\r') text.pop_back();
  if (text.substr(0, 3) == "\xef\xbb\xbf") {
    throw Usage(option + ": the file begins with a byte order mark; save it as UTF-8 without one");
  }
  if (text.empty()) throw Usage(option + ": the first line of the file is empty; expected the password");
  return text;
}

}  // namespace dqctl
