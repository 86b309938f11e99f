// A running dqctl serve or dqctl metrics --listen, and a check of its answers against openapi.json.
#pragma once

#include <doctest/doctest.h>
#include <httplib.h>

#include "parse_json.h"
#include "run.h"
#include "support/paths.h"
#include "support/text.h"

namespace test {

inline const httplib::Headers kAction = {{"X-Delayqueue-Action", "1"}};

// On 127.0.0.1, at a free port.
class Served {
 public:
  explicit Served(std::vector<std::string> options = {}, const DqctlOptions& environment = {},
                  const std::string& command = "serve")
      : dqctl_(with_port(command, std::move(options)), environment) {
    const std::string before = "listening on http://127.0.0.1:";
    REQUIRE(dqctl_.wait_for(before));
    const std::string text = dqctl_.err();
    port_ = std::stoi(text.substr(text.find(before) + before.size()));
  }

  int port() const { return port_; }
  Dqctl& dqctl() { return dqctl_; }

  httplib::Client client() const {
    httplib::Client client("127.0.0.1", port_);
    client.set_url_encode(false);
    client.set_read_timeout(60);
    return client;
  }

  httplib::Response get(const std::string& path, const httplib::Headers& headers = {}) const {
    return given(client().Get(path, headers), path);
  }

  httplib::Response post(const std::string& path, const std::string& body, const httplib::Headers& headers = kAction,
                         const std::string& type = "application/json") const {
    return given(client().Post(path, headers, body, type), path);
  }

  // The document of an answer with this status.
  nlohmann::json json(const std::string& path, int status = 200) const { return document(get(path), status, path); }
  nlohmann::json change(const std::string& path, const std::string& body, int status = 200) const {
    return document(post(path, body), status, path);
  }

 private:
  static std::vector<std::string> with_port(const std::string& command, std::vector<std::string> options) {
    options.insert(options.begin(), {command, "--listen", "127.0.0.1:0"});
    return options;
  }

  static httplib::Response given(const httplib::Result& result, const std::string& path) {
    INFO(path << ": " << httplib::to_string(result.error()));
    REQUIRE(static_cast<bool>(result));
    return *result;
  }

  static nlohmann::json document(const httplib::Response& response, int status, const std::string& path) {
    INFO(path << ": " << response.body);
    CHECK(response.status == status);
    CHECK(response.get_header_value("Content-Type") == "application/json");
    return parse_json(response.body);
  }

  Dqctl dqctl_;
  int port_ = 0;
};

// The description of the interface.
class OpenApi {
 public:
  OpenApi() : root_(parse_json(content_of(source_path("tools/dqctl/serve/openapi.json")))) {}

  const nlohmann::json& root() const { return root_; }

  // Why the value is not what the schema with this name describes; empty: it is. A field that is not described counts.
  std::string mismatch(const nlohmann::json& value, const std::string& schema) const {
    return mismatch(value, root_["components"]["schemas"][schema], schema);
  }

 private:
  std::string mismatch(const nlohmann::json& value, nlohmann::json schema, const std::string& where) const {
    const bool nullable = schema.value("nullable", false);
    if (schema.contains("$ref")) {
      const std::string name = schema["$ref"].get<std::string>();
      schema = root_["components"]["schemas"][name.substr(name.rfind('/') + 1)];
    }
    if (value.is_null()) return nullable ? "" : where + ": null";
    const std::string type = schema.value("type", "");
    const bool fits = type == "string"    ? value.is_string()
                      : type == "integer" ? value.is_number_integer()
                      : type == "number"  ? value.is_number()
                      : type == "boolean" ? value.is_boolean()
                      : type == "array"   ? value.is_array()
                                          : type == "object" && value.is_object();
    if (!fits) return where + ": " + value.dump() + " is no " + type;
    if (schema.contains("enum")) {
      bool found = false;
      for (const auto& one : schema["enum"]) found = found || one == value;
      if (!found) return where + ": " + value.dump() + " is not in the enum";
    }
    if (type == "array") return mismatch_in_array(value, schema["items"], where);
    return type == "object" ? mismatch_in_object(value, schema, where) : "";
  }

  std::string mismatch_in_array(const nlohmann::json& value, const nlohmann::json& items,
                                const std::string& where) const {
    for (std::size_t i = 0; i < value.size(); ++i) {
      const std::string why = mismatch(value[i], items, where + '[' + std::to_string(i) + ']');
      if (!why.empty()) return why;
    }
    return "";
  }

  std::string mismatch_in_object(const nlohmann::json& value, const nlohmann::json& schema,
                                 const std::string& where) const {
    if (!schema.contains("properties")) return "";
    for (const auto& name : schema["required"]) {
      if (!value.contains(name.get<std::string>())) return where + ": " + name.get<std::string>() + " is missing";
    }
    for (const auto& [name, field] : value.items()) {
      if (!schema["properties"].contains(name)) return where + '.' + name + ": is not described";
      const std::string why = mismatch(field, schema["properties"][name], where + '.' + name);
      if (!why.empty()) return why;
    }
    return "";
  }

  nlohmann::json root_;
};

}  // namespace test
