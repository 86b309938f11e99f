#include "output/table.h"

#include <algorithm>
#include <utility>

namespace dqctl {
namespace {

constexpr std::size_t kBufferedRows = 1000;
constexpr std::size_t kGap = 2;
constexpr std::size_t kLeastWidth = 6;   // of a cut column, on any terminal
constexpr std::size_t kLeastFirst = 36;  // of the first column: an id is not cut

}  // namespace

Listing::Listing(Output& output, std::vector<Column> columns, std::string list, Object head)
    : output_(output), columns_(std::move(columns)), list_(std::move(list)), head_(std::move(head)) {
  for (const Column& column : columns_) widths_.push_back(width_of(column.title));
}

Listing::~Listing() {
  try {
    flush();
  } catch (...) {  // the first exception is reported
  }
}

void Listing::add(std::vector<Cell> row, const Object& object) {
  switch (output_.format()) {
    case Format::ndjson:
      output_.object(object);
      return;
    case Format::json:
      begin_document();
      output_.element(object);
      return;
    case Format::table:
      break;
  }
  row.resize(columns_.size());
  rows_.push_back(std::move(row));
  if (rows_.size() >= kBufferedRows) flush();
}

void Listing::begin_document() {
  if (begun_) return;
  begun_ = true;
  output_.begin_list(head_, list_);
}

void Listing::flush() {
  if (output_.is_table()) {
    for (const auto& row : rows_) {
      for (std::size_t i = 0; i < row.size(); ++i) widths_[i] = std::max(widths_[i], width_of(row[i].text));
    }
    if (!begun_ && !rows_.empty()) {
      std::vector<Cell> titles;
      for (const Column& column : columns_) titles.push_back({column.title, Colour::bold});
      write_row(titles);
      begun_ = true;
    }
    for (const auto& row : rows_) write_row(row);
    rows_.clear();
  }
  output_.flush();
}

// The widths on a terminal: the widest columns of text are cut until a row fits. Numbers are never cut.
std::vector<std::size_t> Listing::fitting() const {
  std::vector<std::size_t> widths = widths_;
  if (!output_.is_terminal()) return widths;
  std::size_t total = kGap * (widths.size() - 1);
  for (const std::size_t width : widths) total += width;
  const auto least = [&](std::size_t i) {
    return std::max(i == 0 ? kLeastFirst : kLeastWidth, width_of(columns_[i].title));
  };
  const auto spare = [&](std::size_t i) { return columns_[i].right || widths[i] <= least(i) ? 0 : widths[i]; };
  for (; total > output_.width(); --total) {
    std::size_t widest = 0;
    for (std::size_t i = 1; i < widths.size(); ++i) {
      if (spare(i) > spare(widest)) widest = i;
    }
    if (spare(widest) == 0) break;
    --widths[widest];
  }
  return widths;
}

void Listing::write_row(const std::vector<Cell>& row) {
  const std::vector<std::size_t> widths = fitting();
  std::string line;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const bool last = i + 1 == row.size();
    const std::string text = output_.is_terminal() ? cut(row[i].text, widths[i]) : row[i].text;
    const std::size_t width = width_of(text);
    const std::string padding(widths[i] - std::min(widths[i], width), ' ');
    if (columns_[i].right) line += padding;
    line += output_.paint(row[i].colour, text);
    if (!last && !columns_[i].right) line += padding;
    if (!last) line += std::string(kGap, ' ');
  }
  const std::size_t end = line.find_last_not_of(' ');
  output_.line(std::string_view(line).substr(0, end == std::string::npos ? 0 : end + 1));
}

void Listing::end(const Object& tail) {
  if (output_.format() == Format::json) {
    begin_document();
    output_.end_list(tail);
  }
  flush();
}

}  // namespace dqctl
