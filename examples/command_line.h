// The command line of the examples: [URL] and other arguments, and exit codes for errors.
#pragma once

#include <cstdlib>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

inline constexpr char kUrlUsage[] =
    "  URL is redis://[user:password@]host[:port][/db], rediss://..., redis+sentinel://..., redis+cluster://...,\n"
    "  unix:///path or embedded:/folder;\n"
    "  default: $DELAYQUEUE_URI, or else redis://127.0.0.1:6379\n";

struct CommandLine {
  std::string url{};
  std::vector<std::string> words{};  // the other arguments
};

inline std::string default_url() {
  const char* set = std::getenv("DELAYQUEUE_URI");
  return set != nullptr && *set != '\0' ? set : "redis://127.0.0.1:6379";
}

// The first argument is the URL if it looks like one.
inline CommandLine read_command_line(int argc, char** argv, const std::string& url_if_none = default_url()) {
  CommandLine line{url_if_none, std::vector<std::string>(argv + 1, argv + argc)};
  if (line.words.empty()) return line;
  const std::string& first = line.words.front();
  if (first.find("://") == std::string::npos && first.rfind("embedded:", 0) != 0) return line;
  line.url = first;
  line.words.erase(line.words.begin());
  return line;
}

// Calls `body`, which returns the exit code. Prints its exceptions: the exit code is 2 for a wrong argument, else 1.
template <class Body>
int run_main(const char* program, Body body) {
  try {
    return body();
  } catch (const std::invalid_argument& e) {
    std::cerr << program << ": " << e.what() << '\n';
    return 2;
  } catch (const std::exception& e) {
    std::cerr << program << ": " << e.what() << '\n';
    return 1;
  }
}
