// Reads a file or stdin line by line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace dqctl {

// A line that cannot be used. what() is the reason.
struct BadLine : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Fits a payload of 64 MiB in base64, and the other fields.
inline constexpr std::size_t kLongestLine = (64ULL << 20U) / 3 * 4 + 64 * 1024;

// Reads lines. Throws Failure if the file cannot be opened or read.
class LineReader {
 public:
  // file: "-" is stdin. longest: bytes of a line; a longer one is never held in memory as a whole.
  explicit LineReader(const std::string& file, std::size_t longest = kLongestLine);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // Reads the next line without its end, \n or \r\n. Skips empty lines. False at the end, or when a signal arrived.
  // Throws BadLine for a line that is too long; the next call continues behind it.
  bool next(std::string& line);

  std::uint64_t number() const { return number_; }      // of the last line read, from 1
  std::string where() const { return where(number_); }  // "orders.jsonl, line 7"
  std::string where(std::uint64_t number) const;        // of another line

 private:
  bool fill();
  void skip_line();

  const std::string name_;
  const std::size_t longest_;
  int file_ = -1;
  std::string buffer_;
  std::size_t begin_ = 0;
  bool end_ = false;
  std::uint64_t number_ = 0;
};

}  // namespace dqctl
