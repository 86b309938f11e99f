#include "os/host.h"

#include <unistd.h>

#include <array>

namespace delayqueue {

// POSIX leaves open whether a name that does not fit ends with a zero.
std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "unknown";
  return name.data();
}

}  // namespace delayqueue
