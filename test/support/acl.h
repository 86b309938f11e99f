// The ACL rules of docs/operations.md, and a server that has the users they define.
#pragma once

#include "support/server.h"

namespace test {

using Words = std::vector<std::string>;

// The rules of the section "The smallest ACL rule". Each rule is one ACL SETUSER command, split into words.
struct AclRules {
  std::vector<Words> least{};     // one rule per role, without EVAL
  std::vector<Words> optional{};  // rules for single features
  std::vector<Words> eval{};      // rules that add EVAL
};
const AclRules& documented_rules();

// The rule in `least` for a role, for example "producer".
const Words& rule_of(const std::string& role);
std::set<std::string> commands_of(const Words& rule);  // without the +

// A server with one user per rule in `least`, and a user orders-all with the rights of a producer, a consumer and an
// inspector. Unless `loads` is false, the user orders-loader has loaded the scripts.
struct Guarded {
  explicit Guarded(bool loads = true);

  void allow(const std::vector<Words>& rules);
  void load();
  void restart();  // kills and restarts the server; creates the users again, loads no scripts
  std::string url(const std::string& role) const { return "unix://orders-" + role + ":secret@" + server.socket(); }

  // Commands and keys in the ACL LOG: what the server refused since the log was reset.
  std::set<std::string> refused();

  delayqueue::PrivateServer server;
  Redis admin{server.socket()};
};

}  // namespace test
