#include "lines.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "exit.h"
#include "filter.h"
#include "output/text.h"
#include "parse.h"
#include "read_json.h"

namespace dqctl {
namespace {

using delayqueue::MessageInfo;
using delayqueue::State;
using Kind = JsonValue::Kind;

std::optional<std::string> from_base64(std::string_view text) {
  const auto value = [](char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
  };
  if (text.size() % 4 != 0) return std::nullopt;
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const bool last = i + 4 == text.size();
    const int padding = last && text[i + 3] == '=' ? (text[i + 2] == '=' ? 2 : 1) : 0;
    unsigned bits = 0;
    for (int k = 0; k < 4; ++k) {
      const int six = k >= 4 - padding ? 0 : value(text[i + static_cast<std::size_t>(k)]);
      if (six < 0) return std::nullopt;
      bits = bits << 6 | static_cast<unsigned>(six);
    }
    for (int k = 0; k < 3 - padding; ++k) bytes += static_cast<char>(bits >> (16 - 8 * k) & 0xFF);
  }
  return bytes;
}

// The object refers to the line.
JsonValue parsed(const std::string& line) {
  JsonFailure why{};
  auto object = read_json(line, &why);
  if (why == JsonFailure::too_deep) {
    throw BadLine("is nested deeper than " + std::to_string(kDeepestJson) + " levels");
  }
  const std::string shown = printable(cut(line.substr(0, 240), 60));
  if (!object) throw BadLine("is no JSON: " + shown);
  if (!object->is(Kind::object)) throw BadLine("is no JSON object: " + shown);
  if (const std::string* const name = object->repeated()) {
    throw BadLine("field " + in_quotes(*name) + " is there twice");
  }
  return std::move(*object);
}

[[noreturn]] void wrong(const char* field, const JsonValue& value, const char* expected) {
  const std::string given(value.written().substr(0, 240));
  throw BadLine(std::string(field) + ": " + printable(cut(given, 60)) + "; expected " + expected);
}

// The value of a field. Null counts as missing.
const JsonValue* field(const JsonValue& object, const char* name) {
  const JsonValue* const value = object.find(name);
  return value == nullptr || value->is(Kind::null) ? nullptr : value;
}

std::optional<std::string> text(const JsonValue& object, const char* name) {
  const JsonValue* value = field(object, name);
  if (value == nullptr) return std::nullopt;
  if (!value->is(Kind::text)) wrong(name, *value, "a text");
  auto bytes = value->text();
  if (!bytes) wrong(name, *value, kWholeText);
  return bytes;
}

// The bytes of a field, or of <name>_base64 decoded.
std::optional<std::string> bytes(const JsonValue& object, const char* name) {
  const std::string coded = std::string(name) + "_base64";
  const auto code = text(object, coded.c_str());
  if (!code) return text(object, name);
  if (field(object, name) != nullptr) throw BadLine(std::string(name) + " and " + coded + ": expected one of them");
  auto decoded = from_base64(*code);
  if (!decoded) wrong(coded.c_str(), *field(object, coded.c_str()), "base64");
  return decoded;
}

std::optional<long long> number(const JsonValue& object, const char* name, long long most) {
  const JsonValue* value = field(object, name);
  if (value == nullptr) return std::nullopt;
  const auto number = value->whole_number(0, most);
  if (!number) wrong(name, *value, ("a whole number from 0 to " + std::to_string(most)).c_str());
  return *number;
}

std::optional<bool> boolean(const JsonValue& object, const char* name) {
  const JsonValue* const value = field(object, name);
  if (value == nullptr) return std::nullopt;
  if (!value->is(Kind::boolean)) wrong(name, *value, "true or false");
  return value->written() == "true";
}

constexpr long long kMostCount = 2'147'483'647;
constexpr long long kMostPartition = 255;
constexpr long long kMostMs = 36'525LL * 86'400'000;  // 100 years

std::string wanted_id(const JsonValue& object) {
  const auto id = text(object, "id");
  if (!id) throw BadLine("id: missing");
  if (!is_id(*id)) wrong("id", *field(object, "id"), "a UUID");
  return *id;
}

// The field headers: a list of objects with name, and value or value_base64.
// `stored`: of a message that was exported, which may have reserved names.
std::optional<delayqueue::Headers> headers_in(const JsonValue& object, bool stored) {
  const JsonValue* const list = field(object, "headers");
  if (list == nullptr) return std::nullopt;
  constexpr const char* kExpected = "a list of objects, each with name, and value or value_base64";
  if (!list->is(Kind::array)) wrong("headers", *list, kExpected);
  delayqueue::Headers headers;
  for (const JsonValue& one : list->items()) {
    if (one.repeated() != nullptr) throw BadLine("headers: field " + in_quotes(*one.repeated()) + " is there twice");
    const auto name = one.is(Kind::object) ? text(one, "name") : std::nullopt;
    auto value = name ? bytes(one, "value") : std::nullopt;
    if (!value) wrong("headers", one, kExpected);
    if (headers.find(*name) != nullptr) throw BadLine("headers: " + in_quotes(*name) + " is there twice");
    try {
      stored ? headers.set_stored(*name, std::move(*value)) : headers.set(*name, std::move(*value));
    } catch (const std::invalid_argument& error) {
      throw BadLine(std::string("headers: ") + error.what());
    }
  }
  return headers;
}

// Turns a Usage of the argument parser into a BadLine.
template <class Parse>
auto as_line(Parse parse) {
  try {
    return parse();
  } catch (const Usage& error) {
    throw BadLine(error.what());
  }
}

std::optional<milliseconds> span(const JsonValue& object, const char* name) {
  const std::string in_ms = std::string(name) + "_ms";
  const auto ms = number(object, in_ms.c_str(), kMostMs);
  const auto words = text(object, name);
  if (ms && words) throw BadLine(std::string(name) + " and " + in_ms + ": expected one of them");
  if (ms) return milliseconds(*ms);
  if (!words) return std::nullopt;
  return as_line([&] { return parse_duration(name, *words); });
}

void check_known(const JsonValue& object, std::initializer_list<const char*> known) {
  for (const auto& [name, value] : object.fields()) {
    bool found = false;
    for (const char* one : known) found = found || name == one;
    if (!found) {
      throw BadLine("field " + in_quotes(name) +
                    " is not a field of send; use `dqctl import` for lines that `export` wrote");
    }
  }
}

}  // namespace

std::optional<delayqueue::OnConflict> conflict_in(std::string_view text) {
  using delayqueue::OnConflict;
  if (text == "keep") return OnConflict::keep;
  if (text == "replace") return OnConflict::replace;
  if (text == "postpone") return OnConflict::postpone;
  return std::nullopt;
}

bool is_id(std::string_view text) {
  if (text.size() != 36) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    const char c = text[i];
    const bool digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    if (dash ? c != '-' : !digit) return false;
  }
  return true;
}

bool is_stored_id(std::string_view text) {
  return is_id(text) && std::none_of(text.begin(), text.end(), [](char c) { return c >= 'A' && c <= 'F'; });
}

std::string id_in(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(" \t");
  if (begin != std::string::npos && line[begin] == '{') return wanted_id(parsed(line));
  std::string id = line.substr(begin == std::string::npos ? 0 : begin);
  id.erase(id.find_last_not_of(" \t") + 1);
  if (!is_id(id)) throw BadLine(in_quotes(cut(id, 60)) + " is no id; expected a UUID, or JSON with one");
  return id;
}

MessageInfo message_in(const std::string& line) {
  const JsonValue object = parsed(line);
  MessageInfo message;
  message.id = wanted_id(object);
  const auto state = text(object, "state");
  if (!state) throw BadLine("state: missing");
  message.state = as_line([&] { return parse_state("state", *state); });
  if (const auto at = text(object, "at")) {
    message.at = as_line([&] { return parse_when("at", *at); }).at;
    if (!message.at) wrong("at", *field(object, "at"), "a time such as 2026-11-21T19:36:45Z");
  }
  if (!message.at && (message.state == State::pending || message.state == State::dead)) throw BadLine("at: missing");
  message.held = boolean(object, "held").value_or(false);
  message.deliveries = static_cast<int>(number(object, "deliveries", kMostCount).value_or(0));
  if (const auto retries = number(object, "retries", kMostCount)) message.retries = static_cast<int>(*retries);
  if (!message.retries && message.state != State::dead) throw BadLine("retries: missing");
  message.reason = bytes(object, "reason").value_or("");
  if (const auto ttl = number(object, "ttl_ms", kMostMs)) message.ttl = milliseconds(*ttl);
  // The TTL counts from the import. A minute less, since the clock of Redis, by which the message is due, may differ.
  if (message.ttl && message.state == State::pending &&
      *message.ttl < *message.at - std::chrono::system_clock::now() - std::chrono::minutes(1)) {
    throw BadLine("ttl_ms: " + std::to_string(message.ttl->count()) +
                  " ends before the message is due, so it would never be delivered; give it at least the time until " +
                  "\"at\", or leave it out");
  }
  message.partition = static_cast<unsigned>(number(object, "partition", kMostPartition).value_or(0));
  message.headers = headers_in(object, true).value_or(delayqueue::Headers());
  message.key = bytes(object, "key").value_or("");
  const JsonValue* const null = object.find("payload");
  const bool is_null = null != nullptr && null->is(Kind::null) && field(object, "payload_base64") == nullptr;
  if (is_null) wrong("payload", *null, "a text, or payload_base64");
  auto payload = bytes(object, "payload");
  if (!payload) throw BadLine("payload: missing; `dqctl export` writes whole payloads");
  const auto size = number(object, "size", kMostMs);
  if (size && static_cast<std::uint64_t>(*size) != payload->size()) {
    throw BadLine("payload: " + counted(payload->size(), "byte") + ", but \"size\" is " + count_text(*size) +
                  "; if the payload was edited, delete the field size");
  }
  message.payload = std::move(*payload);
  message.size = message.payload.size();
  return message;
}

std::string line_of(const MessageInfo& message) { return message_object(message, "payload").text(); }

delayqueue::OutgoingMessage draft_in(const std::string& line, const delayqueue::SendOptions& options) {
  const JsonValue object = parsed(line);
  check_known(object, {"payload", "payload_base64", "id", "delay", "delay_ms", "at", "retries", "ttl", "ttl_ms",
                       "headers", "key", "key_base64", "on_conflict", "while_in_flight", "window", "window_ms",
                       "max_wait", "max_wait_ms"});
  delayqueue::OutgoingMessage message;
  message.options = options;
  const JsonValue* payload = object.find("payload");
  if (payload != nullptr && !payload->is(Kind::text) && field(object, "payload_base64") == nullptr) {
    message.payload = payload->written();  // numbers keep all digits, keys their order
  } else if (auto raw = bytes(object, "payload")) {
    message.payload = std::move(*raw);
  } else {
    throw BadLine("payload: missing");
  }
  if (field(object, "id") != nullptr) message.options.id = wanted_id(object);
  const auto delay = span(object, "delay");
  const auto at = text(object, "at");
  if (delay && at) throw BadLine("delay and at: expected one of them");
  if (delay || at) {
    const When when = at ? as_line([&] { return parse_when("at", *at); }) : When{std::nullopt, *delay};
    message.options.delay = when.delay;
    message.options.at = when.at;
  }
  if (const auto retries = number(object, "retries", kMostCount)) message.options.retries = static_cast<int>(*retries);
  if (const auto ttl = span(object, "ttl")) message.options.ttl = ttl;
  if (auto headers = headers_in(object, false)) message.options.headers = std::move(*headers);
  delayqueue::UniqueOptions& unique = message.options.unique;
  if (auto key = bytes(object, "key")) unique.key = std::move(*key);
  if (const auto name = text(object, "on_conflict")) {
    const auto conflict = conflict_in(*name);
    if (!conflict) wrong("on_conflict", *field(object, "on_conflict"), "keep, replace or postpone");
    unique.on_conflict = *conflict;
  }
  if (const auto in_flight = boolean(object, "while_in_flight")) unique.while_in_flight = *in_flight;
  if (const auto window = span(object, "window")) unique.window = *window;
  if (const auto max_wait = span(object, "max_wait")) unique.max_wait = max_wait;
  return message;
}

}  // namespace dqctl
