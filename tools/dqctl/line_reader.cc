#include "line_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "exit.h"
#include "output/text.h"
#include "signals.h"

namespace dqctl {
namespace {

std::string reason_of(int error) { return std::generic_category().message(error); }

}  // namespace

LineReader::LineReader(const std::string& file, std::size_t longest)
    : name_(file == "-" ? "stdin" : file), longest_(longest) {
  file_ = file == "-" ? STDIN_FILENO : ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0) throw Usage(in_quotes(name_) + " cannot be read: " + reason_of(errno));
}

LineReader::~LineReader() {
  if (file_ > STDIN_FILENO) ::close(file_);
}

std::string LineReader::where(std::uint64_t number) const {
  return printable(name_) + ", line " + std::to_string(number);
}

// Reads more bytes. False at the end, or when a signal arrived.
bool LineReader::fill() {
  std::array<char, 65536> some;
  while (!interrupted()) {
    const auto n = ::read(file_, some.data(), some.size());
    if (n > 0) {
      buffer_.erase(0, begin_);
      begin_ = 0;
      buffer_.append(some.data(), static_cast<std::size_t>(n));
      return true;
    }
    if (n == 0) return end_ = true, false;
    if (errno != EINTR) throw Failure(Exit::failed, in_quotes(name_) + " cannot be read: " + reason_of(errno));
  }
  return false;
}

// Skips the line that begins at begin_.
void LineReader::skip_line() {
  ++number_;
  while (true) {
    const std::size_t found = buffer_.find('\n', begin_);
    begin_ = std::min(found, buffer_.size());
    if (found != std::string::npos) ++begin_;
    if (found != std::string::npos || end_ || !fill()) return;
  }
}

bool LineReader::next(std::string& line) {
  std::size_t searched = begin_;
  while (!interrupted()) {
    const std::size_t found = buffer_.find('\n', searched);
    const std::size_t open = std::min(found, buffer_.size()) - begin_;  // length of the line so far
    if (open > longest_) {
      skip_line();
      throw BadLine("is longer than " + counted(longest_, "byte") + ", and was skipped");
    }
    if (found == std::string::npos && !end_) {
      searched = fill() ? open : buffer_.size();
      continue;
    }
    if (found == std::string::npos && begin_ == buffer_.size()) return false;
    const std::size_t end = std::min(found, buffer_.size());
    line.assign(buffer_, begin_, end - begin_);
    begin_ = searched = std::min(end + 1, buffer_.size());
    ++number_;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.find_first_not_of(" \t") != std::string::npos) return true;
  }
  return false;
}

}  // namespace dqctl
