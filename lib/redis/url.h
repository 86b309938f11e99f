// Reads the URLs that say where a server is.
#pragma once

#include "redis/socket.h"

#include <string>
#include <vector>

namespace delayqueue::redis {

// redis://[user[:password]@][host][:port][/db][?db=n]   (host default 127.0.0.1, port default 6379)
// redis+sentinel://[user[:password]@]host[:port][,host[:port]...]/master[/db][?db=n]   (port default 26379)
// redis+cluster://[user[:password]@]host[:port][,host[:port]...]   (port default 6379; no db but 0)
// rediss...   the same over TLS
// unix:///path/to/socket[?db=n]   unix://[user[:password]@]/path   unix:/path
// embedded:   embedded:/folder   (folder: absolute, or relative to the current directory)
// user, password, master, path and folder are percent-decoded; redis://:password@host is the default user's password.
struct Url {
  enum class Kind { server, embedded, sentinel, cluster };

  Kind kind = Kind::server;
  std::vector<Address>
      addresses;       // server: exactly one; sentinel: the Sentinels; cluster: where to ask for the others;
                       // embedded: none. None twice, and all with TLS or none
  std::string master;  // sentinel: the name the Sentinels know it by, never empty
  std::string folder;  // embedded: empty for a temporary one
  std::string user;    // with password and db: of the server that holds the queue, not of a Sentinel
  std::string password;
  int db = 0;

  std::string text() const;  // the URL again, password (and a user without one) shown as ***
};

// Throws std::invalid_argument whose text starts with "url: ", shows the URL without its password, and says what is
// wrong and what was expected.
Url parse_url(const std::string& url);

}  // namespace delayqueue::redis
