// Reads a file or stdin line by line, and parses the JSON in a line.
#pragma once

#include <delayqueue/inspector.h>
#include <delayqueue/producer.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

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

// Whether the text is a UUID in its form of 36 characters.
bool is_id(std::string_view text);

// Whether the text is a UUID in lower case, as the library stores it. No call finds a stored id of another form.
bool is_stored_id(std::string_view text);

// The id in a line: a plain id, or an object with one, as `ls -o ndjson` writes it. Throws BadLine.
std::string id_in(const std::string& line);

// Parses a message as `export` writes it. Throws BadLine.
delayqueue::MessageInfo message_in(const std::string& line);
std::string line_of(const delayqueue::MessageInfo& message);

// Parses a message to send: payload (a text, or any JSON value, whose bytes are sent as they stand in the line) or
// payload_base64; optional: id, delay or at, retries, ttl. Missing fields are taken from `options`. Throws BadLine.
delayqueue::Draft draft_in(const std::string& line, const delayqueue::SendOptions& options);

}  // namespace dqctl
