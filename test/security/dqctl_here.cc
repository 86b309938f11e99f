#include "dqctl_here.h"

#include <sys/mman.h>
#include <unistd.h>

#include "support/server.h"

int dqctl_main(int argc, char** argv);  // the main() of dqctl, in tools/dqctl/main.cc

namespace test {
namespace {

// A file in memory that replaces a standard stream.
class Stream {
 public:
  explicit Stream(int fd) : fd_(fd), saved_(::dup(fd)), file_(::memfd_create("stream", MFD_CLOEXEC)) {
    if (saved_ < 0 || file_ < 0 || ::dup2(file_, fd_) < 0) std::abort();
  }
  ~Stream() {
    ::dup2(saved_, fd_);
    ::close(saved_);
    ::close(file_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void fill(const std::string& bytes) {
    if (::pwrite(file_, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) std::abort();
  }

  std::string text() const {
    std::string all;
    std::array<char, 65536> some;
    for (ssize_t n = 0; (n = ::pread(file_, some.data(), some.size(), static_cast<off_t>(all.size()))) > 0;) {
      all.append(some.data(), static_cast<std::size_t>(n));
    }
    return all;
  }

 private:
  const int fd_, saved_, file_;
};

}  // namespace

Ran run_here(const std::vector<std::string>& arguments, const std::string& input) {
  std::vector<std::string> words = {"dqctl"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::setenv("DELAYQUEUE_URI", server().url().c_str(), 1);
  std::fflush(nullptr);
  Stream in(STDIN_FILENO), out(STDOUT_FILENO), err(STDERR_FILENO);
  in.fill(input);
  Ran ran;
  const auto begin = std::chrono::steady_clock::now();
  ran.code = dqctl_main(static_cast<int>(words.size()), argv.data());
  ran.took = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
  std::fflush(nullptr);
  ran.out = out.text();
  ran.err = err.text();
  return ran;
}

}  // namespace test
