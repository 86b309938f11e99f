// Files given to dqctl are hostile: every hostile value is a line, and the value of every field of a line.
#include "preamble.h"

#include "dqctl_here.h"
#include "hostile_queue.h"
#include "output/json.h"

using test::HostileValue;

namespace {

constexpr const char* kUnknownId = "018f0000-0000-7000-8000-0000000000ff";

// A valid line, with this field set to this JSON value.
std::string line_with(const std::string& field, const std::string& value) {
  json line = {{"id", kUnknownId}, {"state", "dead"}, {"payload", "x"}, {"at", "2026-11-21T19:36:45Z"}, {"retries", 1}};
  line.erase(field);
  std::string text = line.dump();
  text.insert(1, dqctl::json_string(field) + ':' + value + ',');
  return text;
}

// Every value as a line, and in each field as a JSON string and as raw text.
std::string hostile_lines() {
  std::string lines;
  std::vector<HostileValue> values = test::hostile_strings();
  values.insert(values.end(), test::hostile_numbers().begin(), test::hostile_numbers().end());
  for (const HostileValue& value : values) {
    lines += value.bytes + '\n';
    if (value.bytes.size() > 1000) continue;
    for (const char* field :
         {"id", "state", "payload", "payload_base64", "at", "retries", "deliveries", "reason", "reason_base64", "size",
          "ttl", "ttl_ms", "sent", "held", "delay", "delay_ms", "another"}) {
      lines += line_with(field, dqctl::json_string(value.bytes)) + '\n' + line_with(field, value.bytes) + '\n';
    }
    lines += line_with(value.bytes, "1") + '\n';
  }
  return lines;
}

void check(const Ran& ran, const std::string& form) {
  CHECK(ran.code >= 0);
  CHECK(ran.code <= 5);
  CHECK_FALSE(test::is_unsafe(ran.out));
  CHECK_FALSE(test::is_unsafe(ran.err));
  if (form == "json") CHECK(json::accept(ran.out));
  if (form == "ndjson") lines_of(ran.out);
}

}  // namespace

TEST_CASE("hostile files: every command that reads lines withstands them, in every form") {
  const std::string lines = hostile_lines();
  test::Watchdog watchdog;
  for (const char* form : {"table", "json", "ndjson"}) {
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{{"import", "q", "-", "--dry-run"},
                                               {"import", "q", "-"},
                                               {"send", "q", "--ndjson", "-"},
                                               {"cancel", "q", "-"},
                                               {"release", "q", "-"},
                                               {"bury", "q", "-"},
                                               {"extend", "q", "-", "--by", "1s"},
                                               {"reschedule", "q", "-", "--in", "1h"},
                                               {"redrive", "q", "-"}}) {
      test::build_queue();
      std::vector<std::string> all = words;
      all.insert(all.end(), {"-o", form});
      CAPTURE(words[0]);
      CAPTURE(form);
      watchdog.step(words[0]);
      check(test::run_here(all, lines), form);
    }
  }
}

TEST_CASE("hostile files: a valid line between hostile lines is imported as it stands") {
  test::build_queue();
  const std::string good = line_with("payload", R"("good")");
  for (const HostileValue& value : test::hostile_strings()) {
    CAPTURE(value.name);
    test::build_queue();
    test::run_here({"import", "q", "-"}, value.bytes + '\n' + good + '\n' + value.bytes + '\n');
    const auto found = delayqueue::Inspector(test::server().url(), "q").find(kUnknownId);
    REQUIRE(found);
    CHECK(found->payload == "good");
  }
}

TEST_CASE("hostile arguments: every hostile value is harmless as a name, as an id and as the value of each option") {
  test::Watchdog watchdog;
  std::vector<HostileValue> values = test::hostile_strings();
  values.insert(values.end(), test::hostile_numbers().begin(), test::hostile_numbers().end());
  for (const HostileValue& value : values) {
    const std::string text = value.bytes.substr(0, value.bytes.find('\0'));  // NUL ends an argument
    if (text.empty()) continue;
    test::build_queue();
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{{"stats", "--", text},
                                               {"show", "q", "--", text},
                                               {"cancel", "q", "--", text},
                                               {"send", "--id=" + text, "q", "x"},
                                               {"send", "--delay=" + text, "q", "x"},
                                               {"send", "--at=" + text, "q", "x"},
                                               {"ls", "q", "--state=" + text},
                                               {"ls", "q", "--state=dead", "--cursor=" + text},
                                               {"ls", "q", "--state=dead", "--limit=" + text},
                                               {"ls", "q", "--state=dead", "--match=" + text},
                                               {"redrive", "q", "--all", "--rate=" + text},
                                               {"pause", "q", "--why=" + text},
                                               {"resume", "q"},
                                               {"queues", "--prefix=" + text},
                                               {"queues", "--output=" + text},
                                               {"import", "q", "--", "/nowhere/" + text},
                                               {"--uri=unix:///nowhere/" + text, "queues"},
                                               {"queues", "--user=" + text},
                                               {text}}) {
      CAPTURE(words[0]);
      CAPTURE(value.name);
      watchdog.step(words[0]);
      check(test::run_here(words), "table");
    }
  }
}
