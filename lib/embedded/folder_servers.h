// Finds or starts the server of an embedded URL. private_server.h documents these URLs.
#pragma once

#include <string>

namespace delayqueue {

// Returns the path of the socket of this process' server in the folder. Starts the server if it does not run. Call it
// before every connect and reconnect; it costs one connect when the server is up. The server ends when this process
// exits, after the destructors of its static objects.
//
// folder: of an embedded URL. Empty: a temporary one, whose data survives the server but not the process. A forked
// process is another process.
//
// Thread-safe. Throws ConnectionError with the reason if the server cannot be started now; SetupError if it cannot be
// started without a change to the system, if another process has the folder, or if other users have access to it;
// std::invalid_argument for a folder whose socket path is too long.
std::string embedded_socket(const std::string& folder);

}  // namespace delayqueue
