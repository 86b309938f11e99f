// SHA-1, by OpenSSL, for ids from names.
#pragma once

#include <delayqueue/error.h>

#include <openssl/evp.h>

#include <array>
#include <string_view>

namespace delayqueue::redis {

using Sha1 = std::array<unsigned char, 20>;

// Throws SetupError if the configuration of OpenSSL forbids SHA-1.
inline Sha1 sha1_of(std::string_view text) {
  Sha1 digest{};
  if (EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha1(), nullptr) == 1) return digest;
  throw SetupError(
      "cannot make an id from a name: OpenSSL of this process provides no SHA-1; allow it in the "
      "configuration of OpenSSL (openssl.cnf)");
}

}  // namespace delayqueue::redis
