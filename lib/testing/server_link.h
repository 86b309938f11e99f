// ServerLink: a connection to the unix socket of a private server, for commands that have no call in the library.
#pragma once

#include "os/descriptor.h"

#include <delayqueue/version.h>

#include <string>
#include <vector>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {
namespace testing {

// One thread at a time. Connects with its first command, and again after a failure.
class ServerLink {
 public:
  // A reply: its text, or the elements of an array. Nil is an empty text.
  struct Reply {
    std::string text{};
    std::vector<Reply> elements{};
  };

  explicit ServerLink(std::string socket) : socket_(std::move(socket)) {}

  // Throws ConnectionError without a reply, and ReplyError for an error.
  Reply call(const std::vector<std::string>& words);

 private:
  void connect();
  void send(const std::string& request);
  Reply read_reply();
  std::string read_line();
  void read_more();
  [[noreturn]] void fail(const std::string& doing);

  const std::string socket_;
  Descriptor connection_;
  std::string buffer_;  // received, and not read
};

}  // namespace testing
}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
