#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "interop/go_program.h"

// The exit code that ctest counts as skipped: SKIP_RETURN_CODE in CMakeLists.txt.
constexpr int kSkipped = 77;

int main(int argc, char** argv) {
  doctest::Context tests(argc, argv);
  if (const auto why = test::no_go()) {
    std::cerr << (why->failure ? "failed: " : "skipped: ") << why->reason << '\n';
    return why->failure ? 1 : kSkipped;
  }
  return tests.run();
}
