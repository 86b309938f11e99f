// Stands between a client and a server, and breaks what goes through.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace test {

// Every call takes effect before it returns. Any thread may call, at any time. What the server, or the client, writes
// in one go and is read in one go counts as one reply, or one command: true of small ones that are awaited.
class FaultProxy {
 public:
  enum class Via { port, unix_socket };

  // target: "127.0.0.1:6379", or the path of a unix socket. Throws std::invalid_argument, or std::runtime_error when it
  // cannot listen.
  explicit FaultProxy(const std::string& target, Via via = Via::port);
  ~FaultProxy();  // cuts all links
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  std::string url() const;      // redis://127.0.0.1:port or unix:///path
  std::string address() const;  // without the scheme
  int port() const;

  void retarget(const std::string& target);  // of the links to come: the server behind an address becomes another

  // Of all links, until changed.
  void delay(std::chrono::milliseconds each_way);
  void black_hole(bool on);    // links are made and never closed, and nothing passes either way; off: it all goes on
  void hold_replies(bool on);  // commands pass and run; off: their replies follow
  void refuse(bool on);        // nobody listens: new links are refused; links that are open stay

  // Of all links that are open, once. Return how many.
  std::size_t cut();    // both ends read an end of file
  std::size_t reset();  // both ends get a reset; over a unix socket an end of file

  // Of the next n, whichever links they come on; each closes its link.
  void drop_replies(std::size_t n);      // the command ran, and its answer is lost
  void drop_commands(std::size_t n);     // the server never sees it
  void truncate_replies(std::size_t n);  // only the first half is passed on

  struct Counts {
    std::size_t links = 0;  // ever
    std::size_t open = 0;   // now
    std::size_t cut = 0;
    std::size_t reset = 0;
    std::size_t dropped = 0;  // replies and commands
    std::size_t truncated = 0;
  };
  Counts counts() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace test
