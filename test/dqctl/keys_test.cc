#include "support/test.h"

#include "output/canvas.h"
#include "top/keys.h"
#include "top/queue_table.h"

using namespace dqctl;
using Kind = Key::Kind;

namespace {

std::vector<Kind> kinds_of_keys(const std::string& bytes, bool complete = true) {
  std::string rest = bytes;
  std::vector<Kind> out;
  for (const Key& key : take_keys(rest, complete)) out.push_back(key.kind);
  return out;
}

}  // namespace

TEST_CASE("keys: the sequences that terminals send are recognized") {
  CHECK(kinds_of_keys("\033[A\033OB\033[5~\033[6~\033[H\033[4~\t\033[Z\r\x7f\b\033") ==
        std::vector<Kind>{Kind::up, Kind::down, Kind::page_up, Kind::page_down, Kind::home, Kind::end, Kind::tab,
                          Kind::back_tab, Kind::enter, Kind::backspace, Kind::backspace, Kind::escape});
  std::string text = "q\xc3\xa4\x03";
  const auto keys = take_keys(text, false);
  REQUIRE(keys.size() == 3);
  CHECK(keys[0].text == "q");
  CHECK(keys[1].text == "ä");
  CHECK(keys[2].kind == Kind::control);
  CHECK(keys[2].text == "c");
}

TEST_CASE("keys: a key may come in pieces; an escape alone is a key if nothing follows") {
  std::string bytes = "\033";
  CHECK(take_keys(bytes, false).empty());
  bytes += "[";
  CHECK(take_keys(bytes, false).empty());
  bytes += "B";
  REQUIRE(take_keys(bytes, false).size() == 1);
  CHECK(bytes.empty());
  bytes = "\033";
  CHECK(take_keys(bytes, true).at(0).kind == Kind::escape);
  bytes = "\xc3";
  CHECK(take_keys(bytes, false).empty());
  CHECK(bytes == "\xc3");
}

TEST_CASE("keys: unknown sequences are dropped") {
  CHECK(kinds_of_keys("\033[99;5~\033[1;2Pq") == std::vector<Kind>{Kind::text});
  CHECK(kinds_of_keys("\xff\xfeq") == std::vector<Kind>{Kind::text});
  CHECK(kinds_of_keys("\033[12") == std::vector<Kind>{});
}

TEST_CASE("canvas: a line is cut at its width; a full one does not clear its end") {
  Line line(6);
  line.add("abc").add("defgh", kWrong).add("more");
  CHECK(line.room() == 0);
  CHECK(line.bytes(false) == "abcde…");
  CHECK(line.bytes(true) == "abc\033[0;1;31mde…\033[0m");
  Line short_one(6);
  short_one.left("ab", 3).right("7", 2);
  CHECK(short_one.bytes(true) == "ab  7\033[K");
  short_one.select();
  CHECK(short_one.bytes(true).find("\033[K") == std::string::npos);
  CHECK(short_one.bytes(false) == "ab  7\033[K");
  CHECK(Line(3).left("日本語", 3).bytes(false) == "日…");
}

TEST_CASE("canvas: only changes are written") {
  Canvas canvas({10, 3});
  canvas.line().add("a");
  canvas.line().add("b");
  const auto before = canvas.rows(false);
  CHECK(before.size() == 3);
  Canvas next({10, 3});
  next.line().add("a");
  next.line().add("c");
  CHECK(difference(before, next.rows(false)) == "\033[2;1Hc\033[K");
  CHECK(difference({}, before).find("\033[2J") != std::string::npos);
  CHECK(difference(before, before).empty());
}

TEST_CASE("top: a count takes at most five columns") {
  CHECK(short_count(0) == "0");
  CHECK(short_count(9999) == "9,999");
  CHECK(short_count(12'345) == "12.3k");
  CHECK(short_count(999'999) == "999k");
  CHECK(short_count(1'000'000) == "1.0M");
  CHECK(short_count(123'456'789) == "123M");
  CHECK(short_count(18'446'744'073'709'551'615U) == "18.4E");
}
