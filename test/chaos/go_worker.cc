// A worker of the Go library HDT3213/delayqueue: runs the program of the interoperability tests and writes its journal.
// The lines "go_begin <token>" and "go_ack <token>" have the times at which this process read them from the program.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "chaos/mix.h"
#include "chaos/worker.h"

namespace chaos {
namespace {

volatile std::sig_atomic_t program = 0;

[[noreturn]] void become(std::vector<std::string> words, const std::array<int, 2>& input,
                         const std::array<int, 2>& output) {
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // ends with this process
  ::dup2(input[0], STDIN_FILENO);
  ::dup2(output[1], STDOUT_FILENO);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

std::array<int, 2> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  return ends;
}

// Lines of the program: "take <hex>" and "ack <hex>".
void log_line(const Journal& journal, const std::string& line) {
  std::istringstream words(line);
  std::string what, hex, payload;
  words >> what >> hex;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    payload += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  journal.line((what == "take" ? "go_begin " : "go_ack ") + task_of(payload).token);
}

}  // namespace

int work_in_go(const Arguments& arguments) {
  const Journal journal(arguments.text("journal"));
  const auto input = make_pipe();
  const auto output = make_pipe();
  const std::vector<std::string> words = {arguments.text("program"),
                                          "work",
                                          "-socket",
                                          arguments.text("socket"),
                                          "-queue",
                                          arguments.text("queue"),
                                          "-hex",
                                          "-lease",
                                          "3s",
                                          "-concurrency",
                                          "4",
                                          "-redelivery",
                                          "1s",
                                          "-interval",
                                          "200ms"};
  const pid_t pid = ::fork();  // before this process has threads
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid == 0) become(words, input, output);
  program = pid;
  ::close(input[0]);
  ::close(output[1]);
  struct sigaction action {};
  action.sa_handler = [](int) { ::kill(program, SIGTERM); };
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &action, nullptr);

  std::string rest;
  char bytes[4096];
  for (;;) {
    const auto n = ::read(output[0], bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    rest.append(bytes, static_cast<std::size_t>(n));
    for (std::size_t end; (end = rest.find('\n')) != std::string::npos; rest.erase(0, end + 1)) {
      log_line(journal, rest.substr(0, end));
    }
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace chaos
