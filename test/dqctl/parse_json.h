// JSON for the tests of dqctl, compiled once: each file that instantiates nlohmann::json itself takes twice as long.
#pragma once

#include <nlohmann/json.hpp>

#include "support/text.h"

extern template class nlohmann::basic_json<>;

namespace test {

// Throws nlohmann::json::parse_error.
nlohmann::json parse_json(const std::string& text);

// Whether the object has at least these members with these values. Converts to bool; a failed CHECK prints the object.
TextSearch holds(const nlohmann::json& object, const nlohmann::json& members);

}  // namespace test
