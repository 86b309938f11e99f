#include "support/paths.h"

namespace test {

// Only this file is compiled with these paths, so that no other object file depends on the build directory.
std::string source_path(const std::string& file) { return std::string(DELAYQUEUE_SOURCE_DIR) + "/" + file; }

std::string program_path(const std::string& name) { return std::string(DELAYQUEUE_BIN_DIR) + "/" + name; }

std::string slow_names_library() { return DELAYQUEUE_SLOW_NAMES; }

}  // namespace test
