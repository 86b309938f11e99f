// A proxy between a client and a server that injects faults.
#pragma once

#include "support/standard.h"

namespace test {

// Every call takes effect before it returns. Safe to call from any thread at any time. The proxy counts the bytes of
// one read as one reply or one command. This is right for small commands whose replies the client awaits.
class FaultProxy {
 public:
  enum class Via { port, unix_socket };

  // target: "127.0.0.1:6379", or the path of a unix socket. Throws std::invalid_argument for other targets, and
  // std::runtime_error when it cannot listen.
  explicit FaultProxy(const std::string& target, Via via = Via::port);
  ~FaultProxy();  // closes all links
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  std::string url() const;      // redis://127.0.0.1:port or unix:///path
  std::string address() const;  // without the scheme
  int port() const;

  void retarget(const std::string& target);  // for new links: a different server behind the address

  // For all links, until changed.
  void delay(std::chrono::milliseconds each_way);
  // A slow link: so many bytes a second from all clients together, and to all of them; 0: no limit.
  void rate(std::size_t to_server, std::size_t to_client);
  void black_hole(bool on);  // on: accepts links, passes nothing and closes nothing; off: passes all that has waited
  void black_hole_from(const std::string& text);  // on when a read returns a command with this text, which waits, too
  void hold_replies(bool on);                     // on: commands pass and run; off: their replies follow
  void hold_little();                             // of new links the system holds only some KiB of unread commands
  void refuse(bool on);                           // on: refuses new links; open links stay

  // For all open links, once. Return how many links were closed.
  std::size_t cut();    // both ends read an end of file
  std::size_t reset();  // both ends get a reset, or an end of file on a unix socket

  // For the next n replies or commands, on any link. Each of them closes its link.
  void drop_replies(std::size_t n);      // the command runs, its reply is lost
  void drop_commands(std::size_t n);     // the server does not receive the command
  void truncate_replies(std::size_t n);  // passes only the first half of the reply

  // Passes only so many more bytes of the commands of all links, then closes the link that sends the next one.
  void cut_commands_after(std::size_t bytes);

  struct Counts {
    std::size_t links = 0;  // since the start
    std::size_t open = 0;   // now
    std::size_t cut = 0;
    std::size_t reset = 0;
    std::size_t dropped = 0;    // replies and commands
    std::size_t truncated = 0;  // replies, and commands that were cut
  };
  Counts counts() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace test
