#include "parse_json.h"

template class nlohmann::basic_json<>;

namespace test {

nlohmann::json parse_json(const std::string& text) { return nlohmann::json::parse(text); }

}  // namespace test
