#include "support/test.h"

#include "work/line_splitter.h"

using dqctl::LineSplitter;

TEST_CASE("lines: bytes in any pieces are passed on as whole lines; a missing newline is added") {
  std::vector<std::string> got;
  LineSplitter lines([&](std::string_view text) { got.emplace_back(text); });
  for (const char* piece : {"a", "b\nc", "\n", "d\ne\nf", "\n\n", "last"}) lines.add(piece);
  CHECK(got == std::vector<std::string>{"ab\n", "c\n", "d\ne\n", "f\n\n"});
  CHECK(lines.last() == "f");
  lines.end();
  CHECK(got.back() == "last\n");
  CHECK(lines.last() == "last");
  lines.end();
  CHECK(got.size() == 5);
}

TEST_CASE("lines: the last line that is not blank is remembered, trimmed and cut") {
  LineSplitter lines({});
  lines.add("  first \r\n\n \t\r\n");
  CHECK(lines.last() == "first");
  lines.add("\n");
  CHECK(lines.last() == "first");
  lines.add(std::string(10'000, 'x') + "\n");
  CHECK(lines.last() == std::string(4096, 'x'));
}

TEST_CASE("lines: a line without an end takes bounded memory") {
  std::size_t passed = 0;
  LineSplitter lines([&](std::string_view text) { passed += text.size(); });
  for (int i = 0; i < 40; ++i) lines.add(std::string(64 * 1024, 'x'));
  CHECK(passed >= 1024 * 1024);
  lines.end();
  CHECK(passed == 40 * 64 * 1024 + 1);
}
