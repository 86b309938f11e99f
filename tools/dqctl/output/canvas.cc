#include "output/canvas.h"

#include "output/text.h"

namespace dqctl {
namespace {

std::string code_of(const Style& style) {
  std::string code = "\033[0";
  if (style.bold) code += ";1";
  if (style.reverse) code += ";7";
  switch (style.hue) {
    case Hue::none:
      break;
    case Hue::red:
      code += ";31";
      break;
    case Hue::magenta:
      code += ";35";
      break;
  }
  return code + "m";
}

bool is_plain(const Style& style) { return style.hue == Hue::none && !style.bold && !style.reverse; }

}  // namespace

Line& Line::add(std::string_view text, Style style) {
  std::string shown = cut(text, room());
  used_ += dqctl::width_of(shown);
  if (!shown.empty()) spans_.push_back({std::move(shown), style});
  return *this;
}

Line& Line::fill(std::size_t column, Style style) {
  const std::size_t to = std::min(column, width_);
  return to > used_ ? add(std::string(to - used_, ' '), style) : *this;
}

Line& Line::left(std::string_view text, std::size_t width, Style style) {
  const std::size_t end = used_ + width;
  return add(cut(text, width), style).fill(end, style.reverse ? style : kPlain);
}

Line& Line::right(std::string_view text, std::size_t width, Style style) {
  const std::string shown = cut(text, width);
  return fill(used_ + width - dqctl::width_of(shown), style.reverse ? style : kPlain).add(shown, style);
}

std::string Line::bytes(bool styles) const {
  std::string out;
  for (const Span& span : spans_) {
    Style style = span.style;
    if (selected_) style = {Hue::none, style.bold, true};  // coloured text is hard to read in reverse
    const bool plain = !styles || is_plain(style);
    if (!plain) out += code_of(style);
    out += span.text;
    if (!plain) out += "\033[0m";
  }
  if (styles && selected_ && room() > 0) {
    out += code_of({Hue::none, false, true}) + std::string(room(), ' ') + "\033[0m";
  } else if (room() > 0) {
    out += "\033[K";  // at the end of a full line it would erase the last character
  }
  return out;
}

Line& Canvas::line() {
  lines_.emplace_back(size_.columns);
  return lines_.back();
}

void Canvas::skip_to(std::size_t row) {
  while (lines_.size() < row) line();
}

std::vector<std::string> Canvas::rows(bool styles) const {
  std::vector<std::string> out;
  out.reserve(size_.rows);
  for (std::size_t i = 0; i < size_.rows; ++i) out.push_back(i < lines_.size() ? lines_[i].bytes(styles) : "\033[K");
  return out;
}

std::string difference(const std::vector<std::string>& before, const std::vector<std::string>& now) {
  std::string out;
  if (before.size() != now.size()) out += "\033[0m\033[H\033[2J";
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (before.size() == now.size() && before[i] == now[i]) continue;
    out += "\033[" + std::to_string(i + 1) + ";1H" + now[i];
  }
  return out;
}

}  // namespace dqctl
