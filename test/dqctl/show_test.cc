// Tests of dqctl show.
#include "preamble.h"

namespace {

constexpr const char* kUnknown = "0190f7c2-5b1f-7000-8000-000000000001";

}  // namespace

TEST_CASE("show: it prints all fields of a message, as a sheet and as JSON") {
  test::empty_server();
  const std::string id = test::hold("my queue:1", 20s, 3, "slow\x1b[2J");
  expect(run({"show", "my queue:1", id, "--utc"}), 0,
         {out_has("id            " + id + "\n"), out_has("state         unack, in flight\n"),
          out_has("lease ends    2"), out_has("Z (in 1"), out_has("sent          2"), out_has("deliveries    3\n"),
          out_has("retries left  3\n"), out_has("reason        slow\\x1b[2J\n"), out_has("payload       4 B\nheld\n")});

  const json message = parse_json(run({"show", "my queue:1", id, "-o", "json"}).out);
  CHECK(message.at("queue") == "my queue:1");
  CHECK(message.at("missing").empty());
  REQUIRE(message.at("messages").size() == 1);
  CHECK(holds(message.at("messages")[0], {{"payload", "held"}, {"deliveries", 3}}));
  CHECK(parse_json(run({"show", "my queue:1", id, "-o", "ndjson"}).out) == message.at("messages")[0]);
}

TEST_CASE("show: headers are printed escaped on a sheet, and in order as JSON; damaged ones are told from none") {
  test::empty_server();
  delayqueue::Producer producer(test::server().url(), "q");
  const auto options =
      with(&delayqueue::SendOptions::headers, {{"content-type", "text/\x1b[2J"}, {"b", "\xff"}, {"a", ""}});
  const std::string id = producer.send("x", options).id;
  const Ran sheet = run({"show", "q", id});
  CHECK(has(sheet.out, "header        content-type=text/\\x1b[2J\nheader        b=\\xff\nheader        a=\n"));
  json message = parse_json(run({"show", "q", id, "-o", "ndjson"}).out);
  CHECK(message.at("headers") == parse_json(R"([{"name":"content-type","value":"text/\u001b[2J"},)"
                                            R"({"name":"b","value_base64":"/w=="},{"name":"a","value":""}])"));
  CHECK_FALSE(message.contains("headers_damaged"));
  const json listed = parse_json(run({"ls", "q", "--state", "ready", "-o", "ndjson"}).out);
  CHECK(listed.at("headers") == message.at("headers"));
  test::redis().cmd({"HSET", "dp:q:headers", id, "no headers"});
  CHECK(has(run({"show", "q", id}).out, "headers       damaged, or of a later version"));
  message = parse_json(run({"show", "q", id, "-o", "ndjson"}).out);
  CHECK(message.at("headers_damaged") == true);
  CHECK_FALSE(message.contains("headers"));
  test::redis().cmd({"DEL", "dp:q:headers"});
  CHECK_FALSE(parse_json(run({"show", "q", id, "-o", "ndjson"}).out).contains("headers"));
}

TEST_CASE("show: payloads of any bytes are printed in every form") {
  test::empty_server();
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  const std::string id = test::send("q", {all})[0];
  CHECK(run({"show", "q", id, "--payload", "raw"}).out == all);
  const Ran text = run({"show", "q", id});
  CHECK(has(text.out, "\\x00\\x01"));
  CHECK(has(text.out, "\\xfe\\xff\n"));
  CHECK(has(text.out, "\n\\x0b"));  // a newline stays a newline
  CHECK_FALSE(has(text.out, "\x1b"));
  const Ran dump = run({"show", "q", id, "--payload", "hex"});
  CHECK(has(dump.out, "00000000  00 01 02 03 04 05 06 07  08 09 0a 0b 0c 0d 0e 0f  |................|\n"));
  CHECK(has(dump.out, "00000040  40 41 42 43 44 45 46 47  48 49 4a 4b 4c 4d 4e 4f  |@ABCDEFGHIJKLMNO|\n"));
  const json message = parse_json(run({"show", "q", id, "-o", "ndjson", "--payload", "hex"}).out);
  CHECK(message.at("payload_base64").get<std::string>().size() == 344);
  CHECK(message.at("payload_hex").get<std::string>().substr(0, 8) == "00010203");
}

TEST_CASE("show: JSON payloads are indented with their fields in order; others are shown unchanged") {
  test::empty_server();
  const std::string id = test::send("q", {R"({"b":1,"a":[{"x":"ä\u001b"}]})"})[0];
  const Ran ran = run({"show", "q", id, "--payload", "json"});
  CHECK(has(ran.out, "{\n  \"b\": 1,\n  \"a\": [\n    {\n      \"x\": \"ä\\u001b\"\n    }\n  ]\n}\n"));
  const json message = parse_json(run({"show", "q", id, "--payload", "json", "-o", "ndjson"}).out);
  CHECK(message.at("payload_json").at("b") == 1);
  const std::string other = test::send("q", {"{no json"})[0];
  expect(run({"show", "q", other, "--payload", "json"}), 0, {out_has("{no json\n"), err_has("is no JSON")});
}

TEST_CASE("show: a long payload is cut on a sheet only") {
  test::empty_server();
  const std::string payload(10'000, 'x');
  const std::string id = test::send("q", {payload})[0];
  CHECK(has(run({"show", "q", id}).out, "… 5,904 more bytes: --payload raw shows all\n"));
  CHECK(run({"show", "q", id, "--payload", "raw"}).out == payload);
  CHECK(parse_json(run({"show", "q", id, "-o", "ndjson"}).out).at("payload") == payload);
}

TEST_CASE("show: missing ids are exit code 3 or 4, and malformed ids exit code 2") {
  test::empty_server();
  const std::string id = test::send("q", {"x"})[0];
  expect(run({"show", "q", id, kUnknown}), 4, {out_has(id), err_is(std::string("no message ") + kUnknown + " in q\n")});
  const Ran none = expect(run({"show", "q", kUnknown, "-o", "json"}), 3);
  CHECK(parse_json(none.out).at("missing") == json::array({kUnknown}));
  expect(run({"show", "q", "42"}), 2, {err_has("42")});
  expect(run({"show", "q", id, "notanid"}), 2, {out_is(""), err_has("ID: notanid; expected a UUID")});
  CHECK(run({"show", "nowhere", id}).code == 3);
  CHECK(run({"show", "q"}).code == 2);
  CHECK(run({"show", "q", id, kUnknown, "--payload", "raw"}).code == 2);
  CHECK(run({"show", "q", kUnknown, "--payload", "raw"}).code == 3);
  CHECK(run({"show", "q", id, "--payload", "xml"}).code == 2);
}

TEST_CASE("show: a missing body, a TTL, and a held message that was cancelled are shown") {
  test::empty_server();
  const auto ids = test::make_dead("q", {"a"}, "r");
  test::redis().cmd({"DEL", "dp:q:msg:" + ids[0]});
  expect(run({"show", "q", ids[0]}), 0, {out_has("payload       missing"), out_has("dead since    2")});
  const std::string brief =
      delayqueue::Producer(test::server().url(), "q").send("x", with(&delayqueue::SendOptions::ttl, 1h)).id;
  CHECK(has(run({"show", "q", brief}).out, "expires       in 59m"));
  const std::string held = test::hold("q", 20s);
  test::redis().cmd({"HDEL", "dp:q:retry:cnt", held});
  CHECK(has(run({"show", "q", held}).out, "none recorded: it was cancelled"));
}
