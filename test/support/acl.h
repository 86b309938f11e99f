// The ACL rules of the README, as they stand there, and a server that has their users.
#pragma once

#include <delayqueue/private_server.h>

#include <set>
#include <string>
#include <vector>

#include "support/server.h"

namespace test {

using Words = std::vector<std::string>;

// The commands of the section, one a line of the file. What each block is for:
struct AclRules {
  std::vector<Words> least{};     // for each role, without the right to EVAL
  std::vector<Words> optional{};  // what some features need
  std::vector<Words> eval{};      // the right to EVAL, for those who may have it
};
const AclRules& readme_rules();

// Of a rule in `least`. role: "producer".
const Words& rule_of(const std::string& role);
std::set<std::string> commands_of(const Words& rule);  // without the +

// A server with a user for each rule in `least`, and orders-all, who has the rights of a producer, a consumer and an
// inspector. The user orders-loader has loaded the scripts, unless told not to.
struct Guarded {
  explicit Guarded(bool loads = true);

  void allow(const std::vector<Words>& rules);
  void load();
  void restart();  // kills it; the users are there again, the scripts are not
  std::string url(const std::string& role) const { return "unix://orders-" + role + ":secret@" + server.socket(); }

  // Commands and keys that were refused since the log was reset.
  std::set<std::string> refused();

  delayqueue::PrivateServer server;
  Redis admin{server.socket()};
};

}  // namespace test
