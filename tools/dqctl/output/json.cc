#include "output/json.h"

#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace dqctl {

std::string json_string(std::string_view text) {
  using nlohmann::json;
  return json_escaped(json(text).dump(-1, ' ', false, json::error_handler_t::replace));
}

Object& Object::put(std::string_view name, std::string_view value) {
  if (!fields_.empty()) fields_ += ',';
  fields_ += json_string(name);
  fields_ += ':';
  fields_ += value;
  return *this;
}

Object& Object::add(std::string_view name, std::string_view bytes) {
  if (is_utf8(bytes)) return put(name, json_string(bytes));
  return put(std::string(name) + "_base64", json_string(base64(bytes)));
}

Object& Object::add(std::string_view name, double value) {
  if (!std::isfinite(value)) return add_null(name);
  std::array<char, 64> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return put(name, {digits.data(), static_cast<std::size_t>(end - digits.data())});
}

Object& Object::add(std::string_view name, const std::vector<Object>& values) {
  std::string list;
  for (const Object& value : values) list += (list.empty() ? "" : ",") + value.text();
  return put(name, '[' + list + ']');
}

Object& Object::add(std::string_view name, const std::vector<std::string>& values) {
  nlohmann::json list = nlohmann::json::array();
  for (const std::string& value : values) list.push_back(is_utf8(value) ? value : printable(value));
  return put(name, json_escaped(list.dump()));
}

Object& Object::append(const Object& other) {
  if (!fields_.empty() && !other.fields_.empty()) fields_ += ',';
  fields_ += other.fields_;
  return *this;
}

}  // namespace dqctl
