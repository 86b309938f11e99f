// Decodes the bytes that a terminal sends for key presses.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dqctl {

struct Key {
  enum class Kind {
    text,  // one UTF-8 character
    up,
    down,
    page_up,
    page_down,
    home,
    end,
    left,
    right,
    tab,
    back_tab,
    enter,
    escape,
    backspace,
    control,  // Ctrl with another key, which is in text: "c"
  };

  Kind kind = Kind::text;
  std::string text{};
};

// Removes complete keys from the front of `bytes` and returns them. The beginning of a sequence stays in `bytes`,
// unless `complete` says that no more bytes follow: then a lone escape byte is the escape key, and any other
// incomplete sequence is dropped.
std::vector<Key> take_keys(std::string& bytes, bool complete);

}  // namespace dqctl
