// Writes the fields of a JSON object in the order of the calls. A value that is not UTF-8 is written as base64, in the
// field <name>_base64. The fields are text, not a tree of nlohmann::json: a document of a million elements is written
// in parts, and numbers keep their shortest form (5, not 5.0).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "output/text.h"

namespace dqctl {

// A JSON string, in quotes. Characters that are unsafe on a terminal are escaped. Bytes that are not UTF-8 become
// U+FFFD.
std::string json_string(std::string_view text);

class Object {
 public:
  Object& add(std::string_view name, std::string_view bytes);
  Object& add(std::string_view name, const std::string& bytes) { return add(name, std::string_view(bytes)); }
  Object& add(std::string_view name, const char* bytes) { return add(name, std::string_view(bytes)); }
  Object& add(std::string_view name, bool value) { return put(name, value ? "true" : "false"); }
  Object& add(std::string_view name, double value);
  Object& add(std::string_view name, Time when) { return put(name, json_string(utc_text(when))); }
  Object& add(std::string_view name, const Object& value) { return put(name, value.text()); }
  Object& add(std::string_view name, const std::vector<Object>& values);
  Object& add(std::string_view name, const std::vector<std::string>& values);  // not UTF-8: as printable()
  Object& add_json(std::string_view name, std::string_view json) { return put(name, json); }
  Object& add_null(std::string_view name) { return put(name, "null"); }

  template <class Integer, std::enable_if_t<std::is_integral_v<Integer>, int> = 0>
  Object& add(std::string_view name, Integer value) {
    return put(name, std::to_string(value));
  }

  // null if unset.
  template <class Value>
  Object& add(std::string_view name, const std::optional<Value>& value) {
    return value ? add(name, *value) : add_null(name);
  }

  // Adds all fields of the other object.
  Object& append(const Object& other);

  std::string text() const { return '{' + fields_ + '}'; }
  const std::string& fields() const { return fields_; }  // "a":1,"b":2

 private:
  Object& put(std::string_view name, std::string_view value);

  std::string fields_;
};

}  // namespace dqctl
