#include "shell.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>

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

bool has_shell(const std::string& name) {
  if (std::system(("command -v " + name + " >/dev/null 2>&1").c_str()) == 0) return true;
  MESSAGE("skipped: no " << name << " on PATH");
  return false;
}

}  // namespace test
