// Looks up host names with a deadline: getaddrinfo() has none, and cannot be interrupted.
#pragma once

#include "redis/socket.h"

#include <sys/socket.h>

#include <vector>

namespace delayqueue::redis {

// An IP address, with the port of the server.
struct HostAddress {
  sockaddr_storage address{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  int family() const { return address.ss_family; }
};

// The addresses of the server's host, in the order in which to try them; at least one. Waits until the deadline at
// most, and not longer than until this thread is interrupted. Throws ConnectionError.
//
// Another thread calls getaddrinfo(). The look-up may outlive the call; it belongs to the process, and accesses nothing
// of the caller. There is at most one look-up of a name at a time: a caller joins the one that is under way. So a name
// server that does not answer keeps one thread for each name. If all callers have left, the addresses are kept for the
// next one for a minute, and those of a slow look-up for all callers for 2 s: a name server that answers later than the
// connect timeout delays the first connections, but does not prevent them.
std::vector<HostAddress> look_up_host(const Address& server, Deadline deadline);

}  // namespace delayqueue::redis
