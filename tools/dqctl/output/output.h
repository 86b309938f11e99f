// Data goes to stdout, words to stderr.
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

// Nobody reads stdout any more (| head). main ends quietly.
struct ClosedOutput {};

class Output {
 public:
  Output() = default;
  Output(Format format, bool no_colour, bool utc);

  Format format() const { return format_; }
  bool is_table() const { return format_ == Format::table; }
  bool colours() const { return colours_; }
  bool is_terminal() const { return terminal_; }
  std::size_t width() const;  // of the terminal; without one, endless

  // Buffered. Throws ClosedOutput, or Failure when it cannot be written. A signal that comes while a slow reader keeps
  // it waiting loses nothing (stdio's fwrite would).
  void write(std::string_view bytes);
  void line(std::string_view text);
  void flush();

  // Throws Failure if the caller has closed stdout: what cannot be told must not be done first.
  void require_open() const;

  // One object: a document, or a line.
  void object(const Object& object);

  // A document with a list in it, written element by element: {head, "name": [...], tail}. For Format::json only.
  void begin_list(const Object& head, std::string_view name);
  void element(const Object& object);
  void end_list(const Object& tail);

  // Completes a document that is still open.
  void complete();

  // The last word of a command that failed, for programs: the field "error" of the document, which is completed by it
  // if it is open, and written if there is none yet; as ndjson a line. Tables get nothing.
  void fail(std::string_view error);

  // A line on stderr, after what was written. Text of strangers in it must be printable() or in_quotes().
  void stderr_line(std::string_view text);

  std::string paint(Colour colour, std::string_view text) const;
  std::string time(Time when) const;  // for people: local, or UTC if so asked

 private:
  enum class Document { none, open, complete };

  std::string buffer_{};
  Document document_ = Document::none;
  bool first_ = true;  // no element of the open list is written
  Format format_ = Format::table;
  bool terminal_ = false;
  bool colours_ = false;
  bool utc_ = false;
};

// How far a long command is, on stderr: only on a terminal, from the second second on.
class Progress {
 public:
  // verb: "purged", "sent" ...
  Progress(Output& output, std::string verb);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(std::uint64_t done, std::uint64_t total = 0);  // total 0: unknown
  void clear();                                              // before other words

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
