// A server, a Sentinel or a Cluster node sends answers that would forge log lines or control the terminal of a reader.
#include "support/test.h"

#include "redis/escaped.h"
#include "support/scripted_server.h"

namespace {

using namespace delayqueue;
using test::array;
using test::bulk;
using test::hello;
using test::ScriptedServer;
using Words = std::vector<std::string>;

// ESC, a newline, a carriage return, a byte that is not UTF-8, C1 and bidirectional controls, and NUL.
const std::string kHostileAnswer =
    std::string("\x1b]0;owned\x07\nERROR all is well\r\xff\xc2\x9b\xe2\x80\xae") + '\0' + "end";
const std::string kShown = "\\x1b]0;owned\\x07";

std::string one_line(std::string text) {  // RESP ends an error or a status at its newline
  std::replace(text.begin(), text.end(), '\n', '\x0b');
  std::replace(text.begin(), text.end(), '\r', '\x0c');
  return text;
}

const std::string kError = "-ERR " + one_line(kHostileAnswer) + "\r\n";

bool is_printable(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

void check_text(const std::string& text) {
  CHECK_MESSAGE(is_printable(text), redis::escaped(text));
  CHECK_MESSAGE(text.size() < 8192, text);
}

template <class Call>
std::string thrown(Call call) {
  try {
    call();
  } catch (const std::exception& e) {
    check_text(e.what());
    return e.what();
  }
  return "nothing";
}

void check_shown(const std::string& text) { CHECK_MESSAGE(text.find(kShown) != std::string::npos, text); }

void check_entry(const LogEntry& entry) {
  for (const std::string& text : {entry.line, entry.text, entry.server, entry.message_id}) check_text(text);
}

ClientOptions brief() {
  ClientOptions options;
  options.connect_timeout = 5s;
  options.command_timeout = 5s;
  return options;
}

// Collects the error texts and warnings of each class for this server.
struct Texts {
  std::string send, counts, start, logged;
};

Texts all_classes(const std::string& url) {
  Texts texts;
  const Client client(url, brief());
  ProducerOptions producing;
  std::mutex mutex;
  producing.logger = [&](const LogEntry& entry) { check_entry(entry); };
  Producer producer(client, "q", producing);
  texts.send = thrown([&] { producer.send("x"); });
  thrown([&] { static_cast<void>(producer.cancel("0197f3a4-5b6c-7d8e-9f01-23456789abcd")); });
  thrown([&] { producer.send_async("x").get(); });
  Inspector inspector(client, "q");
  texts.counts = thrown([&] { static_cast<void>(inspector.counts()); });
  thrown([&] { static_cast<void>(inspector.next_event(1ms)); });
  QueueAdmin admin(client, "q");
  thrown([&] { static_cast<void>(admin.check()); });
  ConsumerOptions options;
  options.logger = [&](const LogEntry& entry) {
    check_entry(entry);
    const std::lock_guard lock(mutex);
    texts.logged += entry.line;
  };
  Consumer consumer(
      client, "q", [](const Message&) { return ack(); }, options);
  texts.start = thrown([&] { consumer.start(); });
  static_cast<void>(consumer.stop(100ms));
  check_text(consumer.metrics().stats.last_error);
  return texts;
}

TEST_CASE("hostile answers: the error of a server is escaped, for every kind of answer") {
  ScriptedServer refuses([](const Words&) { return kError; });
  const Texts texts = all_classes("redis://" + refuses.host());
  check_shown(texts.send);
  check_shown(texts.counts);
  check_shown(texts.start);
  ScriptedServer later([](const Words& words) { return words[0] == "HELLO" ? hello() : kError; });
  const Texts of_commands = all_classes("redis://" + later.host());
  check_shown(of_commands.send);
  check_shown(of_commands.counts);
  ScriptedServer away([](const Words& words) {
    return words[0] == "HELLO" ? hello() : "-LOADING " + one_line(kHostileAnswer) + "\r\n";
  });
  check_shown(all_classes("redis://" + away.host()).logged);
}

TEST_CASE("hostile answers: a version and bytes that are not RESP are escaped") {
  ScriptedServer old([](const Words&) { return hello("5." + kHostileAnswer); });
  check_shown(all_classes("redis://" + old.host()).send);
  ScriptedServer mute([](const Words&) { return kHostileAnswer; });
  all_classes("redis://" + mute.host());
}

TEST_CASE("hostile answers: a long error is cut") {
  ScriptedServer server([](const Words&) { return "-ERR " + std::string(100'000, 'x') + "\r\n"; });
  const std::string text = all_classes("redis://" + server.host()).send;
  CHECK_MESSAGE(text.find("xxx...") != std::string::npos, text);
  CHECK(text.size() < 1200);
}

TEST_CASE("hostile answers: the fields that a server reports about itself are escaped in ServerInfo and its risks") {
  ScriptedServer server([](const Words& words) -> std::string {
    if (words[0] == "HELLO") return hello();
    if (words[0] == "EXISTS") return ":0\r\n";
    if (words[0] == "HMGET") return array({"$-1\r\n"});
    if (words[0] == "TIME") return array({bulk("1700000000"), bulk("0")});
    if (words[0] == "CONFIG") return array({bulk(words[2]), bulk(kHostileAnswer)});
    std::string info = "redis_version:" + kHostileAnswer + "\r\nmaxmemory:1" + kHostileAnswer +
                       "\r\nmaxmemory_policy:allkeys" + kHostileAnswer +
                       "\r\naof_enabled:0\r\nrole:slave\r\nmaster_host:" + kHostileAnswer +
                       "\r\nmaster_port:" + kHostileAnswer + "\r\nredis_mode:" + kHostileAnswer + "\r\n";
    return bulk(info);
  });
  Inspector inspector("redis://" + server.host(), "q");
  const ServerInfo info = inspector.server();
  CHECK(info.risks.size() >= 3);
  for (const Risk& risk : info.risks) check_text(risk.text);
  check_shown(info.version);
  for (const auto& text : {info.address, info.product, info.version, info.role, info.mode, info.eviction,
                           info.append_only, info.fsync, info.snapshots}) {
    check_text(text);
  }
  ScriptedServer silent([](const Words& words) -> std::string { return words[0] == "HELLO" ? hello() : kError; });
  for (const Risk& risk : [&] {
         try {
           return Inspector("redis://" + silent.host(), "q").server().risks;
         } catch (const Error& e) {
           check_text(e.what());
           return std::vector<Risk>{};
         }
       }()) {
    check_text(risk.text);
  }
}

TEST_CASE("hostile answers: the answers of a Sentinel are escaped") {
  ScriptedServer replica([](const Words& words) -> std::string {
    if (words[0] == "ROLE") return array({bulk(kHostileAnswer)});
    return hello();
  });
  const auto sentinel = [](const std::string& address) {
    return [address](const Words& words) -> std::string {
      if (words[0] == "HELLO") return hello();
      if (words[0] != "SENTINEL") return kError;
      return words[1] == "MASTER" ? array({bulk("config-epoch"), bulk("1")}) : address;
    };
  };
  ScriptedServer refuses([](const Words& words) { return words[0] == "HELLO" ? hello() : kError; });
  check_shown(all_classes("redis+sentinel://" + refuses.host() + "/m").send);
  ScriptedServer strange(sentinel(array({bulk(kHostileAnswer), bulk("1")})));
  check_shown(all_classes("redis+sentinel://" + strange.host() + "/m").send);
  ScriptedServer honest(sentinel(array({bulk("127.0.0.1"), bulk(std::to_string(replica.port()))})));
  check_shown(all_classes("redis+sentinel://" + honest.host() + "/m").send);
  for (const std::string port : {"0", "-1", "65536", "9223372036854775807"}) {
    ScriptedServer off(sentinel(array({bulk("127.0.0.1"), bulk(port)})));
    const std::string text = all_classes("redis+sentinel://" + off.host() + "/m").send;
    CHECK_MESSAGE(text.find("port " + port) != std::string::npos, text);
  }
}

TEST_CASE("hostile answers: the answers of a Cluster node are escaped") {
  const auto node = [](const std::string& host, const std::string& port, const std::string& answer) {
    return [=](const Words& words) -> std::string {
      if (words[0] == "HELLO") return hello();
      if (words[0] != "CLUSTER") return answer;
      if (words[1] == "INFO") return bulk("cluster_state:ok");
      return array({array({":0\r\n", ":16383\r\n", array({bulk(host), ":" + port + "\r\n"})})});
    };
  };
  ScriptedServer refuses([](const Words& words) { return words[0] == "HELLO" ? hello() : kError; });
  check_shown(all_classes("redis+cluster://" + refuses.host()).send);
  ScriptedServer strange(node(kHostileAnswer, "1", kError));
  check_shown(all_classes("redis+cluster://" + strange.host()).send);
  for (const std::string port : {"0", "-1", "65536", "9223372036854775807"}) {
    ScriptedServer off(node("127.0.0.1", port, kError));
    const std::string text = all_classes("redis+cluster://" + off.host()).send;
    CHECK_MESSAGE(text.find("port " + port) != std::string::npos, text);
  }
  for (const std::string kind : {"MOVED", "ASK"}) {
    int own = 0;
    ScriptedServer moves([&, kind](const Words& words) {
      const std::string away = "-" + kind + " 7 " + one_line(kHostileAnswer) + ":1\r\n";
      return node("127.0.0.1", std::to_string(own), away)(words);
    });
    own = moves.port();
    check_shown(all_classes("redis+cluster://" + moves.host()).send);
  }
}

TEST_CASE("hostile answers: a consumer escapes the id of a message in its log") {
  const std::string queue = test::fresh_queue();
  const std::string base = "dp:" + queue;
  test::redis().cmd({"LPUSH", base + ":ready", "zz" + kHostileAnswer});
  test::redis().cmd({"HSET", base + ":retry:cnt", "zz" + kHostileAnswer, "1"});
  std::mutex mutex;
  std::vector<std::string> lines;
  ConsumerOptions options;
  options.logger = [&](const LogEntry& entry) {
    const std::lock_guard lock(mutex);
    lines.push_back(entry.line);
  };
  Consumer consumer(
      test::server().url(), queue, [](const Message&) { return ack(); }, options);
  consumer.start();
  CHECK(test::eventually([&] {
    const std::lock_guard lock(mutex);
    return std::any_of(lines.begin(), lines.end(), [](const auto& line) { return line.find("zz") != line.npos; });
  }));
  CHECK(consumer.stop());
  for (const std::string& line : lines) check_text(line);
}

TEST_CASE("hostile numbers: a clock, an uptime or a pause beyond the range of the clock types overflows nothing") {
  for (const std::string number : {"9223372036854775807", "-9223372036854775808", "9223372036855", "0"}) {
    CAPTURE(number);
    ScriptedServer server([&](const Words& words) -> std::string {
      if (words[0] == "HELLO") return hello();
      if (words[0] == "EXISTS") return ":0\r\n";
      if (words[0] == "HMGET") return array({"$-1\r\n", "$-1\r\n", "$-1\r\n"});
      if (words[0] == "HGET") return bulk(number + " who");  // who has set the pause
      if (words[0] == "TIME") return array({bulk(number), bulk(number)});
      if (words[0] == "CONFIG") return array({});
      if (words[0] == "INFO") return bulk("redis_version:7.0.15\r\nuptime_in_seconds:" + number + "\r\n");
      return array({":" + number + "\r\n", ":1\r\n", bulk("why"), ":" + number + "\r\n"});  // the pause
    });
    Inspector inspector("redis://" + server.host(), "q");
    const ServerInfo info = inspector.server();
    CHECK(info.uptime.value_or(0s) >= 0s);
    CHECK(info.uptime.value_or(0s) <= 36'500 * 24h);
    CHECK(info.clock_ahead <= 400 * 8766h);
    CHECK(info.clock_ahead >= -400 * 8766h);
    for (const Risk& risk : info.risks) check_text(risk.text);
    const auto pause = inspector.paused();
    REQUIRE(pause);
    CHECK(pause->until.has_value() == (number[0] != '-'));
    const bool of_another = number.back() % 2 == 0;  // an even generation: see PauseState::is_local()
    CHECK(pause->who == (of_another ? "" : "who"));
    thrown([&] { static_cast<void>(inspector.actions()); });
    thrown([&] { static_cast<void>(inspector.find("0197f3a4-5b6c-7d8e-9f01-23456789abcd")); });
  }
}

}  // namespace
