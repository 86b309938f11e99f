// Reads the URLs that say where a server is.
#pragma once

#include "redis/transport.h"

#include <string>
#include <vector>

namespace delayqueue::redis {

// redis://[user[:password]@][host][:port][/db][?db=n]   rediss:// the same over TLS   (host default 127.0.0.1)
// unix:///path/to/socket[?db=n]   unix://[user[:password]@]/path   unix:/path
// embedded:   embedded:/folder   (folder: absolute, or relative to the current directory)
// user, password, path and folder are percent-decoded; redis://:password@host is the default user's password.
struct Url {
  enum class Kind { server, embedded };

  Kind kind = Kind::server;
  std::vector<Address> addresses;  // of a server URL: exactly one
  std::string folder;              // embedded: empty for a temporary one
  std::string user;
  std::string password;
  int db = 0;

  std::string text() const;  // the URL again, password (and a user without one) shown as ***
};

// Throws std::invalid_argument whose text starts with "url: ", shows the URL without its password, and says what is
// wrong and what was expected.
Url parse_url(const std::string& url);

}  // namespace delayqueue::redis
