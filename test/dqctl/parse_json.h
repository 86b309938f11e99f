// JSON for the tests of dqctl, compiled once: each file that instantiates nlohmann::json itself takes twice as long.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

extern template class nlohmann::basic_json<>;

namespace test {

// Throws nlohmann::json::parse_error.
nlohmann::json parse_json(const std::string& text);

}  // namespace test
