#include "chaos/journal.h"

#include <fcntl.h>
#include <unistd.h>

namespace chaos {
namespace {

namespace fs = std::filesystem;

Line parsed(const std::string& text) {
  Line line;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    if (end > begin) line.words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (line.words.empty()) return line;
  line.at_us = std::strtoll(line.words.front().c_str(), nullptr, 10);
  line.words.erase(line.words.begin());
  return line;
}

}  // namespace

std::int64_t now_us() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

Journal::Journal(const std::string& path) : fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), path);
}

Journal::~Journal() { ::close(fd_); }

std::int64_t Journal::line(const std::string& words) const {
  const std::int64_t now = now_us();
  line_at(now, words);
  return now;
}

void Journal::line_at(std::int64_t at_us, const std::string& words) const {
  const std::string text = std::to_string(at_us) + ' ' + words + '\n';
  if (::write(fd_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) std::_Exit(4);
}

const std::string& Line::word(std::size_t i) const {
  static const std::string none;
  return i < words.size() ? words[i] : none;
}

std::int64_t Line::number(std::size_t i) const { return std::strtoll(word(i).c_str(), nullptr, 10); }

std::vector<Line> read_journal(const std::string& path) {
  std::vector<Line> lines;
  std::ifstream file(path);
  for (std::string text; std::getline(file, text);) {
    lines.push_back(parsed(text));
    if (lines.back().at_us == 0 || lines.back().words.empty()) lines.pop_back();
  }
  return lines;
}

std::vector<std::string> journals_in(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& file : fs::directory_iterator(folder)) {
    if (file.path().extension() == ".log") paths.push_back(file.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<std::string> lines_about(const std::string& folder, const std::vector<std::string>& words) {
  std::vector<std::pair<std::int64_t, std::string>> found;
  for (const std::string& path : journals_in(folder)) {
    std::ifstream file(path);
    for (std::string text; std::getline(file, text);) {
      const bool about = std::any_of(words.begin(), words.end(),
                                     [&](const auto& word) { return text.find(word) != std::string::npos; });
      if (!about) continue;
      found.emplace_back(std::strtoll(text.c_str(), nullptr, 10), fs::path(path).stem().string() + ": " + text);
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> lines;
  for (auto& line : found) lines.push_back(std::move(line.second));
  return lines;
}

Arguments::Arguments(int count, char** words, int from) {
  for (int i = from; i < count; ++i) {
    const std::string word = words[i];
    const std::size_t sign = word.find('=');
    if (sign == std::string::npos) throw std::invalid_argument(word + ": expected key=value");
    values_[word.substr(0, sign)] = word.substr(sign + 1);
  }
}

const std::string& Arguments::text(const std::string& key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) throw std::invalid_argument(key + "=... is missing");
  return found->second;
}

std::int64_t Arguments::number(const std::string& key) const { return std::strtoll(text(key).c_str(), nullptr, 10); }

}  // namespace chaos
