// Ages on the screen where clocks differ: the time in the ids and the time of death are an hour ahead of Redis' clock.
#include "preamble.h"

#include "screen.h"
#include "support/regex.h"

namespace {

const std::string kBase = "dp:q";

std::string send_with_id(const std::string& id, std::chrono::milliseconds delay = 0ms) {
  delayqueue::SendOptions options;
  options.id = id;
  options.delay = delay;
  return delayqueue::Producer(test::server().url(), "q").send("x", options).id;
}

// Makes one message in each of ready, retry and dead. All of their times lie in the future.
std::vector<std::string> make_one_of_each() {
  test::empty_server();
  const std::string ready = send_with_id(test::id_made(-1h, 1));
  const std::string retry = send_with_id(test::id_made(-1h, 2), 1h);
  const std::string dead = send_with_id(test::id_made(-1h, 3), 1h);
  test::redis().cmd({"ZREM", kBase + ":pending", retry});
  test::redis().cmd({"LPUSH", kBase + ":retry", retry});
  const auto buried = delayqueue::QueueAdmin(test::server().url(), "q").bury({dead});
  CHECK(buried.front() == delayqueue::Outcome::done);
  const auto now = std::stoll(test::redis().cmd({"TIME"}).strings()[0]);
  test::redis().cmd({"ZADD", kBase + ":dead", "XX", std::to_string(now + 3600), dead});
  return {ready, retry, dead};
}

void check_ages(std::string text, const std::vector<std::string>& ids) {
  for (const std::string& id : ids) {
    for (std::size_t at = text.find(id); at != text.npos; at = text.find(id)) text.erase(at, id.size());
  }
  CAPTURE(text);
  CHECK_FALSE(test::is_found(text, "-[0-9]+(ms|[smhd])"));
  CHECK_FALSE(test::is_found(text, "(sent |up |  |\\()in [0-9]"));
}

}  // namespace

TEST_CASE("ages: with clocks that differ, no age is negative, and no past event is shown as a future one") {
  const auto ids = make_one_of_each();
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"ls", "q", "--state", "ready"},
                                                    {"ls", "q", "--state", "retry"},
                                                    {"ls", "q", "--state", "dead"},
                                                    {"show", "q", ids[0], ids[1], ids[2]},
                                                    {"stats", "q"},
                                                    {"stuck", "q", "--look", "10ms", "--warn", "0s"},
                                                    {"stuck", "--look", "10ms", "--warn", "0s"},
                                                    {"purge", "q", "--state", "ready", "--all"},
                                                    {"purge", "q", "--state", "dead", "--all"},
                                                    {"redrive", "q", "--all"}}) {
    CAPTURE(arguments[0]);
    CAPTURE(arguments.back());
    const Ran ran = run(arguments);
    CHECK((ran.code == 0 || ran.code == 5));
    CHECK(ran.out.size() > 10);
    check_ages(ran.out + ran.err, ids);
  }
  const json queue = parse_json(run({"stuck", "q", "--look", "10ms", "--warn", "0s", "-o", "json"}).out);
  REQUIRE(queue.at("findings").size() > 1);
  for (const json& finding : queue.at("findings")) CHECK((finding.at("age_ms").is_null() || finding.at("age_ms") >= 0));
}

TEST_CASE("ages: top shows no negative age of a queue or message") {
  const auto ids = make_one_of_each();
  test::Screen screen({"top", "--interval", "200ms"});
  REQUIRE(screen.shows("> q"));
  // OLDEST counts by Redis' clock alone: the time since the test sent, not the hour to the times in the ids.
  CAPTURE(screen.seen().line(2));
  CHECK(test::is_found(screen.seen().line(2), " [0-9]+(ms|s)( |$)"));
  CHECK_FALSE(test::is_found(screen.seen().line(2), "[0-9][mhd]( |$)"));
  check_ages(screen.seen().text(), ids);
  screen.type("\r");
  for (const char* tab : {"2", "4", "5"}) {
    screen.type(tab);
    REQUIRE(screen.shows("[" + std::string(tab)));
    REQUIRE(screen.shows("> …"));
    check_ages(screen.seen().text(), ids);
    screen.type("\r");
    REQUIRE(screen.shows("\n  sent "));
    check_ages(screen.seen().text(), ids);
    screen.type("q");
  }
}

TEST_CASE("ages: the sample of purge shows when pending messages are due") {
  test::empty_server();
  test::send("q", {"x"}, 1h);
  const Ran ran = run({"purge", "q", "--state", "pending", "--all"});
  CHECK(has(ran.out + ran.err, "in 59m"));
}
