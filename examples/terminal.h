// Output functions of order_timeout.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

inline constexpr const char *kPlain = "", *kBold = "\033[1m", *kRed = "\033[31m", *kGreen = "\033[32m",
                            *kYellow = "\033[33m";

// Prints a line, in colour if stdout is a terminal and NO_COLOR is not set.
inline void print(const char* colour, const std::string& line) {
  static const char* no_colour = std::getenv("NO_COLOR");
  static const bool colours = isatty(STDOUT_FILENO) == 1 && (no_colour == nullptr || *no_colour == '\0');
  const bool plain = !colours || *colour == '\0';
  std::printf("%s%s%s\n", plain ? "" : colour, line.c_str(), plain ? "" : "\033[0m");
  std::fflush(stdout);
}

// Formats as printf does.
template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[200];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}
