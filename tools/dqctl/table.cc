#include "table.h"

#include <algorithm>
#include <utility>

namespace dqctl {
namespace {

constexpr std::size_t kHeldRows = 1000;
constexpr std::size_t kGap = 2;
constexpr std::size_t kLeastWidth = 10;  // of the last column, however narrow the terminal is

}  // namespace

Listing::Listing(Output& output, std::vector<Column> columns, std::string list, Object head)
    : output_(output), columns_(std::move(columns)), list_(std::move(list)), head_(std::move(head)) {
  for (const Column& column : columns_) widths_.push_back(width_of(column.title));
}

void Listing::add(std::vector<Cell> row, const Object& object) {
  switch (output_.format()) {
    case Format::ndjson:
      output_.object(object);
      return;
    case Format::json:
      begin_document();
      output_.write(first_ ? "\n" : ",\n");
      output_.write(object.text());
      first_ = false;
      return;
    case Format::table:
      break;
  }
  row.resize(columns_.size());
  rows_.push_back(std::move(row));
  if (rows_.size() >= kHeldRows) flush();
}

void Listing::begin_document() {
  if (begun_) return;
  begun_ = true;
  const std::string& fields = head_.fields();
  output_.write("{" + fields + (fields.empty() ? "" : ",") + json_string(list_) + ":[");
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

void Listing::write_row(const std::vector<Cell>& row) {
  std::string line;
  std::size_t used = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const bool last = i + 1 == row.size();
    std::string text = row[i].text;
    if (last && output_.is_terminal()) {
      text = cut(text, std::max(kLeastWidth, output_.width() - std::min(output_.width(), used)));
    }
    const std::size_t width = width_of(text);
    const std::string padding(widths_[i] - std::min(widths_[i], width), ' ');
    if (columns_[i].right) line += padding;
    line += output_.paint(row[i].colour, text);
    if (!last && !columns_[i].right) line += padding;
    if (!last) line += std::string(kGap, ' ');
    used += widths_[i] + kGap;
  }
  const std::size_t end = line.find_last_not_of(' ');
  output_.line(std::string_view(line).substr(0, end == std::string::npos ? 0 : end + 1));
}

void Listing::end(const Object& tail) {
  if (output_.format() == Format::json) {
    begin_document();
    output_.line((first_ ? "]" : "\n]") + std::string(tail.fields().empty() ? "" : ",") + tail.fields() + "}");
  }
  flush();
}

}  // namespace dqctl
