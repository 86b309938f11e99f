#include "support/acl.h"
#include "support/regex.h"

#include "support/paths.h"

namespace test {
namespace {

std::vector<std::vector<Words>> documented_blocks() {
  std::ifstream file(source_path("docs/operations.md"));
  std::string text{std::istreambuf_iterator<char>(file), {}};
  text = text.substr(text.find("\n## The smallest ACL rule\n") + 4);
  text = text.substr(0, text.find("\n## "));
  text = replaced(text, R"(\\\n)", "");
  std::vector<std::vector<Words>> blocks;
  std::istringstream lines(text);
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("```", 0) == 0) {
      inside = !inside && line == "```";
      if (inside) blocks.emplace_back();
    } else if (inside) {
      std::istringstream words(replaced(line, "PASSWORD", "secret"));
      blocks.back().emplace_back(std::istream_iterator<std::string>(words), std::istream_iterator<std::string>());
    }
  }
  return blocks;
}

}  // namespace

const AclRules& documented_rules() {
  static const AclRules rules = [] {
    const auto blocks = documented_blocks();
    return AclRules{blocks.at(0), blocks.at(1), blocks.at(2)};
  }();
  return rules;
}

const Words& rule_of(const std::string& role) {
  for (const Words& words : documented_rules().least) {
    if (words.at(2) == "orders-" + role) return words;
  }
  throw std::logic_error("docs/operations.md has no rule for " + role);
}

std::set<std::string> commands_of(const Words& rule) {
  std::set<std::string> found;
  for (const std::string& word : rule) {
    if (word.front() == '+') found.insert(word.substr(1));
  }
  return found;
}

Guarded::Guarded(bool loads) {
  allow(documented_rules().least);
  for (const char* role : {"producer", "consumer", "inspector"}) {
    Words words = rule_of(role);
    words[2] = "orders-all";
    allow({words});
  }
  if (loads) load();
}

void Guarded::allow(const std::vector<Words>& rules) {
  for (const Words& words : rules) {
    const Reply reply = admin.cmd(words);
    if (reply != "OK") throw std::runtime_error("ACL SETUSER " + words.at(2) + ": " + reply.text);
  }
}

void Guarded::load() {
  for (const delayqueue::ServerScripts& one : delayqueue::load_scripts(url("loader"))) {
    if (!one.error.empty()) throw std::runtime_error(one.error);
  }
}

void Guarded::restart() {
  server.kill();
  server.restart();
  admin = Redis(server.socket());
  allow(documented_rules().least);
}

std::set<std::string> Guarded::refused() {
  std::set<std::string> found;
  for (const Reply& entry : admin.cmd({"ACL", "LOG", "128"}).array) {
    const auto fields = entry.strings();
    for (std::size_t i = 0; i + 1 < fields.size(); i += 2) {
      if (fields[i] == "object") found.insert(fields[i + 1]);
    }
  }
  return found;
}

}  // namespace test
