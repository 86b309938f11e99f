// dqctl prints no control characters that another user of the same Redis wrote.
#include "preamble.h"

#include "output/json.h"
#include "output/text.h"

namespace {

// ESC, CSI as one character (U+009B), a bidirectional override (U+202E), a newline, a bell, a shell command.
const std::string kHostile =
    "-\x1b[2J\xc2\x9b"
    "31m\xe2\x80\xae\n\a$(id)'`\"";

// The escaped characters: C0 controls (except the newline), DEL, C1 controls and bidirectional controls.
std::string unsafe_in(const std::string& text) {
  std::string found;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte < 0x20 && byte != '\n') || byte == 0x7F) found += dqctl::hex(text.substr(i, 1)) + ' ';
  }
  for (const char* bytes : {"\xc2\x9b", "\xe2\x80\xae"}) {
    if (has(text, bytes)) found += dqctl::hex(bytes) + ' ';
  }
  return found;
}

void add_to(const std::string& zset, const std::string& id, long long score) {
  test::redis().cmd({"ZADD", "dp:q:" + zset, std::to_string(score), id});
  test::redis().cmd({"SET", "dp:q:msg:" + id, kHostile});
  test::redis().cmd({"HSET", "dp:q:retry:cnt", id, "3"});
  test::redis().cmd({"HSET", "dp:q:attempts", id, "7 0"});
  test::redis().cmd({"HSET", "dp:q:reason", id, kHostile});
}

// Adds a message with a hostile id, payload and reason in every state.
void fill() {
  test::empty_server();
  test::send("q", {"x"}, 1h);
  const long long now = std::stoll(test::redis().cmd({"TIME"}).strings()[0]);
  add_to("pending", kHostile, now - 3600);
  add_to("unack", kHostile + "u", now + 3600);
  add_to("dead", kHostile + "d", now - 3600);
  for (const char* list : {"ready", "retry"}) {
    const std::string id = kHostile + list;
    add_to("dead", id, now);
    test::redis().cmd({"ZREM", "dp:q:dead", id});
    test::redis().cmd({"RPUSH", std::string("dp:q:") + list, id});
  }
}

std::string from_shell(const std::string& word) {
  FILE* pipe = ::popen(("bash -c " + dqctl::in_quotes("printf %s " + word)).c_str(), "re");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> some;
  std::string out;
  while (const std::size_t n = std::fread(some.data(), 1, some.size(), pipe)) out.append(some.data(), n);
  REQUIRE(::pclose(pipe) == 0);
  return out;
}

}  // namespace

TEST_CASE("escaped output: ids from Redis are escaped in every state and output form") {
  fill();
  for (const char* state : {"pending", "ready", "unack", "retry", "dead"}) {
    for (const char* form : {"table", "json", "ndjson"}) {
      CAPTURE(state);
      CAPTURE(form);
      const Ran ran = expect(run({"ls", "q", "--state", state, "-o", form}), 0);
      CHECK(unsafe_in(ran.out + ran.err).empty());
      if (std::string(form) != "table") CHECK(has(ran.out, "\\u001b[2J\\u009b31m\\u202e\\n"));
    }
  }
  for (const char* form : {"table", "json", "ndjson"}) {
    for (const auto& command :
         std::vector<std::vector<std::string>>{{"stuck", "q", "--look", "10ms", "--hot", "2"},
                                               {"show", "q", "-o", form, "--", kHostile, "nowhere" + kHostile},
                                               {"show", "q", "--payload", "json", "-o", form, "--", kHostile},
                                               {"show", "q", "--payload", "raw", "--", "nowhere" + kHostile},
                                               {"redrive", "q", "--all"},
                                               {"doctor", "q", "--settle", "1ms"},
                                               {"export", "q"}}) {
      std::vector<std::string> words = command;
      words.insert(words.begin(), {"-o", form});
      if (command[0] == "show") words.erase(words.begin(), words.begin() + 2);
      CAPTURE(form);
      CAPTURE(words[2]);
      const Ran ran = run(words);
      CHECK(ran.signal == 0);
      CHECK(unsafe_in(ran.out + ran.err) == "");
    }
  }
}

TEST_CASE("escaped output: JSON escapes the same characters as tables, and parses to the original text") {
  std::string all;  // every character of Unicode
  for (unsigned code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    const auto byte = [&](unsigned value) { all += static_cast<char>(value); };
    if (code >= 0x10000) {
      byte(0xF0 | code >> 18), byte(0x80 | (code >> 12 & 0x3F)), byte(0x80 | (code >> 6 & 0x3F));
    } else if (code >= 0x800) {
      byte(0xE0 | code >> 12), byte(0x80 | (code >> 6 & 0x3F));
    } else if (code >= 0x80) {
      byte(0xC0 | code >> 6);
    }
    byte(code < 0x80 ? code : 0x80 | (code & 0x3F));
  }
  const std::string text = dqctl::Object().add("payload", all).text();
  CHECK(dqctl::printable(text) == text);
  CHECK(parse_json(text).at("payload").get<std::string>() == all);
  CHECK(dqctl::json_string("\xc2\x9b\xe2\x80\xae\xf3\xa0\x80\x81\x7f") == R"("\u009b\u202e\udb40\udc01\u007f")");
  CHECK(parse_json(dqctl::json_string("\xff\xc3")) == "\xef\xbf\xbd\xef\xbf\xbd");
}

TEST_CASE("escaped output: export and import keep every byte, and the exported lines are safe on a terminal") {
  test::empty_server();
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  const std::vector<std::string> payloads = {kHostile, bytes, "\x7f", "", "[[[["};
  const auto ids = test::send("from", payloads);
  const Ran out = expect(run({"export", "from"}), 0);
  CHECK(unsafe_in(out.out) == "");
  CHECK(run({"import", "to", "-"}, with(&DqctlOptions::input, out.out)).code == 0);
  delayqueue::Inspector to(test::server().url(), "to");
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto found = to.find(ids[i]);
    REQUIRE(found);
    CHECK(found->payload == payloads[i]);
  }
}

TEST_CASE("escaped output: a payload shown as JSON is escaped, and parses to the original value") {
  test::empty_server();
  const std::string payload = R"({"a": ")" + std::string("\xc2\x9b\xe2\x80\xae\x7f") + R"("})";
  const std::string id = test::send("q", {payload}).front();
  const Ran table = run({"show", "q", id, "--payload", "json"});
  CHECK(unsafe_in(table.out) == "");
  CHECK(has(table.out, R"("a": "\u009b\u202e\u007f")"));
  const Ran ran = run({"show", "q", id, "--payload", "json", "-o", "ndjson"});
  CHECK(unsafe_in(ran.out) == "");
  CHECK(parse_json(ran.out).at("payload_json") == parse_json(payload));
}

TEST_CASE("escaped output: the shell reads a name in a printed command as that very name") {
  std::string bytes;
  for (int i = 1; i < 256; ++i) bytes += static_cast<char>(i);
  for (const std::string& name : {kHostile, bytes, std::string("it's \\n"),
                                  std::string("a\x1b"
                                              "7"),
                                  std::string("=ls"), std::string("~"), std::string("$(id)"), std::string("\\'\n")}) {
    CAPTURE(name);
    const std::string word = dqctl::in_quotes(name);
    CHECK(from_shell(word) == name);
    CHECK(dqctl::printable(word) == word);
  }
}

TEST_CASE("escaped output: no name in a printed command is read as an option") {
  CHECK(dqctl::command_text("stats", {"orders"}, "--watch 2s") == "dqctl stats orders --watch 2s");
  CHECK(dqctl::command_text("stats", {"-rf"}, "--watch 2s") == "dqctl stats --watch 2s -- -rf");
  CHECK(dqctl::command_text("show", {"orders", "-rf"}) == "dqctl show -- orders -rf");
  test::empty_server();
  test::send("--uri=redis://x", {"x"});
  delayqueue::QueueAdmin(test::server().url(), "--uri=redis://x").pause({std::nullopt, kHostile});
  const Ran ran = run({"stuck", "--look", "10ms", "--", "--uri=redis://x"});
  CHECK(has(ran.out, "do      dqctl resume -- --uri=redis://x\n"));
  CHECK(run({"resume", "--", "--uri=redis://x"}).code == 0);
}
