#include "bench/monitor.h"

namespace bench {
namespace {

// The form of a line: +1795289911.123456 [0 lua] "zadd" ...
bool is_from_script(const std::string& line) {
  const std::size_t open = line.find('[');
  const std::size_t close = line.find(']', open);
  return close != std::string::npos && close >= 4 && line.compare(close - 4, 4, " lua") == 0;
}

bool is_routine(const std::string& line) {
  const char* commands[] = {"\"BZPOPMIN\"", "\"SRANDMEMBER\"", "\"HRANDFIELD\""};
  return std::any_of(std::begin(commands), std::end(commands),
                     [&](const char* command) { return line.find(command) != std::string::npos; });
}

}  // namespace

Monitor::Monitor(Server& server) : server_(server), wire_(server.socket()) {
  wire_.write("*1\r\n$7\r\nMONITOR\r\n");
  next_line();  // +OK
}

std::size_t Monitor::requests(bool routine) {
  const std::string mark = "mark-" + std::to_string(++marks_);
  server_.command({"ECHO", mark});
  std::size_t count = 0;
  for (std::string line = next_line(); line.find('"' + mark + '"') == std::string::npos; line = next_line()) {
    if (!is_from_script(line) && (routine || !is_routine(line))) ++count;
  }
  return count;
}

std::string Monitor::next_line() {
  std::size_t end = text_.find("\r\n");
  while (end == std::string::npos) {
    text_ += wire_.read_some();
    end = text_.find("\r\n");
  }
  std::string line = text_.substr(0, end);
  text_.erase(0, end + 2);
  return line;
}

}  // namespace bench
