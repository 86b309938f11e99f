// The reader of JSON accepts what RFC 8259 allows, and keeps it as it is written.
#include "preamble.h"

#include "output/text.h"
#include "read_json.h"

namespace {

using dqctl::JsonFailure;
using dqctl::JsonValue;
using dqctl::read_json;

bool is_json(const std::string& text) { return read_json(text).has_value(); }

// What another reader makes of it; of these texts both accept the same.
bool accepts(const std::string& text) { return nlohmann::json::accept(text); }

}  // namespace

TEST_CASE("json: all that the standard allows is accepted, and nothing else") {
  for (const char* text :
       {"null", " true ", "false", "0", "-0", "1e400", "-1E-400", "1.5e+3", "\"\"", "[]", "{}", "[1,[2,{\"a\":null}]]",
        "\"\\ud800\"", "\"\\udc00\\ud800\"", "\"\\u0000\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "{\"\":1,\"\":2}",
        "\xEF\xBB\xBF[]", "\"\x7F\xC3\xA4\"", "\t[\r\n1 , 2 ]"}) {
    CAPTURE(text);
    CHECK(is_json(text));
  }
  for (const char* text :
       {"",         " ",          "nul",     "nulls",   "+1",          "01",          "1.",
        ".5",       "1e",         "1e+",     "-",       "0x1",         "inf",         "NaN",
        "'a'",      "\"",         "\"\\x\"", "\"\\u12", "\"\\u12g4\"", "\"\\u 123\"", "\"\n\"",
        "[",        "[1,]",       "[,1]",    "[1 2]",   "{",           "{a:1}",       "{\"a\"}",
        "{\"a\":}", "{\"a\":1,}", "{1:2}",   "[1]]",    "1 2",         "\"\xff\"",    "\"\xed\xa0\x80\"",
        "[1}",      "{]"}) {
    CAPTURE(text);
    CHECK_FALSE(is_json(text));
  }
  CHECK_FALSE(is_json(std::string("1\0", 2)));
  CHECK_FALSE(is_json(std::string("\"\0\"", 3)));
}

TEST_CASE("json: of random texts it accepts the same as another reader, and writes the same values again") {
  const std::string pieces[] = {"{",           "}",     "[",      "]",  ",",    ":",     "\"a\"",
                                "\"\\u00e4\"", "1",     "-2.5e1", "0",  "null", "false", "true",
                                "\"\\n\"",     "\"b\"", " ",      "\n", "\\",   "e"};
  int good = 0;
  for (unsigned seed = 0; seed < 20'000; ++seed) {
    std::mt19937 random(seed);
    std::string text;
    for (std::size_t length = 1 + random() % 9; length > 0; --length) text += pieces[random() % std::size(pieces)];
    CAPTURE(text);
    const auto value = read_json(text);
    REQUIRE(value.has_value() == accepts(text));
    if (!value) continue;
    ++good;
    for (const int indent : {-1, 0, 2}) CHECK(parse_json(json_text(*value, indent)) == parse_json(text));
  }
  CHECK(good > 500);
}

TEST_CASE("json: texts are decoded, numbers keep their digits, fields keep their order") {
  const std::string text =
      R"({"z":"\ud83d\ude00ä\u00e4\n","n":123456789012345678901234567890,"a":[-7,1e400,"\ud800"],"\u0061":9})";
  const auto value = read_json(text);
  REQUIRE(value);
  CHECK(value->fields().size() == 4);
  CHECK(value->fields()[0].first == "z");
  CHECK(value->find("z")->text() == "\xF0\x9F\x98\x80ää\n");
  CHECK(value->find("n")->written() == "123456789012345678901234567890");
  CHECK_FALSE(value->find("n")->whole_number(0, INT64_MAX));
  const JsonValue& list = *value->find("a");
  CHECK(list.items()[0].whole_number(-7, 0) == -7);
  CHECK_FALSE(list.items()[0].whole_number(-6, 0));
  CHECK_FALSE(list.items()[1].whole_number(0, INT64_MAX));
  CHECK_FALSE(list.items()[2].text());
  REQUIRE(value->repeated());
  CHECK(*value->repeated() == "a");
  CHECK(value->find("nothing") == nullptr);
  CHECK(list.repeated() == nullptr);
}

TEST_CASE("json: nesting is bounded") {
  const auto nested = [](int levels) {
    return std::string(static_cast<std::size_t>(levels), '[') + std::string(static_cast<std::size_t>(levels), ']');
  };
  CHECK(is_json(nested(dqctl::kDeepestJson)));
  JsonFailure why{};
  for (const int levels : {dqctl::kDeepestJson + 1, 1'000'000}) {
    CHECK_FALSE(read_json(nested(levels), &why));
    CHECK(why == JsonFailure::too_deep);
  }
  CHECK_FALSE(read_json("[", &why));
  CHECK(why == JsonFailure::no_json);
}

TEST_CASE("json: it is written in lines or in one line, as it was given") {
  const auto value = read_json(R"({ "a" : [ ] , "b":{},"c" : [1e400,"\u00e4"] })");
  REQUIRE(value);
  CHECK(json_text(*value, -1) == R"({"a":[],"b":{},"c":[1e400,"\u00e4"]})");
  CHECK(json_text(*value, 2) == "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    1e400,\n    \"\\u00e4\"\n  ]\n}");
}
