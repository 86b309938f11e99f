#include "work/line_splitter.h"

#include <algorithm>

namespace dqctl {
namespace {

constexpr std::size_t kMaxBuffered = 1024 * 1024;
constexpr std::size_t kMaxLast = 4096;

std::string_view trimmed(std::string_view line) {
  constexpr std::string_view kBlank = " \t\r\n\v\f";
  const std::size_t begin = line.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(kBlank) + 1 - begin);
}

}  // namespace

void LineSplitter::add(std::string_view bytes) {
  const std::size_t end = bytes.rfind('\n');
  if (end == std::string_view::npos) {
    rest_ += bytes;
  } else {
    rest_ += bytes.substr(0, end + 1);
    emit(rest_);
    rest_ = bytes.substr(end + 1);
  }
  if (rest_.size() <= kMaxBuffered) return;
  emit(rest_);
  rest_.clear();
}

void LineSplitter::end() {
  if (rest_.empty()) return;
  emit(rest_ += '\n');
  rest_.clear();
}

void LineSplitter::emit(std::string_view lines) {
  if (sink_) sink_(lines);
  while (!lines.empty()) {
    const std::size_t before = lines.size() < 2 ? std::string_view::npos : lines.rfind('\n', lines.size() - 2);
    const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
    const std::string_view line = trimmed(lines.substr(begin));
    if (!line.empty()) {
      last_ = line.substr(0, kMaxLast);
      return;
    }
    lines = lines.substr(0, begin);
  }
}

}  // namespace dqctl
