// The journals: each process of a run appends lines to a file, with one write() for each, so that they survive kill -9
// of the process.
//
//   <microseconds since 1970> <word> <word> ...
//
// All processes run on one machine, so their clock is that of Redis.
#pragma once

#include "support/standard.h"

namespace chaos {

std::int64_t now_us();

// A file of lines. Thread-safe.
class Journal {
 public:
  explicit Journal(const std::string& path);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  std::int64_t line(const std::string& words) const;  // with the current time, which it returns
  void line_at(std::int64_t at_us, const std::string& words) const;

 private:
  int fd_;
};

struct Line {
  std::int64_t at_us = 0;
  std::vector<std::string> words{};  // without the time

  const std::string& word(std::size_t i) const;  // empty if there are fewer words
  std::int64_t number(std::size_t i) const;
};

// Reads all lines. A malformed line, such as the last one on a full disk, gives nothing.
std::vector<Line> read_journal(const std::string& path);

// The paths of all journals (*.log) in a folder, sorted by name.
std::vector<std::string> journals_in(const std::string& folder);

// All lines in a folder that contain any of the words, sorted by time, each with the name of its file.
std::vector<std::string> lines_about(const std::string& folder, const std::vector<std::string>& words);

// The arguments "key=value" of a command line.
class Arguments {
 public:
  Arguments(int count, char** words, int from);

  const std::string& text(const std::string& key) const;  // throws std::invalid_argument if the key is missing
  std::int64_t number(const std::string& key) const;

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace chaos
