// Parsing of the URLs that name a server or a set of servers.
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
  // server: exactly one; sentinel: the Sentinels; cluster: seed nodes; embedded: none. No duplicates. Either all use
  // TLS or none does.
  std::vector<Address> addresses;
  std::string master;  // sentinel: the master's name in the Sentinels' configuration, never empty
  std::string folder;  // embedded: empty for a temporary one
  std::string user;    // user, password and db are for the server that holds the queue, not for the Sentinels
  std::string password;
  int db = 0;

  std::string text() const;  // the URL again, with *** for the password, and for a user without a password
};

// Throws std::invalid_argument: "url: ", the redacted URL, what is wrong with it and what was expected.
Url parse_url(const std::string& url);

}  // namespace delayqueue::redis
