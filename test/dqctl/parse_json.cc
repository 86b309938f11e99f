#include "parse_json.h"

template class nlohmann::basic_json<>;

namespace test {

using nlohmann::json;

constexpr auto kReplace = json::error_handler_t::replace;  // of bytes that are no UTF-8

json parse_json(const std::string& text) { return json::parse(text); }

TextSearch holds(const json& object, const json& members) {
  bool all = object.is_object();
  for (const auto& [name, value] : members.items()) all = all && object.contains(name) && object.at(name) == value;
  return {all, members.dump(-1, ' ', true, kReplace), object.dump(-1, ' ', true, kReplace)};
}

}  // namespace test
