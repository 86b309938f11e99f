// Decides which requests dqctl serve answers.
#pragma once

#include <string>
#include <vector>

#include "serve/request.h"

namespace dqctl {

struct AccessOptions {
  std::vector<std::string> hosts{};  // names that Host may have, in lower case, beside localhost and loopback addresses
  std::string token{};               // that clients must send; empty: none
  bool allow_changes = false;
  std::string user_field{};  // in lower case: the field in which a proxy names the user; empty: there is none
};

class Access {
 public:
  explicit Access(AccessOptions options) : options_(std::move(options)) {}

  // Refuses another Host, because a page of another site could use its own name for this address (DNS rebinding), and
  // a wrong token. open: the answer has no data, so that a browser gets it without a token. Throws HttpError.
  void check(const HttpRequest& request, bool open) const;

  // Refuses changes unless they are allowed, those that a page of another site may have sent, and those of no user if a
  // proxy names users. Throws HttpError.
  void check_change(const HttpRequest& request) const;

  // The user that the proxy has named; empty: no field was chosen for it, or the proxy has named none. Throws HttpError
  // if the field is there twice: then the client has sent one of them.
  std::string user_of(const HttpRequest& request) const;

  bool allows_changes() const { return options_.allow_changes; }
  bool needs_token() const { return !options_.token.empty(); }

 private:
  const AccessOptions options_;
};

// Whether the texts are equal. The time that it takes depends on the length of `secret` only.
bool equals_secret(const std::string& given, const std::string& secret);

// Reads the token of --token-file: at least 32 visible characters, in a regular file of this user that no other user
// can read. Throws Usage.
std::string read_token(const std::string& file);

}  // namespace dqctl
