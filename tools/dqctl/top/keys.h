// What a terminal sends for keys, read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dqctl {

struct Key {
  enum class Kind {
    text,  // a character of UTF-8
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
    control,  // with the letter in text: "c"
  };

  Kind kind = Kind::text;
  std::string text{};
};

// Takes what makes whole keys from the front of the bytes. What may be the beginning of more is left, unless no more
// will come (`complete`): then an escape is a key, and what makes no sense is dropped.
std::vector<Key> take_keys(std::string& bytes, bool complete);

}  // namespace dqctl
