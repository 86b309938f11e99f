// Counts what clients ask of a server: what MONITOR tells, without the lines of what scripts call inside.
#pragma once

#include <cstddef>
#include <string>

#include "bench/server.h"
#include "bench/wire.h"

namespace bench {

class Monitor {
 public:
  explicit Monitor(Server& server);

  // Requests since the last call. Until then they wait in the socket: whoever counts costs this process nothing.
  // Without `routine`: but those that a consumer sends every few seconds whatever comes, to wait for a marker (BZPOPMIN)
  // and to keep house (SRANDMEMBER, HSCAN).
  std::size_t requests(bool routine = true);

 private:
  std::string next_line();

  Server& server_;
  Wire wire_;
  std::string text_;
  int marks_ = 0;
};

}  // namespace bench
