// Bytes for one write, of which some are only referred to: large payloads are not copied.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace delayqueue::redis {

// A text, with strings in between. Positions are those of the text.
class Gathered {
 public:
  std::string text;

  // Adds a string behind the text so far. It must not change until it is written.
  void refer_to(std::string_view bytes) { strings_.push_back({text.size(), bytes}); }

  // Adds the text from `begin` to `end`, and the strings in it, which are all before its last character.
  void append(const Gathered& other, std::size_t begin, std::size_t end) {
    for (const Referred& one : other.strings_) {
      if (one.at >= begin && one.at < end) strings_.push_back({text.size() + one.at - begin, one.bytes});
    }
    text.append(other.text, begin, end - begin);
  }

  // Views of all bytes, in order; valid until the text changes.
  std::vector<std::string_view> pieces() const {
    std::vector<std::string_view> all;
    all.reserve(2 * strings_.size() + 1);
    std::string_view rest = text;
    std::size_t done = 0;
    for (const Referred& one : strings_) {
      all.push_back(rest.substr(0, one.at - done));
      all.push_back(one.bytes);
      rest.remove_prefix(one.at - done);
      done = one.at;
    }
    all.push_back(rest);
    return all;
  }

 private:
  struct Referred {
    std::size_t at;
    std::string_view bytes;
  };

  std::vector<Referred> strings_;  // in the order of `at`
};

}  // namespace delayqueue::redis
