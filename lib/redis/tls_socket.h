// TLS 1.2 or newer over an open transport. The server's certificate is always verified: its chain, its dates, and the
// host name or IP address.
#pragma once

#include "redis/socket.h"

#include <memory>
#include <string>

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace delayqueue::redis {

class Tls {
 public:
  // Reads the certificate and key files. Throws std::invalid_argument with the field, the path and OpenSSL's reason.
  Tls(const Address& address, const TlsOptions& options);

  // Performs the TLS handshake over `link`, which must be connected to the address. Throws ConnectionError, by the
  // deadline at the latest. With TLS 1.3, a missing or refused client certificate is reported only by the first read.
  std::unique_ptr<Transport> start(std::unique_ptr<Transport> link, Deadline deadline);

 private:
  struct Free {
    void operator()(ssl_ctx_st* context) const;
  };

  void load_authorities();
  void load_client_certificate();

  const Address address_;
  const TlsOptions options_;
  const std::string name_;  // the name that the server's certificate must be valid for; never empty
  const std::unique_ptr<ssl_ctx_st, Free> context_;
};

}  // namespace delayqueue::redis
