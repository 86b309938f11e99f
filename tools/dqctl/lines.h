// Lines of a file or of stdin, one at a time; and what JSON in them says.
#pragma once

#include <delayqueue/inspector.h>
#include <delayqueue/producer.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace dqctl {

// What is wrong with a line, in words.
struct BadLine : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A payload of 64 MiB in base64, and the other fields.
inline constexpr std::size_t kLongestLine = (64ULL << 20U) / 3 * 4 + 64 * 1024;

// Throws Failure when the file cannot be opened or read.
class LineReader {
 public:
  // "-": stdin. longest: bytes of a line, which is never held in memory beyond that.
  explicit LineReader(const std::string& file, std::size_t longest = kLongestLine);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // Without its end, be it \n or \r\n. Empty lines are passed over. False at the end, or when a signal came. Throws
  // BadLine for one that is too long; the next call goes on behind it.
  bool next(std::string& line);

  std::uint64_t number() const { return number_; }      // of the line that came last, from 1
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

// Whether it is a UUID in its form of 36 characters.
bool is_id(std::string_view text);

// Whether it is one as the library stores it, in small letters. No call finds a stored id of another form.
bool is_stored_id(std::string_view text);

// Of a line that is an id, or an object with one, as `ls -o ndjson` writes it. Throws BadLine.
std::string id_in(const std::string& line);

// A message as `export` writes it. Throws BadLine.
delayqueue::MessageInfo message_in(const std::string& line);
std::string line_of(const delayqueue::MessageInfo& message);

// One to be sent: payload (text; or any JSON value, whose bytes are sent as they stand in the line), or payload_base64;
// and if wanted id, delay or at, retries, ttl. What it does not say is as in `options`. Throws BadLine.
delayqueue::Draft draft_in(const std::string& line, const delayqueue::SendOptions& options);

}  // namespace dqctl
