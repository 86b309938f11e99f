// Finds, or starts, the server behind an embedded URL. See private_server.h for what these URLs promise.
#pragma once

#include <string>

namespace delayqueue {

// Returns the path of a socket on which a server listens, having started it if there was none. To be asked before
// every connect and reconnect; costs one connect when the server is up. A server that was started here ends with this
// process, in good order if the process does.
//
// folder: of an embedded URL; empty for the server of this process' own, whose data survives the server but not the
// process. A process forked from this one has an own of its own.
//
// Any thread. Throws ConnectionError that says why there is no server; SetupError if there cannot be one until somebody
// changes something, or if other users could get at it; std::invalid_argument for a folder whose socket path is too
// long.
std::string embedded_socket(const std::string& folder);

}  // namespace delayqueue
