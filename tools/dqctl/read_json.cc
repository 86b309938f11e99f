#include "read_json.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "output/text.h"

namespace dqctl {
namespace {

constexpr unsigned kNoCode = 0x110000;  // no code point

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The number after \u. Unset: these are not four hex digits.
std::optional<unsigned> code_unit(std::string_view digits) {
  unsigned unit = 0;
  digits = digits.substr(0, 4);
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), unit, 16).ptr;
  return digits.size() == 4 && end == digits.data() + 4 ? std::optional(unit) : std::nullopt;
}

bool is_high_surrogate(unsigned unit) { return unit >= 0xD800 && unit < 0xDC00; }
bool is_low_surrogate(unsigned unit) { return unit >= 0xDC00 && unit < 0xE000; }

void add_utf8(std::string& bytes, unsigned code) {
  const auto add = [&](unsigned byte) { bytes += static_cast<char>(byte); };
  const auto add_rest = [&](unsigned shift) { add(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) return add(code);
  add(code < 0x800 ? 0xC0 | code >> 6 : code < 0x10000 ? 0xE0 | code >> 12 : 0xF0 | code >> 18);
  if (code >= 0x10000) add_rest(12);
  if (code >= 0x800) add_rest(6);
  add_rest(0);
}

// Takes one escape, which is valid, from the front. kNoCode: half of a surrogate pair.
unsigned take_escape(std::string_view& rest) {
  const char letter = rest[1];
  rest.remove_prefix(2);
  if (letter == 'u') {
    const unsigned unit = *code_unit(rest);
    rest.remove_prefix(4);
    if (is_low_surrogate(unit)) return kNoCode;
    if (!is_high_surrogate(unit)) return unit;
    if (rest.substr(0, 2) != "\\u") return kNoCode;
    const unsigned low = code_unit(rest.substr(2)).value_or(0);
    if (!is_low_surrogate(low)) return kNoCode;
    rest.remove_prefix(6);
    return 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
  }
  constexpr std::string_view kLetters = "bfnrt", kMeant = "\b\f\n\r\t";
  const std::size_t at = kLetters.find(letter);
  return static_cast<unsigned char>(at == std::string_view::npos ? letter : kMeant[at]);
}

}  // namespace

// A recursive parser. Its depth is bounded by kDeepestJson.
class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  std::optional<JsonValue> read() {
    if (text_.substr(0, 3) == "\xEF\xBB\xBF") at_ = 3;  // a byte order mark
    auto value = this->value(0);
    skip_blanks();
    return value && at_ == text_.size() ? std::move(value) : std::nullopt;
  }

  bool too_deep() const { return too_deep_; }

 private:
  using Kind = JsonValue::Kind;

  void skip_blanks() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }

  bool skip(char c) {
    const bool there = at_ < text_.size() && text_[at_] == c;
    if (there) ++at_;
    return there;
  }

  bool skip_digits() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    return at_ > begin;
  }

  std::optional<JsonValue> value(int depth) {
    skip_blanks();
    const std::size_t begin = at_;
    JsonValue value(Kind::null, {});
    if (!fill(value, depth)) return std::nullopt;
    value.written_ = text_.substr(begin, at_ - begin);
    return value;
  }

  bool fill(JsonValue& value, int depth) {
    const char first = at_ < text_.size() ? text_[at_] : '\0';
    if (first == '[' || first == '{') {
      too_deep_ = too_deep_ || depth == kDeepestJson;
      ++at_;
      value.kind_ = first == '[' ? Kind::array : Kind::object;
      return !too_deep_ && (first == '[' ? items(value, depth + 1) : fields(value, depth + 1));
    }
    if (first == '"') {
      value.kind_ = Kind::text;
      return text();
    }
    for (const auto& [word, kind] :
         {std::pair("null", Kind::null), std::pair("true", Kind::boolean), std::pair("false", Kind::boolean)}) {
      const std::string_view name = word;
      if (text_.substr(at_, name.size()) != name) continue;
      value.kind_ = kind;
      at_ += name.size();
      return true;
    }
    value.kind_ = Kind::number;
    return number();
  }

  bool items(JsonValue& value, int depth) {
    skip_blanks();
    if (skip(']')) return true;
    do {
      auto item = this->value(depth);
      if (!item) return false;
      value.items_.push_back(std::move(*item));
      skip_blanks();
    } while (skip(','));
    return skip(']');
  }

  bool fields(JsonValue& value, int depth) {
    skip_blanks();
    if (skip('}')) return true;
    do {
      skip_blanks();
      const std::size_t begin = at_;
      if (!text()) return false;
      const JsonValue name(Kind::text, text_.substr(begin, at_ - begin));
      skip_blanks();
      if (!skip(':')) return false;
      auto field = this->value(depth);
      if (!field) return false;
      value.names_.push_back(name.written());
      value.fields_.emplace_back(name.text().value_or(std::string(name.written())), std::move(*field));
      skip_blanks();
    } while (skip(','));
    return skip('}');
  }

  bool text() {
    if (!skip('"')) return false;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (static_cast<unsigned char>(text_[at_]) < ' ') return false;
      if (skip('\\')) {
        const char letter = at_ < text_.size() ? text_[at_] : '\0';
        if (letter == '\0' || std::string_view("\"\\/bfnrtu").find(letter) == std::string_view::npos) return false;
        if (letter == 'u' && !code_unit(text_.substr(at_ + 1))) return false;
      }
      ++at_;
    }
    return skip('"');
  }

  bool number() {
    skip('-');
    if (!skip('0') && !skip_digits()) return false;
    if (skip('.') && !skip_digits()) return false;
    if (!skip('e') && !skip('E')) return true;
    if (!skip('+')) skip('-');
    return skip_digits();
  }

  const std::string_view text_;
  std::size_t at_ = 0;
  bool too_deep_ = false;
};

std::optional<std::string> JsonValue::text() const {
  if (kind_ != Kind::text) return std::nullopt;
  std::string bytes;
  for (std::string_view rest = written_.substr(1, written_.size() - 2); !rest.empty();) {
    const std::size_t plain = std::min(rest.find('\\'), rest.size());
    bytes += rest.substr(0, plain);
    rest.remove_prefix(plain);
    if (rest.empty()) break;
    const unsigned code = take_escape(rest);
    if (code == kNoCode) return std::nullopt;
    add_utf8(bytes, code);
  }
  return bytes;
}

std::optional<std::int64_t> JsonValue::whole_number(std::int64_t least, std::int64_t most) const {
  if (kind_ != Kind::number) return std::nullopt;
  std::int64_t number = 0;
  const char* const end = written_.data() + written_.size();
  const auto [stop, error] = std::from_chars(written_.data(), end, number);
  const bool fits = error == std::errc() && stop == end && number >= least && number <= most;
  return fits ? std::optional(number) : std::nullopt;
}

const JsonValue* JsonValue::find(std::string_view name) const {
  const auto found = std::find_if(fields_.begin(), fields_.end(), [&](const Field& one) { return one.first == name; });
  return found == fields_.end() ? nullptr : &found->second;
}

const std::string* JsonValue::repeated() const {
  std::set<std::string_view> seen;
  for (const Field& one : fields_) {
    if (!seen.insert(one.first).second) return &one.first;
  }
  return nullptr;
}

std::optional<JsonValue> read_json(std::string_view text, JsonFailure* why) {
  JsonReader reader(text);
  auto value = is_utf8(text) ? reader.read() : std::nullopt;
  if (why != nullptr) {
    *why = value ? JsonFailure::none : reader.too_deep() ? JsonFailure::too_deep : JsonFailure::no_json;
  }
  return value;
}

namespace {

void add_text(std::string& out, const JsonValue& value, int indent, int depth) {
  const bool is_object = value.is(JsonValue::Kind::object);
  if (!is_object && !value.is(JsonValue::Kind::array)) {
    out += value.written();
    return;
  }
  const auto new_line = [&](int levels) {
    if (indent >= 0) out.append(1, '\n').append(static_cast<std::size_t>(indent * levels), ' ');
  };
  const std::size_t count = is_object ? value.fields().size() : value.items().size();
  out += is_object ? '{' : '[';
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) out += ',';
    new_line(depth + 1);
    if (is_object) out += std::string(value.written_name(i)) + (indent >= 0 ? ": " : ":");
    add_text(out, is_object ? value.fields()[i].second : value.items()[i], indent, depth + 1);
  }
  if (count > 0) new_line(depth);
  out += is_object ? '}' : ']';
}

}  // namespace

std::string json_text(const JsonValue& value, int indent) {
  std::string out;
  add_text(out, value, indent, 0);
  return out;
}

}  // namespace dqctl
