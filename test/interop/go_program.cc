#include "interop/go_program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/server.h"

namespace test {
namespace {

std::array<int, 2> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  return ends;
}

pid_t spawn(std::vector<std::string> words, int input, int output) {
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::system_error(error, std::generic_category(), words.front());
  return pid;
}

}  // namespace

std::optional<NoGo> no_go() {
  std::ifstream file(INTEROP_OUTCOME);
  NoGo found{true, "the Go program was not built: build the target interop_go"};
  std::string kind;
  if (!std::getline(file, kind)) return found;
  if (kind == "built") return std::nullopt;
  found.reason.assign(std::istreambuf_iterator<char>(file), {});
  const char* ci = std::getenv("CI");
  const bool in_ci = ci != nullptr && std::string(ci) == "true";
  found.failure = kind == "broken" || (kind == "no go" && in_ci);
  return found;
}

GoProgram::GoProgram(const std::string& command, const std::string& queue, const Flags& flags) {
  std::vector<std::string> words{INTEROP_PROGRAM, command, "-socket", server().socket(), "-queue", queue};
  words.insert(words.end(), flags.begin(), flags.end());
  const auto input = make_pipe();
  const auto output = make_pipe();
  pid_ = spawn(std::move(words), input[0], output[1]);
  ::close(input[0]);
  ::close(output[1]);
  input_ = input[1];
  reader_ = std::thread([this, fd = output[0]] { read(fd); });
}

GoProgram::~GoProgram() { finish(); }

std::vector<std::string> GoProgram::lines() const {
  const std::lock_guard lock(mutex_);
  return lines_;
}

std::size_t GoProgram::count(const std::string& line) const {
  const auto all = lines();
  return static_cast<std::size_t>(std::count(all.begin(), all.end(), line));
}

std::size_t GoProgram::count_starting(const std::string& start) const {
  const auto all = lines();
  return static_cast<std::size_t>(std::count_if(
      all.begin(), all.end(), [&](const auto& line) { return line.compare(0, start.size(), start) == 0; }));
}

void GoProgram::write(const std::string& line) {
  const std::string bytes = line + "\n";
  if (::write(input_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    throw std::system_error(errno, std::generic_category(), "write");
  }
}

void GoProgram::kill() { ::kill(pid_, SIGKILL); }

int GoProgram::finish() {
  if (pid_ == -1) return exit_code_;
  ::close(input_);
  reader_.join();
  int status = 0;
  while (::waitpid(pid_, &status, 0) == -1 && errno == EINTR) {
  }
  pid_ = -1;
  exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return exit_code_;
}

void GoProgram::read(int fd) {
  std::string rest;
  char bytes[4096];
  for (;;) {
    const auto n = ::read(fd, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    rest.append(bytes, static_cast<std::size_t>(n));
    const std::lock_guard lock(mutex_);
    for (std::size_t end; (end = rest.find('\n')) != std::string::npos; rest.erase(0, end + 1)) {
      lines_.push_back(rest.substr(0, end));
    }
  }
  ::close(fd);
}

std::vector<std::string> go(const std::string& command, const std::string& queue, const GoProgram::Flags& flags) {
  GoProgram program(command, queue, flags);
  const int code = program.finish();
  if (code != 0) throw std::runtime_error("interop " + command + ": exit code " + std::to_string(code));
  return program.lines();
}

}  // namespace test
