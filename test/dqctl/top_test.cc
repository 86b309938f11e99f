// Tests of dqctl top in a pseudo-terminal.
#include "preamble.h"

#include "screen.h"
#include "work_support.h"

using delayqueue::Inspector;
using delayqueue::Producer;
using delayqueue::SendOptions;
using test::Emulator;
using test::Screen;

namespace {

constexpr char kUp[] = "\033[A", kDown[] = "\033[B", kPageDown[] = "\033[6~", kPageUp[] = "\033[5~", kEscape[] = "\033";

void send_copies(const std::string& queue, int count, const SendOptions& options = {},
                 const std::string& payload = "hello", const std::string& url = test::server().url()) {
  Producer producer(url, queue);
  for (int i = 0; i < count; ++i) producer.send(payload, options);
}

SendOptions later() { return delayed(std::chrono::hours(1)); }

// Makes two queues: "many" with 7 pending and 3 ready messages, "some" with 12 ready ones.
void make_many_and_some() {
  test::redis().cmd({"FLUSHALL"});
  send_copies("many", 7, later());
  send_copies("many", 3);
  send_copies("some", 12);
}

std::string row_of(const Emulator& seen, const std::string& queue) {
  for (std::size_t i = 2; i < 30; ++i) {
    if (seen.line(i).substr(0, 2 + queue.size()).find(queue) == 2) return seen.line(i);
  }
  return "";
}

}  // namespace

TEST_CASE("top: it shows the queues with their counts, and restores the terminal") {
  make_many_and_some();
  Screen screen({"top", "--interval", "200ms"});
  REQUIRE(screen.shows("some"));
  CHECK(screen.seen().alternate());
  CHECK_FALSE(screen.seen().cursor_shown());
  CHECK_FALSE(screen.restored());
  CHECK(has(screen.seen().line(0), "dqctl top  2 queues by name"));
  CHECK(has(screen.seen().line(1), "QUEUE              PENDING READY UNACK RETRY  DEAD OLDEST SENT/S  ACK/S FAIL/S"));
  CHECK(has(screen.seen().line(2), "> many"));
  CHECK(has(screen.seen().line(2), " 7     3     0     0     0"));
  CHECK(has(screen.seen().line(3), "  some"));
  CHECK(has(screen.seen().line(3), " 0    12     0     0     0"));
  CHECK(has(screen.seen().line(23), "q quit"));
  send_copies("some", 5);  // the next refresh shows the rate
  CHECK(screen.wait([](const Emulator& seen) { return row_of(seen, "some").find(" 17 ") != std::string::npos; }));
  CHECK(screen.wait([](const Emulator& seen) { return row_of(seen, "some").find("0.0    0.0") != std::string::npos; }));
  screen.type("q");
  CHECK(screen.code() == 0);
  CHECK(screen.restored());
  CHECK(screen.seen().strange().empty());
}

TEST_CASE("top: it shows only the named queues, and of them those that match the filter") {
  make_many_and_some();
  send_copies("more", 1);
  Screen screen({"top", "many", "more"});
  REQUIRE(screen.shows("more"));
  CHECK(screen.seen().text().find("some") == std::string::npos);
  screen.type("/ORE");
  REQUIRE(screen.shows("Show queues with: ORE_"));
  REQUIRE(screen.shows_not("many"));
  screen.type("\x7f\x7f\x7fnone");
  REQUIRE(screen.shows("No queue has such a name"));
  screen.type(kEscape);
  REQUIRE(screen.shows("many"));
  screen.type("q");
  CHECK(screen.code() == 0);
}

TEST_CASE("top: s sorts by the next column and names it, r reverses the order") {
  make_many_and_some();
  Screen screen({"top"});
  REQUIRE(screen.shows("> many"));
  screen.type("jk");  // after a move the cursor follows its queue
  screen.type("s");
  REQUIRE(screen.shows("by pending"));
  CHECK(has(screen.seen().line(2), "many"));
  screen.type("s");
  REQUIRE(screen.shows("by ready"));
  CHECK(has(screen.seen().line(2), "some"));
  CHECK(has(screen.seen().line(3), "> many"));
  screen.type("r");
  REQUIRE(screen.shows("by ready, reversed"));
  CHECK(has(screen.seen().line(2), "many"));
  screen.type(std::string(kDown) + "k" + kUp + "j");
  REQUIRE(screen.shows("> some"));
  screen.type("\x03");
  CHECK(screen.code() == 0);
  CHECK(screen.restored());
}

TEST_CASE("top: p pauses and resumes a queue after the answer y only") {
  make_many_and_some();
  Inspector some(test::server().url(), "some");
  Screen screen({"top"});
  REQUIRE(screen.shows("> many"));
  screen.type(std::string("j"));
  REQUIRE(screen.shows("> some"));
  screen.type("p");
  REQUIRE(screen.shows("Pause some? Its consumers take nothing then. (y/n)"));
  screen.type("n");
  REQUIRE(screen.shows_not("Pause some?"));
  CHECK_FALSE(some.counts().paused);
  screen.type("p");
  REQUIRE(screen.shows("Pause some?"));
  screen.type("y");
  REQUIRE(screen.shows("some is paused"));
  CHECK(some.counts().paused);
  REQUIRE(screen.shows("some [paused]"));
  screen.type("p");
  REQUIRE(screen.shows("Resume some? (y/n)"));
  screen.type("y");
  REQUIRE(screen.shows("some is resumed"));
  CHECK_FALSE(some.counts().paused);
}

TEST_CASE("top: R redrives all dead letters of the queue after the answer y only, and shows their number before") {
  test::redis().cmd({"FLUSHALL"});
  test::make_dead("a", 450, "why");
  send_copies("b", 1);
  Screen screen({"top", "--interval", "200ms"});
  REQUIRE(screen.shows("> a"));
  screen.type("R");
  REQUIRE(screen.shows("Redrive 450 dead letters of a? (y/n)"));
  test::make_dead("a", 1, "why");
  REQUIRE(screen.shows("Redrive 451 dead letters of a? (y/n)"));  // the number follows the queue
  screen.type("n");
  REQUIRE(screen.shows_not("Redrive 451"));
  CHECK(test::counts("a").dead == 451);
  screen.type("R");
  REQUIRE(screen.shows("Redrive 451"));
  screen.type("y");
  REQUIRE(screen.shows("redriven 451 of 451 dead letters of a"));
  CHECK(test::counts("a").dead == 0);
  CHECK(test::counts("a").ready == 451);
  REQUIRE(screen.wait([](const Emulator& seen) { return row_of(seen, "a").find(" 451 ") != std::string::npos; }));
  screen.type("j");
  REQUIRE(screen.shows("> b"));
  screen.type("R");
  REQUIRE(screen.shows("b has no dead letter"));
  screen.type("q");
  CHECK(screen.code() == 0);
}

TEST_CASE("top: a redrive that an error ends shows how many were redriven, and top goes on") {
  test::redis().cmd({"FLUSHALL"});
  test::make_dead("q", 3, "why");
  Screen screen({"top"});
  REQUIRE(screen.shows("> q"));
  screen.type("R");
  REQUIRE(screen.shows("Redrive 3 dead letters"));
  test::redis().cmd({"DEL", "dp:q:ready"});
  test::redis().cmd({"SET", "dp:q:ready", "of another program"});
  screen.type("y");
  REQUIRE(screen.wait(
      [](const Emulator& seen) { return has(seen.text(), "cannot redrive q: ") || has(seen.text(), ", then: "); }));
  screen.type("q");
  CHECK(screen.code() == 0);
  CHECK(test::redis().cmd({"ZCARD", "dp:q:dead"}) == 3);
  test::redis().cmd({"FLUSHALL"});
}

TEST_CASE("top: R, L and B redrive, release and bury the chosen message after the answer y only") {
  test::redis().cmd({"FLUSHALL"});
  const std::string dead = test::make_dead("dead", 1, "why").front();
  const std::string waiting = test::send("waiting", {"x"}, std::chrono::hours(1)).front();
  const std::string held = test::hold("unack", std::chrono::hours(1));
  Inspector dead_queue(test::server().url(), "dead"), waiting_queue(test::server().url(), "waiting");
  Screen screen({"top", "dead", "waiting", "unack"});
  REQUIRE(screen.shows("> dead"));
  screen.type("\r");
  REQUIRE(screen.shows("> …"));
  screen.type("L");
  REQUIRE(screen.shows("Only a message in pending, or in a backoff, can be released"));
  screen.type("B");
  REQUIRE(screen.shows("It is a dead letter already"));
  screen.type("R");
  REQUIRE(screen.shows("Redrive " + dead + ", a dead letter? (y/n)"));
  screen.type("n");
  REQUIRE(screen.shows_not("Redrive " + dead));
  CHECK(dead_queue.counts().dead == 1);
  screen.type("\r");
  REQUIRE(screen.shows("as text"));
  screen.type("R");
  REQUIRE(screen.shows("Redrive " + dead));
  screen.type("y");
  REQUIRE(screen.shows(dead + " is ready again"));
  CHECK(dead_queue.find(dead)->state == delayqueue::State::ready);
  screen.type("qq");
  REQUIRE(screen.shows("> dead"));

  screen.type("jj");  // in the order of the names: dead, unack, waiting
  REQUIRE(screen.shows("> waiting"));
  screen.type("\r");
  REQUIRE(screen.shows("> …"));
  screen.type("L");
  REQUIRE(screen.shows("Release " + waiting + ", to deliver it now? (y/n)"));
  screen.type("y");
  REQUIRE(screen.shows(waiting + " is ready"));
  CHECK(waiting_queue.find(waiting)->state == delayqueue::State::ready);
  screen.type("2");
  REQUIRE(screen.shows("[2 ready 1]"));
  REQUIRE(screen.shows("> …"));
  screen.type("B");
  REQUIRE(screen.shows("Bury " + waiting + ", as a dead letter? (y/n)"));
  screen.type("y");
  REQUIRE(screen.shows(waiting + " is a dead letter"));
  CHECK(waiting_queue.find(waiting)->reason == "buried with dqctl top");
  screen.type("q");
  REQUIRE(screen.shows("> waiting"));

  screen.type("k");
  REQUIRE(screen.shows("> unack"));
  screen.type("\r");
  REQUIRE(screen.shows("> …"));
  screen.type("B");
  REQUIRE(screen.shows("A consumer holds it: see dqctl bury --force"));
  CHECK(Inspector(test::server().url(), "unack").find(held)->state == delayqueue::State::unack);
  screen.type("qq");
  CHECK(screen.code() == 0);
}

TEST_CASE("top: with --read-only no key changes anything, and no key for it is shown") {
  test::redis().cmd({"FLUSHALL"});
  test::make_dead("q", 1, "why");
  Screen screen({"top", "--read-only"});
  REQUIRE(screen.shows("> q"));
  CHECK_FALSE(has(screen.seen().text(), "p pause"));
  CHECK_FALSE(has(screen.seen().text(), "R redrive"));
  for (const char* key : {"p", "R"}) {
    screen.type(key);
    REQUIRE(screen.shows("Nothing is changed with --read-only"));
    screen.type("y");
    REQUIRE(screen.shows_not("Nothing is changed"));
  }
  screen.type("\r");
  REQUIRE(screen.shows("> …"));
  for (const char* key : {"p", "R", "L", "B"}) {
    screen.type(key);
    REQUIRE(screen.shows("Nothing is changed with --read-only"));
    screen.type("y");
    REQUIRE(screen.shows_not("Nothing is changed"));
  }
  CHECK(test::counts("q").dead == 1);
  CHECK_FALSE(test::counts("q").paused);
}

TEST_CASE("top: with --audit the changes are recorded, and without it they are not") {
  for (const bool audit : {false, true}) {
    CAPTURE(audit);
    test::redis().cmd({"FLUSHALL"});
    test::make_dead("q", 3, "why");
    Screen screen(audit ? std::vector<std::string>{"top", "--audit"} : std::vector<std::string>{"top"});
    REQUIRE(screen.shows("> q"));
    screen.type("R");
    REQUIRE(screen.shows("Redrive 3"));
    screen.type("y");
    REQUIRE(screen.shows("redriven 3 of 3 dead letters of q"));
    screen.type("p");
    REQUIRE(screen.shows("Pause q?"));
    screen.type("y");
    REQUIRE(screen.shows("q is paused"));
    const auto actions = Inspector(test::server().url(), "q").actions();
    REQUIRE(actions.size() == (audit ? 2 : 0));
    if (!audit) continue;
    CHECK(actions[0].what == "dqctl top: pause q");
    CHECK_FALSE(actions[0].messages);
    CHECK(actions[1].what == "dqctl top: redrive q --all");
    CHECK(*actions[1].messages == 3);
    CHECK(actions[1].outcome == "done");
  }
}

TEST_CASE("top: it opens a queue, turns its pages, and shows a message") {
  make_many_and_some();
  send_copies("some", 30);
  Screen screen({"top"});
  REQUIRE(screen.shows("> many"));
  screen.type("j");
  REQUIRE(screen.shows("> some"));
  screen.type("\r");
  REQUIRE(screen.shows("[2 ready 42]"));
  REQUIRE(screen.shows("> …"));
  CHECK(has(screen.seen().line(2), "ID"));
  CHECK(has(screen.seen().line(2), "SENT"));
  CHECK(has(screen.seen().line(3), "hello"));
  CHECK(has(screen.seen().line(3), " 5 B"));
  const std::string first = screen.seen().line(3);
  screen.type(kPageDown);
  REQUIRE(screen.shows("page 2"));
  REQUIRE(screen.wait([&](const Emulator& seen) { return seen.line(3) != first && seen.line(3)[0] == '>'; }));
  screen.type(kPageDown);
  REQUIRE(screen.shows("page 3"));
  REQUIRE(screen.shows_not("Loading"));
  CHECK(screen.seen().line(3 + 42 % 19).empty());
  screen.type(kPageUp);
  REQUIRE(screen.shows("page 2"));
  screen.type(kPageUp);
  REQUIRE(screen.shows_not("page 2"));
  REQUIRE(screen.shows_not("Loading"));
  const std::string end_of_id = first.substr(first.find("…") + 3, 12);
  screen.type("\r");
  REQUIRE(screen.shows("as text"));
  CHECK(has(screen.seen().line(1), end_of_id));
  CHECK(has(screen.seen().text(), "state         ready"));
  CHECK(has(screen.seen().text(), "retries left  3"));
  CHECK(has(screen.seen().text(), "payload       5 B, as text\n  hello\n"));
  screen.type("x");
  REQUIRE(screen.shows("00000000  68 65 6c 6c 6f"));
  screen.type(kEscape);
  REQUIRE(screen.shows("[2 ready 42]"));
  screen.type("\t");
  REQUIRE(screen.shows("[3 unack 0]"));
  REQUIRE(screen.shows("No message is unack"));
  screen.type("1");
  REQUIRE(screen.shows("[1 pending 0]"));
  screen.type("\033[Z");
  REQUIRE(screen.shows("[5 dead 0]"));
  screen.type("q");
  REQUIRE(screen.shows("> some"));
  screen.type("q");
  CHECK(screen.code() == 0);
}

TEST_CASE("top: a long message is folded and can be scrolled") {
  test::redis().cmd({"FLUSHALL"});
  std::string payload = std::string(100, 'a') + "END\n";
  for (int i = 0; i < 50; ++i) payload += "line " + std::to_string(i) + "\n";
  send_copies("q", 1, later(), payload);
  Screen screen({"top"});
  REQUIRE(screen.shows("> q"));
  screen.type("\r");
  REQUIRE(screen.shows("> …"));
  screen.type("\r");
  REQUIRE(screen.shows("\n  " + std::string(76, 'a') + "\n  " + std::string(24, 'a') + "END\n  line 0\n"));
  screen.type("G");
  REQUIRE(screen.shows("line 49"));
  CHECK(screen.seen().text().find("retries left") == std::string::npos);
  screen.type("g");
  REQUIRE(screen.shows("retries left"));
}

TEST_CASE("top: a payload, a reason or a name with control characters is escaped") {
  test::redis().cmd({"FLUSHALL"});
  const std::string evil =
      "\033]0;evil\007\033[2J\x9b"
      "31m\r\n\tend\xff";
  test::send("q" + evil, {evil}, std::chrono::hours(1));
  Screen screen({"top"});
  REQUIRE(screen.shows("q\\x1b]0;evil"));
  screen.type("\r");
  REQUIRE(screen.shows("[1 pending 1]"));
  REQUIRE(screen.shows("> …"));
  CHECK(has(screen.seen().text(), "\\x1b]0;evil\\x07"));
  screen.type("\r");
  REQUIRE(screen.shows("\\x1b]0;evil\\x07\\x1b[2J\\x9b31m\\r\n  \\tend\\xff"));
  screen.type("x");
  REQUIRE(screen.shows("1b 5d 30 3b 65 76 69 6c"));
  screen.type("qqq");
  CHECK(screen.code() == 0);
  CHECK(screen.seen().strange().empty());
  CHECK(screen.raw().find("\033]") == std::string::npos);
  CHECK(screen.raw().find('\007') == std::string::npos);
}

TEST_CASE("top: it restores the terminal after a signal") {
  make_many_and_some();
  for (const int number : {SIGTERM, SIGINT}) {
    Screen screen({"top"});
    REQUIRE(screen.shows("> many"));
    screen.signal(number);
    CHECK(screen.code() == 130);
    CHECK(screen.restored());
  }
  Screen screen({"top"});
  REQUIRE(screen.shows("> many"));
  screen.signal(SIGQUIT);
  CHECK(screen.code() == 128 + SIGQUIT);
  CHECK(screen.restored());
}

TEST_CASE("top: Ctrl-Z and SIGTSTP restore the terminal, and SIGCONT continues where it was") {
  make_many_and_some();
  Screen screen({"top"});
  REQUIRE(screen.shows("> many"));
  for (const bool by_key : {true, false}) {
    by_key ? screen.type("\x1a") : screen.signal(SIGTSTP);
    REQUIRE(eventually([&] { return screen.stopped(); }));
    REQUIRE(screen.wait([](const Emulator& seen) { return !seen.alternate(); }));
    CHECK(screen.restored());
    screen.signal(SIGCONT);
    REQUIRE(screen.wait([](const Emulator& seen) { return seen.alternate(); }));
    REQUIRE(screen.shows("> many"));
  }
  screen.type("q");
  CHECK(screen.code() == 0);
  CHECK(screen.restored());
}

TEST_CASE("top: it follows the size of the terminal, down to one character") {
  make_many_and_some();
  Screen screen({"top"});
  REQUIRE(screen.shows("> many"));
  CHECK(screen.seen().text().find("OVERDUE") == std::string::npos);
  screen.resize(200, 50);
  REQUIRE(screen.shows("DELIV/S"));
  REQUIRE(screen.wait([](const Emulator& seen) { return has(seen.line(49), "q quit"); }));
  CHECK(has(screen.seen().line(1), "OVERDUE"));
  CHECK(has(screen.seen().line(1), "ACKED PER SECOND"));
  for (const std::pair<std::size_t, std::size_t>& size :
       {std::pair<std::size_t, std::size_t>{50, 10}, {20, 5}, {7, 2}, {1, 1}}) {
    screen.resize(size.first, size.second);
    screen.type("?");
    screen.type("?\rq");
  }
  screen.resize(80, 24);
  REQUIRE(screen.shows("FAIL/S"));
  screen.type("?");
  REQUIRE(screen.shows("dqctl top: help"));
  screen.type("xq");
  CHECK(screen.code() == 0);
}

TEST_CASE("top: it marks the queues of which stuck warns, shows the finding, and marks no others") {
  test::redis().cmd({"FLUSHALL"});
  send_copies("alone", 1, with(&SendOptions::id, test::id_made(std::chrono::minutes(20))));
  send_copies("due", 1, later());
  test::rewind("dp:due", std::chrono::hours(1) + std::chrono::minutes(2));
  test::make_dead("one dead", 1, "why");
  send_copies("paused", 1);
  delayqueue::QueueAdmin(test::server().url(), "paused").pause();
  send_copies("young", 1);
  const auto queues = parse_json(run({"stuck", "-o", "json"}).out).at("queues");
  REQUIRE(queues.size() == 5);
  Screen screen({"top", "--interval", "60s"});  // the first refresh does not wait for this interval
  REQUIRE(screen.shows("!alone"));
  for (const auto& queue : queues) {
    const std::string name = queue.at("queue"), mark = queue.at("level") == "ok" ? " " : "!";
    CAPTURE(name);
    CHECK(has(screen.seen().text(), mark + name));
    CHECK((queue.at("level") == "critical") == (name == "alone"));
  }
  CHECK(has(screen.seen().line(22), "critical: 1 message waits in ready and retry, the first was sent 20m"));
  screen.type("j");
  REQUIRE(screen.shows("warning: 1 message is due and not taken"));
  screen.type("\r");
  REQUIRE(screen.shows("[1 pending 1]"));
  CHECK(has(screen.seen().line(22), "warning: 1 message is due"));
}

TEST_CASE("top: a queue that consumers serve has no mark, even if its backlog is old") {
  test::redis().cmd({"FLUSHALL"});
  Producer producer(test::server().url(), "q");
  for (int i = 0; i < 500; ++i) {
    producer.send("x", with(&SendOptions::id, test::id_made(std::chrono::minutes(20), i)));
  }
  delayqueue::Consumer consumer(
      test::server().url(), "q",
      [](const auto&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return delayqueue::ack();
      },
      with(&delayqueue::ConsumerOptions::concurrency, 1));
  consumer.start();
  Screen screen({"top", "--interval", "300ms"});
  REQUIRE(screen.shows("> q"));
  const auto acked = consumer.metrics().stats.acked;
  REQUIRE(eventually([&] { return consumer.metrics().stats.acked >= acked + 150; }));  // 3 s, several refreshes
  screen.shows("q quit");
  CHECK(screen.raw().find("!") == std::string::npos);
  CHECK(consumer.metrics().stats.acked < 500);
  CHECK(consumer.stop());
}

TEST_CASE("top: without colours, marks show the warnings") {
  make_many_and_some();
  const std::string id = Producer(test::server().url(), "many").send("x", with(&SendOptions::retries, 0)).id;
  test::redis().cmd({"ZADD", "dp:many:dead", "1700000000", id});
  test::rewind("dp:many", std::chrono::hours(1) + std::chrono::minutes(20));
  for (const bool by_option : {false, true}) {
    Screen screen(
        by_option ? std::vector<std::string>{"top", "--no-color"} : std::vector<std::string>{"top"},
        by_option ? std::map<std::string, std::string>{} : std::map<std::string, std::string>{{"NO_COLOR", "1"}});
    REQUIRE(screen.shows(">!many"));
    for (const char* code : {"\033[0;1;31m", "\033[0;1;7m", ";35m"})
      CHECK(screen.raw().find(code) == std::string::npos);
  }
  Screen screen({"top"});
  REQUIRE(screen.shows(">!many"));
  for (const char* code : {"31m", "7m"}) CHECK(has(screen.raw(), code));
  for (const char* code : {"30m", "33m", "34m", "37m", "9"}) {  // hard to read on a light or on a dark background
    CHECK(screen.raw().find(std::string("\033[0;1;") + code) == std::string::npos);
  }
}

TEST_CASE("top: if the server stops, it shows that, tries again, and keys still work") {
  delayqueue::PrivateServer server;
  send_copies("q", 3, {}, "hello", server.url());
  Screen screen({"top", "--interval", "200ms", "--connect-timeout", "60s", "--command-timeout", "60s"},
                {{"DELAYQUEUE_URI", server.url()}});
  REQUIRE(screen.shows("> q"));
  server.kill();
  REQUIRE(screen.shows("No answer for "));
  CHECK(has(screen.seen().text(), "trying again: "));
  screen.type("?");
  REQUIRE(screen.shows("dqctl top: help"));
  screen.type("?");
  REQUIRE(screen.shows("> q"));
  server.restart();
  REQUIRE(screen.shows_not("No answer"));
  ::kill(server.pid(), SIGSTOP);  // the server is silent: no answers, no errors
  screen.type("\r");
  REQUIRE(screen.shows("Loading ..."));
  screen.type("qq");
  CHECK(screen.code() == 0);  // long before --command-timeout
  CHECK(screen.restored());
  ::kill(server.pid(), SIGCONT);
}

TEST_CASE("top: a queue with a key of a wrong type does not hide the others") {
  make_many_and_some();
  test::redis().cmd({"SET", "dp:other:ready", "x"});
  test::redis().cmd({"SADD", "dp:queues", "dp:other"});
  Screen screen({"top"}, {}, 200, 50);
  REQUIRE(screen.shows("many"));
  CHECK(has(screen.seen().text(), "!other"));
  CHECK(has(screen.seen().text(), "WRONGTYPE"));
  test::redis().cmd({"FLUSHALL"});
}

TEST_CASE("top: wrong arguments, a missing queue and an unreachable server have their exit codes") {
  make_many_and_some();
  expect(run({"top"}), 2, {err_has("top needs a terminal on stdin and stdout; expected dqctl stats QUEUE --watch 2s")});
  Screen dumb({"top"}, {{"TERM", "dumb"}});
  CHECK(dumb.code() == 2);
  Screen as_json({"top", "-o", "json"});
  CHECK(as_json.code() == 2);
  CHECK(has(as_json.raw(), "stats --watch 2s -o ndjson"));
  Screen fast({"top", "--interval", "1ms"});
  CHECK(fast.code() == 2);
  Screen missing({"top", "not there"});
  CHECK(missing.code() == 3);
  CHECK(has(missing.raw(), "queue 'not there' is not at "));
  Screen nowhere({"top"}, {{"DELAYQUEUE_URI", "redis://127.0.0.1:1"}});
  CHECK(nowhere.code() == 1);
  CHECK(nowhere.raw().find("\033[?1049h") == std::string::npos);
  CHECK(has(run({"top", "--help"}).out, "dqctl top orders mails"));
}
