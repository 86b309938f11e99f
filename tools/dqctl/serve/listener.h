// The socket that dqctl serve listens on.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "fd.h"

namespace dqctl {

// An address to listen on: "127.0.0.1:9480", "[::1]:9480", "localhost:9480". Port 0: any free one.
struct ListenAddress {
  std::string host{};  // a numeric address in its shortest form, without brackets: "::1"
  int port = 0;
  bool is_loopback = false;
};

// Accepts any text. Throws Usage.
ListenAddress parse_listen(const std::string& text);

class Listener {
 public:
  // The constructors throw Usage if the address cannot be used. The socket of a path has mode 0600. It replaces one
  // that no server listens on any more, but no other file.
  explicit Listener(const ListenAddress& address);
  explicit Listener(const std::string& path);
  ~Listener();  // removes the socket of a path
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int fd() const { return fd_.get(); }

  // "127.0.0.1:9480", with the port that was chosen; or the path.
  const std::string& shown() const { return shown_; }

  // Accepts a connection that waits; it does not block. The fd is not open if there is none. client: its address.
  Fd accept(std::string& client) const;

 private:
  Fd fd_{};
  std::string shown_{};
  std::string path_{};  // empty: a TCP socket
  dev_t device_ = 0;    // of the socket of the path
  ino_t inode_ = 0;
};

}  // namespace dqctl
