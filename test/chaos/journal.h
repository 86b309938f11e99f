// What every process of a run writes down, so that it survives the process' kill -9: one write() a line, appended.
//
//   <microseconds since 1970> <word> <word> ...
//
// All run on one machine: their clock is Redis' clock.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace chaos {

std::int64_t now_us();

// Lines of a file. Any number of threads may write.
class Journal {
 public:
  explicit Journal(const std::string& path);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  std::int64_t line(const std::string& words) const;  // at now, which it returns
  void line_at(std::int64_t at_us, const std::string& words) const;

 private:
  int fd_;
};

struct Line {
  std::int64_t at_us = 0;
  std::vector<std::string> words{};  // without the time

  const std::string& word(std::size_t i) const;  // empty if there are not so many
  std::int64_t number(std::size_t i) const;
};

// Nothing for what is no line: the last one of a full disk.
std::vector<Line> read_journal(const std::string& path);

// "<file>.log" of all journals in a folder, by name.
std::vector<std::string> journals_in(const std::string& folder);

// All lines of a folder that hold any of the words, in the order of their times, each with its file's name.
std::vector<std::string> lines_about(const std::string& folder, const std::vector<std::string>& words);

// "key=value" of a command line.
class Arguments {
 public:
  Arguments(int count, char** words, int from);

  const std::string& text(const std::string& key) const;  // throws std::invalid_argument if it is not there
  std::int64_t number(const std::string& key) const;

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace chaos
