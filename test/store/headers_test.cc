#include "support/test.h"

#include "store/headers.h"

namespace delayqueue::store {
namespace {

using namespace std::string_literals;

// The text of the std::invalid_argument that set() throws, or "".
std::string refused(Headers headers, const std::string& name, const std::string& value) {
  const Headers before = headers;
  try {
    headers.set(name, value);
    return "";
  } catch (const std::invalid_argument& e) {
    CHECK((headers == before));
    return e.what();
  }
}

std::string all_bytes() {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  return bytes;
}

Headers full() {
  Headers headers;
  for (std::size_t i = 0; i < Headers::kMost; ++i) headers.set("h" + std::to_string(i), "");
  return headers;
}

TEST_CASE("headers: keep the order in which they were set, and a name is there once") {
  Headers headers{{"b", "1"}, {"a", "2"}};
  headers.set("c", "3");
  headers.set("b", "4");
  CHECK((headers == Headers{{"b", "4"}, {"a", "2"}, {"c", "3"}}));
  CHECK((headers != Headers{{"a", "2"}, {"b", "4"}, {"c", "3"}}));
  CHECK(headers.size() == 3);
  REQUIRE(headers.find("a") != nullptr);
  CHECK(*headers.find("a") == "2");
  CHECK(headers.find("A") == nullptr);
  CHECK(headers.erase("a"));
  CHECK_FALSE(headers.erase("a"));
  CHECK((headers == Headers{{"b", "4"}, {"c", "3"}}));
  CHECK(Headers().empty());
}

TEST_CASE("headers: a name that is not valid is refused, and the error shows it escaped") {
  for (const std::string& name :
       {""s, "a b"s, "a=b"s, "a\n"s, "\x7f"s, "caf\xc3\xa9"s, "a\0b"s, std::string(128, 'n')}) {
    CHECK(refused({}, name, "v").find("header \"") == 0);
  }
  CHECK(refused({}, "a\x1b[2J", "v").find("\x1b") == std::string::npos);
  for (const std::string& name : {"a"s, "!:/~\"'"s, "dqx"s, std::string(127, 'n')})
    CHECK(refused({}, name, "v").empty());
}

TEST_CASE("headers: a message has at most 64 of them; the value of one that is there can be replaced") {
  CHECK(refused(full(), "one-more", "") == "header \"one-more\": there are 64 headers; a message has no more");
  CHECK(refused(full(), "h63", "new").empty());
}

TEST_CASE("headers: their packed form has at most 8 KiB, and the limit is exact") {
  const std::size_t most = Headers::kMostBytes - 4;  // "a" and its length, and the two bytes of the value's length
  Headers headers{{"a", std::string(most, 'x')}};
  CHECK(packed(headers).size() == Headers::kMostBytes);
  CHECK(unpacked(packed(headers)).value() == headers);
  CHECK(refused({}, "a", std::string(most + 1, 'x')).find("header \"a\": a value of 8189 bytes") == 0);
  CHECK_FALSE(refused(headers, "b", "").empty());
  CHECK(refused(headers, "a", "short").empty());
}

TEST_CASE("headers: any bytes of values are packed and unpacked unchanged, at every length") {
  for (const std::size_t length : {0, 1, 127, 128, 129, 255, 256, 4000}) {
    const Headers headers{{"all", all_bytes()}, {"empty", ""}, {"long", std::string(length, '\0')}};
    const auto again = unpacked(packed(headers));
    REQUIRE(again.has_value());
    CHECK((*again == headers));
  }
  CHECK(packed(Headers()).empty());
  CHECK(unpacked("").value().empty());
  CHECK(packed({{"k", "v"}, {"long", std::string(200, 'x')}}) == "\1k\1v\4long\xc8\1" + std::string(200, 'x'));
}

TEST_CASE("headers: bytes that are no packed headers are recognized") {
  const std::vector<std::string> damaged = {
      "\1"s,                                    // no name
      "\1k"s,                                   // no value
      "\1k\2v"s,                                // a value that is cut off
      "\1k\x80"s,                               // a length that is cut off
      "\1k\x81\0v"s,                            // a length that is not in its shortest form
      "\1k\x80\x80\1"s,                         // a length of three bytes
      "\0\1v"s,                                 // a name without characters, or a later form
      "\3a b\1v"s,                              // a name with a space
      "\1k\1v\1k\1w"s,                          // a name that is there twice
      "\1k\1v\1"s,                              // a rest
      packed(full()) + "\1k\1v"s,               // too many
      "\1k\xfd\x3f"s + std::string(8189, 'v'),  // too long
  };
  for (const std::string& bytes : damaged) CHECK_FALSE(unpacked(bytes).has_value());
}

TEST_CASE("headers: random and damaged bytes never throw, and what is unpacked is packed as it was") {
  std::mt19937 random(20);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  const std::string good = packed({{"content-type", "text/plain"}, {"traceparent", std::string(150, 'a')}, {"x", ""}});
  std::size_t read = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = good;
    for (std::size_t changes = below(4); changes > 0; --changes)
      bytes[below(bytes.size())] = static_cast<char>(below(256));
    bytes.resize(below(3) == 0 ? below(bytes.size()) : bytes.size());
    const auto headers = unpacked(bytes);
    if (!headers) continue;
    ++read;
    CHECK(packed(*headers) == bytes);
  }
  CHECK(read > 0);
  CHECK(read < 20'000);
}

}  // namespace
}  // namespace delayqueue::store
