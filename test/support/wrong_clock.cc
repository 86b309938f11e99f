#include "support/wrong_clock.h"

#include <sys/stat.h>

#include "support/sanitized.h"

namespace test {

WrongClock::WrongClock() {
  delayqueue::PrivateServerOptions options;
  options.environment = clock_.environment();
  server_ = std::make_unique<delayqueue::PrivateServer>(options);
}

std::string WrongClock::runner() const {
  std::string path = folder_.file("runner");
  std::ofstream program(path);
  program << "#!/bin/sh\nexport DELAYQUEUE_CLOCK_STEADY=1";
  for (const std::string& variable : clock_.environment()) program << " '" << variable << "'";
  program << "\nexec \"$@\"\n";
  ::chmod(path.c_str(), 0700);
  return path;
}

bool can_run_with_wrong_clock() {
  if (TEST_SANITIZED)
    std::cout << "skipped: a program with a sanitizer does not run with a preloaded clock" << std::endl;
  return TEST_SANITIZED == 0;
}

}  // namespace test
