// The commands that run until they are stopped: top, work and events. They read hostile values that another user of the
// same Redis, or a sender of events, has written.
#include "preamble.h"

#include "dqctl_here.h"
#include "hostile_queue.h"
#include "output/text.h"
#include "screen.h"
#include "top/top.h"

using test::Fields;
using test::HostileValue;

namespace {

std::vector<HostileValue> all_values() {
  std::vector<HostileValue> values = test::hostile_strings();
  values.insert(values.end(), test::hostile_numbers().begin(), test::hostile_numbers().end());
  return values;
}

// The text of a row, without the code that clears the rest of the line.
std::string without_clearing(std::string row) {
  const std::string clear = "\x1b[K";
  if (row.size() >= clear.size() && row.compare(row.size() - clear.size(), clear.size(), clear) == 0) {
    row.resize(row.size() - clear.size());
  }
  return row;
}

void check_screen(dqctl::Top& top, const dqctl::Snapshot& snapshot, dqctl::Size size) {
  const std::vector<std::string> rows = top.draw(size, snapshot).rows(false);
  CHECK(rows.size() == size.rows);
  for (const std::string& row : rows) {
    const std::string text = without_clearing(row);
    CHECK_MESSAGE(dqctl::printable(text) == text, dqctl::printable(text));
    CHECK(dqctl::width_of(text) <= size.columns);
  }
}

void press(dqctl::Top& top, const dqctl::Snapshot& snapshot, const std::string& keys) {
  for (const char key : keys) {
    const auto kind = key == '\n'   ? dqctl::Key::Kind::enter
                      : key == '\t' ? dqctl::Key::Kind::tab
                                    : dqctl::Key::Kind::text;
    top.press(dqctl::Key{kind, kind == dqctl::Key::Kind::text ? std::string(1, key) : ""}, snapshot);
  }
}

// Waits until the poller has answered the request of the screen.
dqctl::Snapshot look(dqctl::Poller& poller, const dqctl::Top& top) {
  const dqctl::ViewRequest request = top.view_request();
  poller.request_view(request);
  eventually([&] {
    const dqctl::Snapshot snapshot = poller.snapshot();
    return !snapshot.error.empty() || (snapshot.request && *snapshot.request == request);
  });
  return poller.snapshot();
}

void walk_through_top() {
  dqctl::Context context;
  context.options.uri = test::server().url();
  context.resolve_options();
  dqctl::Poller poller(context, {}, 100ms, [] {});
  poller.start();
  dqctl::Top top(dqctl::TopOptions{});
  for (const dqctl::Size size : {dqctl::Size{80, 24}, dqctl::Size{200, 50}, dqctl::Size{20, 5}, dqctl::Size{1, 1}}) {
    check_screen(top, look(poller, top), size);
    for (int sort = 0; sort < dqctl::kSorts; ++sort) {
      press(top, poller.snapshot(), "s");
      check_screen(top, poller.snapshot(), size);
    }
  }
  const dqctl::Size size{80, 24};
  for (const dqctl::QueueSnapshot& queue : poller.snapshot().queues) {
    if (queue.name != test::kQueue) press(top, poller.snapshot(), "j");
  }
  for (const char* change : {"p", "R"}) {
    press(top, poller.snapshot(), change);
    check_screen(top, poller.snapshot(), size);
    press(top, poller.snapshot(), "n");
  }
  press(top, poller.snapshot(), "\n");
  for (const char* state : {"1", "2", "3", "4", "5"}) {
    press(top, poller.snapshot(), state);
    check_screen(top, look(poller, top), size);
    for (const char* change : {"GR", "L", "B"}) {
      press(top, poller.snapshot(), change);
      check_screen(top, poller.snapshot(), size);
      press(top, poller.snapshot(), "n");
    }
    press(top, poller.snapshot(), "G\n");
    check_screen(top, look(poller, top), size);
    press(top, poller.snapshot(), "xq");
    check_screen(top, look(poller, top), size);
  }
  poller.stop(10s);
}

}  // namespace

TEST_CASE("hostile Redis: no screen of top prints a control character, or is wider than the terminal") {
  test::Watchdog watchdog;
  for (const HostileValue& value : all_values()) {
    for (const Fields fields : {Fields::others, Fields::counted}) {
      CAPTURE(value.name);
      watchdog.step("top: " + value.name);
      test::build_spoiled(fields, value.bytes);
      walk_through_top();
    }
  }
}

TEST_CASE("hostile Redis: top sends a terminal only the sequences that it needs") {
  test::build_spoiled(Fields::others, test::hostile_strings()[1].bytes);
  test::Screen screen({"top", test::kQueue, "--interval", "100ms"});
  REQUIRE(screen.shows("QUEUE"));
  screen.type("\n");
  REQUIRE(screen.shows("000000000041"));  // the first dead message
  screen.type("\n");
  CHECK(screen.shows("deliveries"));
  screen.type("q");
  screen.type("q");
  screen.type("q");
  CHECK(screen.code() == 0);
  CHECK(screen.seen().strange().empty());
}

TEST_CASE("hostile Redis: work runs its command with complete ids, and prints nothing unsafe") {
  for (const HostileValue& value : all_values()) {
    for (const Fields fields : {Fields::others, Fields::counted}) {
      CAPTURE(value.name);
      test::build_spoiled(fields, value.bytes);
      for (const char* key : {":unack", ":paused", ":pending"}) test::redis().cmd({"DEL", test::kBase + key});
      const Ran ran = run({"work", test::kQueue, "-o", "ndjson", "--until-empty", "--concurrency", "8", "--exec",
                           "echo \"$DQ_ID\" >&2"});
      CHECK(ran.signal == 0);
      CHECK_FALSE(test::is_unsafe(ran.out));
      CHECK_FALSE(test::is_unsafe(ran.err));
      for (const json& line : lines_of(ran.out)) CHECK(line.at("id").get<std::string>().size() == 36);
    }
  }
}

TEST_CASE("hostile Redis: events skips malformed events, in every form") {
  test::build_queue();
  std::atomic<bool> over{false};
  const std::string socket = test::server().socket();
  std::thread sender([&] {
    Redis redis(socket);
    while (!over) {
      for (const HostileValue& value : all_values()) {
        redis.cmd({"PUBLISH", "dq:q:reportEvents", value.bytes});
        redis.cmd({"PUBLISH", "dq:q:reportEvents", "2 " + value.bytes + " 1"});
        redis.cmd({"PUBLISH", "dq:q:reportEvents", value.bytes + " 1 1"});
        redis.cmd({"PUBLISH", "dq:q:reportEvents", "2 1 " + value.bytes});
      }
      redis.cmd({"PUBLISH", "dq:q:reportEvents", "2 1700000000 42"});
    }
  });
  for (const char* form : {"table", "json", "ndjson"}) {
    const Ran ran = expect(test::run_here({"events", test::kQueue, "--limit", "50", "-o", form}), 0);
    CHECK_FALSE(test::is_unsafe(ran.out + ran.err));
    CHECK(has(ran.out, "42"));
    if (form == std::string("json")) CHECK(parse_json(ran.out).at("events").size() == 50);
    if (form == std::string("ndjson")) CHECK(lines_of(ran.out).size() == 50);
  }
  over = true;
  sender.join();
}
