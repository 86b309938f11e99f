// A connection of a client, plain or with TLS. Every call has a deadline, so that a slow client cannot hold its thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "fd.h"

struct ssl_ctx_st;
struct ssl_st;

namespace dqctl {

// Certificate and key of the server, and whose clients it accepts.
class TlsContext {
 public:
  // PEM files. client_ca: clients need a certificate of one of these authorities; empty: they need none. Throws Usage.
  TlsContext(const std::string& cert, const std::string& key, const std::string& client_ca);

  ssl_ctx_st* get() const { return context_.get(); }

 private:
  struct Free {
    void operator()(ssl_ctx_st* context) const;
  };

  std::unique_ptr<ssl_ctx_st, Free> context_;
};

// One thread uses it; any other may call cut().
class Connection {
 public:
  using Clock = std::chrono::steady_clock;

  // fd: a socket that does not block. client: its address.
  Connection(Fd fd, std::string client) : fd_(std::move(fd)), client_(std::move(client)) {}

  const std::string& client() const { return client_; }

  // The handshake of the server. False: it failed, or took too long.
  bool start_tls(const TlsContext& context, Clock::time_point until);

  // Reads at least one byte. 0: the client has closed it, it is broken, or it is too late.
  std::size_t read(char* into, std::size_t size, Clock::time_point until);

  // False: not all was written.
  bool write(std::string_view bytes, Clock::time_point until);

  // Tells the client that no more follows, and reads what it still sends for a moment: closing a socket with unread
  // bytes makes the system drop an answer that the client has not read.
  void finish();

  // Ends reads and writes.
  void cut() const;

 private:
  struct Free {
    void operator()(ssl_st* ssl) const;
  };

  bool wait(short events, Clock::time_point until) const;
  bool wait_for_tls(int result, Clock::time_point until) const;  // false: it failed

  Fd fd_;
  const std::string client_;
  std::unique_ptr<ssl_st, Free> ssl_{};
};

}  // namespace dqctl
