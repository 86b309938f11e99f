// Finds or starts the server of an embedded URL. private_server.h documents these URLs.
#pragma once

#include <string>

namespace delayqueue {

// Returns the path of the server's socket. Starts the server if it does not run. Call it before every connect and
// reconnect; it costs one connect when the server is up. The server of a folder ends after the last process that uses
// it (for systems that cannot do that, see folder_use.h), that of this process with the process. Both shut down cleanly
// if that process exits normally, after the destructors of its static objects.
//
// folder: of an embedded URL. Empty: the private server of this process, whose data survives the server but not the
// process. A forked process gets its own.
//
// Thread-safe. Throws ConnectionError with the reason if the server cannot be started now; SetupError if it cannot be
// started without a change to the system, or if other users have access to it; std::invalid_argument for a folder whose
// socket path is too long.
std::string embedded_socket(const std::string& folder);

}  // namespace delayqueue
