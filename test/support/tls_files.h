// Certificates for the TLS tests, made with the openssl command.
#pragma once

#include "support/raw_server.h"

namespace test {

struct Certificate {
  std::string cert;
  std::string key;
};

class TlsFiles {
 public:
  // Made by the first call and kept until the process ends.
  static const TlsFiles& shared();

  TlsFiles();

  std::string file(const std::string& name) const { return dir_.file(name); }

  std::string ca;
  std::string other_ca;
  Certificate server;   // for localhost and 127.0.0.1
  Certificate named;    // for queue.example only
  Certificate expired;  // for localhost and 127.0.0.1
  Certificate client;
  Certificate foreign_client;  // signed by the other CA
  std::string locked_key;      // encrypted key of `client`

 private:
  std::string authority(const std::string& name);
  Certificate certificate(const std::string& name, const std::string& signer, const std::string& names,
                          const std::string& validity);
  void openssl(const std::string& arguments);

  TempDir dir_;
};

// Arguments of a redis-server that has this certificate, and requires one of its clients if `ask_client` is "yes".
std::vector<std::string> serving(const Certificate& own, const std::string& ask_client = "no");

// The same for one that also listens with TLS, with the certificate of the shared files, on this port of 127.0.0.1.
std::vector<std::string> serving(const Port& port, const std::string& ask_client = "no");

// The options of a client that trusts this CA.
delayqueue::TlsOptions trusting(const std::string& ca, const Certificate& client = {});

}  // namespace test
