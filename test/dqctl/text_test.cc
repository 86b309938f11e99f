#include "support/test.h"

#include <clocale>

#include "output/text.h"

using namespace dqctl;

TEST_CASE("text: characters that are unsafe on a terminal are escaped, and all others kept") {
  CHECK(printable("plain ä € 𝄞 日本") == "plain ä € 𝄞 日本");
  CHECK(printable("a\nb\tc\r") == "a\\nb\\tc\\r");
  CHECK(printable(std::string("\0\x1b[2J\x7f", 6)) == "\\x00\\x1b[2J\\x7f");
  CHECK(printable("\xc2\x9b"
                  "31m") == "\\u009b31m");  // CSI as one C1 character
  CHECK(printable("\xe2\x80\xae"
                  "abc") ==
        "\\u202e"
        "abc");  // a bidirectional override
  CHECK(printable("\xff\xc0\x80\xed\xa0\x80\xf5") == "\\xff\\xc0\\x80\\xed\\xa0\\x80\\xf5");
  CHECK(printable("\xe2\x82") == "\\xe2\\x82");
}

TEST_CASE("text: invisible characters are escaped, and marks that belong to a visible one are kept") {
  for (const auto& [bytes, escaped] : std::vector<std::pair<const char*, const char*>>{{"\u00ad", "\\u00ad"},
                                                                                       {"\u034f", "\\u034f"},
                                                                                       {"\u200b", "\\u200b"},
                                                                                       {"\u2028", "\\u2028"},
                                                                                       {"\u2065", "\\u2065"},
                                                                                       {"\u2069", "\\u2069"},
                                                                                       {"\u3164", "\\u3164"},
                                                                                       {"\ufeff", "\\ufeff"},
                                                                                       {"\ufff9", "\\ufff9"},
                                                                                       {"\U000e0041", "\\ue0041"},
                                                                                       {"\U000e0fff", "\\ue0fff"}}) {
    CHECK(printable(bytes) == escaped);
  }
  for (const char* text : {"e\u0301", "\u2764\ufe0f", "\u0915\u093e", "\u06dd"}) CHECK(printable(text) == text);
}

TEST_CASE("text: valid UTF-8 is recognized, and malformed or overlong sequences are not") {
  CHECK(is_utf8(""));
  CHECK(is_utf8("ä€𝄞"));
  CHECK(is_utf8(std::string("\0", 1)));
  for (const char* bytes :
       {"\xff", "\x80", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "a\xe2\x82"}) {
    CHECK_FALSE(is_utf8(bytes));
  }
}

TEST_CASE("text: width and cut count the columns of a terminal") {
  CHECK(width_of("abc") == 3);
  CHECK(width_of("ä€") == 2);
  CHECK(width_of("日本") == 4);
  CHECK(width_of("e\xcc\x81") == 1);
  CHECK(width_of("\u05e9\u05c1") == 1);        // a Hebrew letter with a point
  CHECK(width_of("\u0e01\u0e34") == 1);        // a Thai consonant with a vowel above it
  CHECK(width_of("\u0915\u093e") == 2);        // a Hindi syllable with a vowel beside it
  CHECK(width_of("\uff21\u30a2\uff71") == 5);  // wide, wide, and half-wide
  CHECK(width_of("\u231a\u2705\U0001f600\U0001f680") == 8);
  CHECK(width_of("\u2764\ufe0f\u25cf") == 2);
  CHECK(cut("abcdef", 6) == "abcdef");
  CHECK(cut("abcdef", 4) == "abc…");
  CHECK(cut("日本語", 4) == "日…");
  CHECK(cut("abc", 0).empty());
}

TEST_CASE("text: a cut bounds the number of combining marks") {
  std::string marks = "e";
  for (int i = 0; i < 100'000; ++i) marks += "\xcc\x81";
  CHECK(width_of(marks) == 1);
  for (const std::size_t width : {1, 36, 80}) {
    CHECK(cut(marks, width).size() <= 16 * width + 8);
    CHECK(width_of(cut(marks, width)) <= width);
  }
  CHECK(cut("e\xcc\x81\xcc\x82", 1) == "e\xcc\x81\xcc\x82");
}

TEST_CASE("text: the closest name is found, also among very many names") {
  CHECK(nearest("stat", {"queues", "stats", "stuck"}) == "stats");
  CHECK(nearest("oders", {"orders", "mails"}) == "orders");
  CHECK(nearest("order-1", {"order-12", "order-1x"}) == "order-12");
  CHECK(nearest("nothing", {"orders", "mails"}).empty());
  CHECK(nearest(std::string(100, 'a') + "b", {std::string(100, 'a')}).empty());
  const std::string word(60, 'a');
  std::vector<std::string> known(100'000, std::string(10, 'a'));  // too short to be close
  known.push_back(word + 'b');
  CHECK(nearest(word, known) == word + 'b');
  known.assign(100'000, std::string(60, 'b'));  // comparing each of them would take seconds
  known.push_back(word + 'b');
  CHECK(nearest(word, known).empty());
}

TEST_CASE("text: names are quoted for the shell where needed") {
  CHECK(in_quotes("orders") == "orders");
  CHECK(in_quotes("my queue") == "'my queue'");
  CHECK(in_quotes("it's") == "'it'\\''s'");
  CHECK(in_quotes("") == "''");
  CHECK(in_quotes("a\x1b") == "$'a\\033'");
}

TEST_CASE("text: base64 and hex encode and decode any bytes") {
  CHECK(base64("").empty());
  CHECK(base64("f") == "Zg==");
  CHECK(base64("fo") == "Zm8=");
  CHECK(base64("foo") == "Zm9v");
  CHECK(base64(std::string("\xff\x00\xfe", 3)) == "/wD+");
  CHECK(hex(std::string("\x00\xff"
                        "a",
                        3)) == "00ff61");
}

TEST_CASE("text: durations, times and numbers are printed in a short form") {
  CHECK(span_text(0ms) == "0ms");
  CHECK(span_text(999ms) == "999ms");
  CHECK(span_text(12s) == "12s");
  CHECK(span_text(3min + 12s + 5ms) == "3m12s");
  CHECK(span_text(2h) == "2h");
  CHECK(span_text(2h + 3s) == "2h");
  CHECK(span_text(99h + 59min) == "4d3h");
  CHECK(span_text(-12s) == "-12s");
  const Time now = Time(1'800'000'000s);
  CHECK(ago_text(now - 5s, now) == "5s ago");
  CHECK(ago_text(now + 5min, now) == "in 5m");
  CHECK(ago_text(now, now) == "now");
  CHECK(since_text(now - 5s, now) == "5s ago");
  CHECK(since_text(now + 5min, now) == "now");
  CHECK(age_between(now - 5s, now) == 5s);
  CHECK(age_between(now + 5min, now) == 0ms);
  CHECK(utc_text(Time(1'795'291'005'123ms)) == "2026-11-21T19:56:45.123Z");
  CHECK(utc_text(Time(-1ms)) == "1969-12-31T23:59:59.999Z");
  CHECK(span_between(now, now + 1500us) == 1ms);
  CHECK(span_between(Time::min(), Time::max()) > 500 * 365 * 24h);
  CHECK(ago_text(Time::min(), Time::max()).find("d") != std::string::npos);
  CHECK(ago_text(Time::max(), Time::min()).find("in ") == 0);
  CHECK(count_text(0) == "0");
  CHECK(count_text(1234) == "1,234");
  CHECK(count_text(1'234'567) == "1,234,567");
  CHECK(size_text(17) == "17 B");
  CHECK(size_text(1536) == "1.5 KiB");
  CHECK(size_text(3 << 20) == "3.0 MiB");
}
