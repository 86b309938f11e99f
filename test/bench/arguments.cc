#include "bench/arguments.h"

namespace bench {
namespace {

std::vector<std::string> part_names(const std::string& list) {
  std::vector<std::string> names;
  std::istringstream words(list);
  for (std::string name; std::getline(words, name, ',');) names.push_back(name);
  for (const std::string& name : names) {
    const auto same = [&](const Part& part) { return part.name == name; };
    if (std::any_of(parts().begin(), parts().end(), same)) continue;
    std::string known;
    for (const Part& part : parts()) known += (known.empty() ? "" : ", ") + part.name;
    throw std::invalid_argument("--only: no part '" + name + "'; expected one of " + known);
  }
  if (names.empty()) throw std::invalid_argument("--only: expected names of parts, separated by commas");
  return names;
}

}  // namespace

bool Arguments::wants(const Part& part) const {
  if (!only.empty()) return std::find(only.begin(), only.end(), part.name) != only.end();
  if (scale.name == "tiny") return true;
  return part.runs == Runs::all || (part.runs == Runs::full && scale.name == "full");
}

Arguments arguments_of(int count, char** words) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&]() -> std::string {
      if (i + 1 >= count) throw std::invalid_argument(word + ": expected a value after it");
      return words[++i];
    };
    if (word == "--quick") {
      arguments.scale = quick();
    } else if (word == "--tiny") {
      arguments.scale = tiny();
    } else if (word == "--only") {
      arguments.only = part_names(value());
    } else if (word == "--peers") {
      arguments.peers = value();
    } else {
      throw std::invalid_argument(word + ": unknown option; scripts/bench.sh -h lists the options");
    }
  }
  return arguments;
}

}  // namespace bench
