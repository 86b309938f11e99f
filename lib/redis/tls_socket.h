// A TLS session (1.2 or newer) over an open link. The server's certificate is always checked: its chain, its dates and
// the name or IP address asked for.
#pragma once

#include "redis/socket.h"

#include <memory>
#include <string>

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace delayqueue::redis {

class Tls {
 public:
  // Reads the files. Throws std::invalid_argument that names the field, the path and OpenSSL's reason.
  Tls(const Address& address, const TlsOptions& options);

  // Shakes hands over `link`, which must be connected to the address. Throws ConnectionError, at the deadline at last.
  // A missing or refused client certificate shows only at the first read when both sides speak TLS 1.3.
  std::unique_ptr<Transport> start(std::unique_ptr<Transport> link, Deadline deadline);

 private:
  struct Free {
    void operator()(ssl_ctx_st* context) const;
  };

  void trust_authorities();
  void show_client_certificate();

  const Address address_;
  const TlsOptions options_;
  const std::string name_;  // that the certificate must be valid for; never empty
  const std::unique_ptr<ssl_ctx_st, Free> context_;
};

}  // namespace delayqueue::redis
