#include "output/output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <limits>
#include <system_error>
#include <utility>

#include "exit.h"
#include "standard_streams.h"

namespace dqctl {
namespace {

bool wants_no_colour() {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return (no_colour != nullptr && *no_colour != '\0') || (terminal != nullptr && std::string_view(terminal) == "dumb");
}

const char* code_of(Colour colour) {
  switch (colour) {
    case Colour::bold:
      return "\033[1m";
    case Colour::dim:
      return "\033[2m";
    case Colour::red:
      return "\033[31m";
    case Colour::green:
      return "\033[32m";
    case Colour::yellow:
      return "\033[33m";
    case Colour::blue:
      return "\033[34m";
    case Colour::plain:
      break;
  }
  return "";
}

constexpr std::size_t kBuffer = 4096;

[[noreturn]] void cannot_write(int error) {
  if (error == EPIPE) throw ClosedOutput();
  throw Failure(Exit::failed, "stdout: cannot be written: " + std::generic_category().message(error));
}

}  // namespace

Output::Output(Format format, bool no_colour, bool utc)
    : format_(format),
      terminal_(::isatty(STDOUT_FILENO) == 1),
      colours_(terminal_ && !no_colour && !wants_no_colour()),
      utc_(utc) {}

std::size_t Output::width() const {
  if (!terminal_) return std::numeric_limits<std::size_t>::max();
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

void Output::write(std::string_view bytes) {
  buffer_ += bytes;
  const bool whole_line = !bytes.empty() && bytes.back() == '\n';
  if (buffer_.size() >= kBuffer || (terminal_ && whole_line)) flush();
}

void Output::line(std::string_view text) {
  write(text);
  write("\n");
}

void Output::flush() {
  const std::string bytes = std::exchange(buffer_, {});
  for (std::string_view rest = bytes; !rest.empty();) {
    const auto n = ::write(STDOUT_FILENO, rest.data(), rest.size());
    if (n >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno != EINTR) {
      cannot_write(errno);
    }
  }
}

void Output::require_open() const {
  if (!stdout_was_closed()) return;
  throw Failure(Exit::failed,
                "cannot write to stdout: it is closed; nothing was done; redirect it to a file or /dev/null");
}

void Output::object(const Object& object) {
  line(object.text());
  document_ = Document::complete;
}

void Output::begin_list(const Object& head, std::string_view name) {
  const std::string& fields = head.fields();
  write("{" + fields + (fields.empty() ? "" : ",") + json_string(name) + ":[");
  document_ = Document::open;
  first_ = true;
}

void Output::element(const Object& object) { write((std::exchange(first_, false) ? "\n" : ",\n") + object.text()); }

void Output::end_list(const Object& tail) {
  const std::string& fields = tail.fields();
  line((first_ ? "]" : "\n]") + std::string(fields.empty() ? "" : ",") + fields + "}");
  document_ = Document::complete;
}

void Output::complete() {
  if (document_ == Document::open) end_list({});
}

void Output::fail(std::string_view error) {
  Object failure;
  failure.add("error", error);
  if (format_ == Format::ndjson) line(failure.text());
  if (format_ != Format::json || document_ == Document::complete) return;
  document_ == Document::open ? end_list(failure) : object(failure);
}

void Output::stderr_line(std::string_view text) {
  flush();
  std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
}

std::string Output::paint(Colour colour, std::string_view text) const {
  if (!colours_ || colour == Colour::plain) return std::string(text);
  return code_of(colour) + std::string(text) + "\033[0m";
}

std::string Output::time(Time when) const { return utc_ ? utc_text(when) : local_text(when); }

Progress::Progress(Output& output, std::string verb)
    : output_(output), verb_(std::move(verb)), terminal_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() { clear(); }

void Progress::update(std::uint64_t done, std::uint64_t total) {
  const auto now = Clock::now();
  if (!terminal_ || now < next_) return;
  next_ = now + std::chrono::milliseconds(200);
  if (output_.is_terminal()) output_.flush();
  const auto spent = std::max<double>(1e-3, std::chrono::duration<double>(now - begin_).count());
  std::string text = verb_ + ' ' + count_text(done);
  if (total > 0) {
    const std::uint64_t percent = std::min<std::uint64_t>(100, done * 100 / total);
    text += " of " + count_text(total) + " (" + std::to_string(percent) + "%)";
  }
  text += ", " + count_text(static_cast<std::uint64_t>(static_cast<double>(done) / spent)) + "/s";
  if (total > done && done > 0) {
    const double left = static_cast<double>(total - done) * spent / static_cast<double>(done);
    text += ", " + span_text(milliseconds(static_cast<long long>(left) * 1000 + 1000)) + " left";
  }
  std::fprintf(stderr, "\r%s\033[K", text.c_str());
  shown_ = true;
}

void Progress::clear() {
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

}  // namespace dqctl
