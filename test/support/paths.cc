#include "support/paths.h"

namespace test {

// Compiled in here alone, so that no other object depends on where the build directory is.
std::string source_path(const std::string& file) { return std::string(DELAYQUEUE_SOURCE_DIR) + "/" + file; }

std::string program_path(const std::string& name) { return std::string(DELAYQUEUE_BIN_DIR) + "/" + name; }

}  // namespace test
