#include "preamble.h"

#include "output/json.h"

using namespace dqctl;

TEST_CASE("json: fields keep their order, and every kind of value is written") {
  Object object;
  object.add("text", "a\"b\\c\n\x01\x7f")
      .add("number", std::uint64_t{18446744073709551615U})
      .add("negative", -5)
      .add("real", 0.5)
      .add("endless", 1.0 / 0.0)
      .add("yes", true)
      .add("when", Time(std::chrono::milliseconds(1)))
      .add("unset", std::optional<int>())
      .add("set", std::optional<int>(7))
      .add("object", Object().add("a", 1))
      .add("list", std::vector<Object>{Object().add("a", 1), Object()})
      .add("names", std::vector<std::string>{"a", "\xff"});
  CHECK(object.text() ==
        R"({"text":"a\"b\\c\n\u0001\u007f","number":18446744073709551615,"negative":-5,"real":0.5,"endless":null,)"
        R"("yes":true,"when":"1970-01-01T00:00:00.001Z","unset":null,"set":7,"object":{"a":1},"list":[{"a":1},{}],)"
        R"("names":["a","\\xff"]})");
  CHECK(parse_json(object.text()).at("text") == "a\"b\\c\n\x01\x7f");
  CHECK(Object().append(Object().add("a", 1)).append(Object()).append(Object().add("b", 2)).text() ==
        R"({"a":1,"b":2})");
}

TEST_CASE("json: any bytes are restored from a document") {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  const json bytes = parse_json(Object().add("payload", all).text());
  CHECK(bytes.at("payload_base64") == base64(all));
  CHECK(bytes.count("payload") == 0);
  const json text = parse_json(Object().add("payload", "ä\x1b").text());
  CHECK(text.at("payload") == "ä\x1b");
}
