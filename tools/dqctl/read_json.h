// Parses untrusted JSON from files and payloads.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace dqctl {

inline constexpr int kDeepestJson = 512;  // levels of nesting; more would overflow the stack

// Whether the nesting is deeper than kDeepestJson. Accepts any bytes.
bool is_too_deep(std::string_view json);

// Unset: not JSON, or nested too deep.
template <class Json = nlohmann::json>
std::optional<Json> read_json(std::string_view text) {
  if (is_too_deep(text)) return std::nullopt;
  Json value = Json::parse(text, nullptr, false);
  if (value.is_discarded()) return std::nullopt;
  return value;
}

}  // namespace dqctl
