#include "shell.h"

#include <doctest/doctest.h>

#include "support/paths.h"
#include "support/server.h"

namespace test {
namespace {

std::string all_of(FILE* pipe) {
  std::string text;
  char some[4096];
  while (const std::size_t n = std::fread(some, 1, sizeof some, pipe)) text.append(some, n);
  return text;
}

}  // namespace

// Outside of zsh's line editor, these commands are replaced by functions that print their arguments.
const std::string kZshHead = R"(compdef() { true }
compadd() { [[ $1 == -- ]] || print "options: $1"; shift; print -rl -- "$@" }
compset() { print "compset $*" }
_files() { print "files" }
source <(dqctl completion zsh)
complete_for() { words=("$@"); CURRENT=$#; _dqctl }
)";

const std::string kBashHead = R"(source <(dqctl completion bash)
complete_for() {
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _dqctl
  ((${#COMPREPLY[@]} == 0)) || printf '%s\n' "${COMPREPLY[@]}"
}
)";

std::string program_folder() {
  const std::string program = program_path("dqctl");
  return program.substr(0, program.rfind('/'));
}

std::string script(const std::string& shell, const std::string& text, const TempDir& folder, std::string uri) {
  if (uri.empty()) uri = server().url();
  std::ofstream(folder.file("script")) << text;
  const std::string line = "cd '" + folder.file(".") + "' && PATH='" + program_folder() +
                           "':\"$PATH\" DELAYQUEUE_URI='" + uri + "' HOME='" + folder.file(".") + "' " + shell +
                           " ./script 2>&1";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(line.c_str(), "r"), ::pclose);
  return all_of(pipe.get());
}

std::vector<std::string> offered_by(const std::string& shell, const std::vector<std::string>& lines) {
  const bool fish = shell == "fish";
  std::string text = shell == "zsh" ? kZshHead : shell == "bash" ? kBashHead : "dqctl completion fish | source\n";
  for (const std::string& line : lines) {
    text += (fish ? "complete -C '" + line + "'" : "complete_for " + line + (line.back() == ' ' ? "''" : "")) + "\n";
    text += "echo --end--\n";
  }
  const std::string command = fish ? "fish --no-config" : shell == "zsh" ? "zsh -f" : "bash --norc";
  const std::string out = script(command, text, TempDir());
  std::vector<std::string> offered;
  for (std::size_t begin = 0, end = 0; (end = out.find("--end--\n", begin)) != std::string::npos; begin = end + 8) {
    offered.push_back(out.substr(begin, end - begin));
  }
  REQUIRE_MESSAGE(offered.size() == lines.size(), out);
  return offered;
}

bool has_shell(const std::string& name) {
  if (std::system(("command -v " + name + " >/dev/null 2>&1").c_str()) == 0) return true;
  MESSAGE("skipped: no " << name << " on PATH");
  return false;
}

}  // namespace test
