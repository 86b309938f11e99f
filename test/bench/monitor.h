// Counts the requests of clients of a server with MONITOR, without the commands that scripts call.
#pragma once

#include "bench/server.h"
#include "bench/wire.h"

namespace bench {

class Monitor {
 public:
  explicit Monitor(Server& server);

  // The requests since the last call. Their lines wait in the socket, so that counting costs this process nothing
  // during a measurement. Without `routine`, the requests are left out that a consumer sends every few seconds in any
  // case: to wait for a marker (BZPOPMIN) and for maintenance (SRANDMEMBER, HRANDFIELD).
  std::size_t requests(bool routine = true);

 private:
  std::string next_line();

  Server& server_;
  Wire wire_;
  std::string text_;
  int marks_ = 0;
};

}  // namespace bench
