#include "top/keys.h"

#include <algorithm>
#include <optional>

#include "output/text.h"

namespace dqctl {
namespace {

using Kind = Key::Kind;

struct Taken {
  std::size_t length = 0;  // 0: more bytes are needed
  std::optional<Key> key{};
};

struct Sequence {
  const char* bytes;  // that follow the escape byte
  Kind kind;
};

constexpr Sequence kSequences[] = {
    {"[A", Kind::up},   {"[B", Kind::down},  {"[C", Kind::right}, {"[D", Kind::left},     {"OA", Kind::up},
    {"OB", Kind::down}, {"OC", Kind::right}, {"OD", Kind::left},  {"[5~", Kind::page_up}, {"[6~", Kind::page_down},
    {"[H", Kind::home}, {"[F", Kind::end},   {"OH", Kind::home},  {"OF", Kind::end},      {"[1~", Kind::home},
    {"[4~", Kind::end}, {"[7~", Kind::home}, {"[8~", Kind::end},  {"[Z", Kind::back_tab}, {"OM", Kind::enter}};

// The length of a sequence: ESC [ parameters final, or ESC O final. 0: it is incomplete.
std::size_t sequence_length(std::string_view bytes) {
  if (bytes.size() < 3) return 0;
  if (bytes[1] == 'O') return 3;
  for (std::size_t i = 2; i < bytes.size(); ++i) {
    if (bytes[i] >= 0x40 && bytes[i] <= 0x7E) return i + 1;
  }
  return 0;
}

Taken take_escape(std::string_view bytes, bool complete) {
  Taken alone{1, Key{Kind::escape, {}}};
  if (bytes.size() < 2) return complete ? alone : Taken{};
  if (bytes[1] != '[' && bytes[1] != 'O') return alone;
  const std::size_t length = sequence_length(bytes);
  if (length == 0) return complete ? Taken{bytes.size(), std::nullopt} : Taken{};
  for (const Sequence& known : kSequences) {
    if (bytes.substr(1, length - 1) == known.bytes) return {length, Key{known.kind, {}}};
  }
  return {length, std::nullopt};  // a key that dqctl does not use
}

Taken take_control(char byte) {
  switch (byte) {
    case '\t':
      return {1, Key{Kind::tab, {}}};
    case '\r':
    case '\n':
      return {1, Key{Kind::enter, {}}};
    case '\b':
    case '\x7f':
      return {1, Key{Kind::backspace, {}}};
    default:
      return {1, Key{Kind::control, std::string(1, static_cast<char>(byte + 'a' - 1))}};
  }
}

Taken take_text(std::string_view bytes, bool complete) {
  const auto lead = static_cast<unsigned char>(bytes.front());
  const std::size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (bytes.size() < length && !complete) return {};
  const std::string_view text = bytes.substr(0, length);
  if (!is_utf8(text)) return {1, std::nullopt};
  return {length, Key{Kind::text, std::string(text)}};
}

Taken take_key(std::string_view bytes, bool complete) {
  if (bytes.front() == '\033') return take_escape(bytes, complete);
  const auto byte = static_cast<unsigned char>(bytes.front());
  return byte < 0x20 || byte == 0x7F ? take_control(bytes.front()) : take_text(bytes, complete);
}

}  // namespace

std::vector<Key> take_keys(std::string& bytes, bool complete) {
  std::vector<Key> keys;
  while (!bytes.empty()) {
    Taken taken = take_key(bytes, complete);
    if (taken.length == 0) break;
    if (taken.key) keys.push_back(std::move(*taken.key));
    bytes.erase(0, taken.length);
  }
  return keys;
}

}  // namespace dqctl
