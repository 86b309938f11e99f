// Reads untrusted JSON (RFC 8259) from files, requests and payloads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dqctl {

inline constexpr int kDeepestJson = 512;  // levels of nesting; more would overflow the stack

// A value of a JSON text. It keeps how the value is written, because not all that JSON allows has another form: a
// number may be larger than any double, and a text may have half of a surrogate pair. It refers to the text, which must
// outlive it.
class JsonValue {
 public:
  enum class Kind { null, boolean, number, text, array, object };
  using Field = std::pair<std::string, JsonValue>;

  JsonValue(Kind kind, std::string_view written) : kind_(kind), written_(written) {}

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  std::string_view written() const { return written_; }

  // The bytes of a text. Unset: it is no text, or has half of a surrogate pair, which UTF-8 does not have.
  std::optional<std::string> text() const;

  // Unset: it is no whole number, or outside of this range.
  std::optional<std::int64_t> whole_number(std::int64_t least, std::int64_t most) const;

  const std::vector<JsonValue>& items() const { return items_; }  // of an array

  // Of an object, in their order. A name that has no bytes (see text()) is as it is written.
  const std::vector<Field>& fields() const { return fields_; }
  std::string_view written_name(std::size_t i) const { return names_[i]; }
  const JsonValue* find(std::string_view name) const;  // the first one with this name; null: there is none

  // A name that the object has twice. Readers differ in which of the two counts, so it should be refused. Null: none.
  const std::string* repeated() const;

 private:
  friend class JsonReader;

  Kind kind_;
  std::string_view written_;
  std::vector<JsonValue> items_{};
  std::vector<Field> fields_{};
  std::vector<std::string_view> names_{};
};

// What a text without bytes lacks, for an error.
inline constexpr const char* kWholeText = "a text without half of a surrogate pair (\\ud800 to \\udfff)";

enum class JsonFailure { none, no_json, too_deep };

// Accepts any bytes. Unset: not JSON in UTF-8, or nested deeper than kDeepestJson; `why` tells which.
std::optional<JsonValue> read_json(std::string_view text, JsonFailure* why = nullptr);

// The value as text again: in lines with this indent, or in one line if it is negative. Numbers and texts stay as they
// are written.
std::string json_text(const JsonValue& value, int indent);

}  // namespace dqctl
