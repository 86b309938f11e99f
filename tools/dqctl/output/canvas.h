// A screen of styled lines, and the bytes that update a terminal from one screen to the next.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dqctl {

struct Size {
  std::size_t columns = 80;
  std::size_t rows = 24;
};

inline bool operator!=(const Size& a, const Size& b) { return a.columns != b.columns || a.rows != b.rows; }

// Readable on dark and on light backgrounds. red: errors; magenta: warnings.
enum class Hue { none, red, magenta };

struct Style {
  Hue hue = Hue::none;
  bool bold = false;
  bool reverse = false;
};

inline constexpr Style kPlain{};
inline constexpr Style kBold{Hue::none, true, false};
inline constexpr Style kBar{Hue::none, true, true};
inline constexpr Style kWrong{Hue::red, true, false};
inline constexpr Style kNotable{Hue::magenta, true, false};

// One line of a screen, cut at its width. Text must be printable().
class Line {
 public:
  explicit Line(std::size_t width) : width_(width) {}

  Line& add(std::string_view text, Style style = kPlain);
  Line& fill(std::size_t column, Style style = kPlain);                        // spaces up to a column, counted from 0
  Line& left(std::string_view text, std::size_t width, Style style = kPlain);  // cut and padded to the width
  Line& right(std::string_view text, std::size_t width, Style style = kPlain);

  // Marks the line as selected: all in reverse, without hues.
  void select() { selected_ = true; }

  std::size_t used() const { return used_; }
  std::size_t room() const { return width_ - used_; }

  // The bytes for the terminal; `styles` false: without styles.
  std::string bytes(bool styles) const;

 private:
  struct Span {
    std::string text;
    Style style;
  };

  std::size_t width_;
  std::size_t used_ = 0;
  bool selected_ = false;
  std::vector<Span> spans_{};
};

class Canvas {
 public:
  explicit Canvas(Size size) : size_(size) {}

  Size size() const { return size_; }
  std::size_t used() const { return lines_.size(); }
  std::size_t left() const { return size_.rows - std::min(size_.rows, lines_.size()); }

  // Adds a line. The reference is valid until the next call.
  Line& line();
  void skip_to(std::size_t row);  // adds empty lines up to it

  // One entry for each row of the screen.
  std::vector<std::string> rows(bool styles) const;

 private:
  Size size_;
  std::vector<Line> lines_{};
};

// The bytes that change the screen from `before` to `now`. Screens of different sizes are cleared first.
std::string difference(const std::vector<std::string>& before, const std::vector<std::string>& now);

}  // namespace dqctl
