// Output of a command: data to stdout, messages for people to stderr.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "output/json.h"
#include "output/text.h"

namespace dqctl {

enum class Format { table, json, ndjson };
enum class Colour { plain, bold, dim, red, green, yellow, blue };

// Thrown when the reader of stdout is gone (| head). main() ends without a message.
struct ClosedOutput {};

class Output {
 public:
  Output() = default;
  Output(Format format, bool no_colour, bool utc);

  Format format() const { return format_; }
  bool is_table() const { return format_ == Format::table; }
  bool colours() const { return colours_; }
  bool is_terminal() const { return terminal_; }
  std::size_t width() const;  // of the terminal; unlimited without one

  // Buffered. Throws ClosedOutput, or Failure if stdout cannot be written. A signal during a blocked write loses
  // nothing, unlike with fwrite of stdio.
  void write(std::string_view bytes);
  void line(std::string_view text);
  void flush();

  // Throws Failure if the caller has closed stdout: a command must not act if it cannot report the result.
  void require_open() const;

  // Writes an object: as the document (json), or as a line (ndjson).
  void object(const Object& object);

  // Writes a document with a list, element by element: {head, "name": [...], tail}. For Format::json only.
  void begin_list(const Object& head, std::string_view name);
  void element(const Object& object);
  void end_list(const Object& tail);

  // Completes an open document.
  void complete();

  // Writes the error of a failed command, for programs. json: the field "error" of the document; completes an open
  // document, or writes one if there is none yet. ndjson: a line. table: nothing.
  void fail(std::string_view error);

  // Writes a line to stderr, after the data so far. Untrusted text in it must be printable() or in_quotes().
  void stderr_line(std::string_view text);

  std::string paint(Colour colour, std::string_view text) const;
  std::string time(Time when) const;  // for people: local time, or UTC with --utc

 private:
  enum class Document { none, open, complete };

  std::string buffer_{};
  Document document_ = Document::none;
  bool first_ = true;  // the open list has no element yet
  Format format_ = Format::table;
  bool terminal_ = false;
  bool colours_ = false;
  bool utc_ = false;
};

// Progress of a long command on stderr: only on a terminal, and after the first second.
class Progress {
 public:
  // verb: "purged", "sent" ...
  Progress(Output& output, std::string verb);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(std::uint64_t done, std::uint64_t total = 0);  // total 0: unknown
  void clear();                                              // before other output

 private:
  using Clock = std::chrono::steady_clock;

  Output& output_;
  const std::string verb_;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point next_ = begin_ + std::chrono::seconds(1);
  bool terminal_;
  bool shown_ = false;
};

}  // namespace dqctl
