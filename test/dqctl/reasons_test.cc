// Tests of dqctl reasons.
#include "preamble.h"

#include "reasons.h"
#include "support/partitioned.h"

namespace {

using dqctl::ReasonCounts;

delayqueue::MessageInfo dead_letter(const std::string& reason, int number, std::chrono::seconds at) {
  delayqueue::MessageInfo message;
  message.id = test::id_made(0s, number);
  message.state = delayqueue::State::dead;
  message.reason = reason;
  message.at = std::chrono::system_clock::time_point(at);
  return message;
}

json reasons_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"-o", "json"});
  const Ran ran = run(arguments);
  CHECK_MESSAGE(ran.code == 0, ran.err);
  return parse_json(ran.out);
}

}  // namespace

TEST_CASE("reasons: all dead letters are counted by reason, the most frequent first, with times and an id") {
  test::empty_server();
  test::make_dead("q", test::numbered(2), "rare");
  const auto frequent = test::make_dead("q", test::numbered(2100), "gateway timeout");
  test::make_dead("q", test::numbered(3), "");
  const Ran table = expect(run({"reasons", "q"}), 0, {err_is(""), out_has("COUNT  FIRST")});
  const std::size_t first = table.out.find("2,100  "), second = table.out.find("(no reason)"),
                    third = table.out.find("rare");
  CHECK(first < second);
  CHECK(second < third);
  CHECK(third < table.out.size());

  const json all = reasons_of({"reasons", "q"});
  CHECK(holds(all, {{"queue", "q"}, {"dead", 2105}, {"counted", 2105}, {"distinct", 3}, {"interrupted", false}}));
  REQUIRE(all.at("reasons").size() == 3);
  const json& one = all.at("reasons")[0];
  CHECK(holds(one, {{"reason", "gateway timeout"}, {"count", 2100}}));
  CHECK(std::count(frequent.begin(), frequent.end(), one.at("example")) == 1);
  const auto dead = lines_of(run({"ls", "q", "--state", "dead", "--limit", "0", "-o", "ndjson"}).out);
  const auto from = std::find_if(dead.begin(), dead.end(), [](const json& m) { return m["reason"] != "rare"; });
  CHECK(one.at("first") == from->at("at"));
  CHECK(one.at("last").get<std::string>() >= one.at("first").get<std::string>());
  CHECK(all.at("reasons")[1].at("reason") == "");
  CHECK(all.at("reasons")[2].at("count") == 2);
}

TEST_CASE("reasons: --limit shows the most frequent ones only, and tells how many more there are") {
  test::empty_server();
  for (int i = 0; i < 25; ++i) test::make_dead("q", test::numbered(1), "reason " + std::to_string(i));
  const Ran table = run({"reasons", "q"});
  CHECK(std::count(table.out.begin(), table.out.end(), '\n') == 21);
  CHECK(table.err == "more: 5; --limit 0 shows all\n");
  CHECK(lines_of(run({"reasons", "q", "--limit", "0", "-o", "ndjson"}).out).size() == 25);
  CHECK(reasons_of({"reasons", "q", "--limit", "3"}).at("reasons").size() == 3);
}

TEST_CASE("reasons: a queue without dead letters has none, and one that is not there is not found") {
  test::empty_server();
  test::send("q", {"x"});
  expect(run({"reasons", "q"}), 0, {out_is(""), err_is("q has no dead letter\n")});
  CHECK(reasons_of({"reasons", "q"}).at("reasons").empty());
  CHECK(run({"reasons", "nowhere"}).code == 3);
}

TEST_CASE("reasons: control characters in a reason are escaped, in tables and in JSON") {
  test::empty_server();
  test::make_dead("q", test::numbered(1), "\033]0;evil\007\nnext");
  const Ran table = run({"reasons", "q"});
  CHECK(has(table.out, "\\x1b]0;evil\\x07\\nnext"));
  CHECK(table.out.find('\033') == std::string::npos);
  CHECK(has(run({"reasons", "q", "-o", "ndjson"}).out, "\\u001b]0;evil\\u0007\\nnext"));
  test::make_dead("bytes", test::numbered(1), "\xff");
  CHECK(reasons_of({"reasons", "bytes"}).at("reasons")[0].at("reason_base64") == "/w==");
}

TEST_CASE("reasons: the dead letters of all partitions are counted, or of one") {
  test::Partitioned queue(4);
  delayqueue::QueueAdmin admin(test::server().url(), queue.name);
  for (unsigned partition = 0; partition < 4; ++partition) {
    const auto why = with(&delayqueue::BuryOptions::reason, partition == 3 ? "three" : "others");
    static_cast<void>(admin.bury({queue.to.send(partition, "x", 1h)}, why));
  }
  const json all = reasons_of({"reasons", queue.name}).at("reasons");
  REQUIRE(all.size() == 2);
  CHECK(holds(all[0], {{"reason", "others"}, {"count", 3}}));
  const json one = reasons_of({"reasons", queue.name, "--partition", "3"}).at("reasons");
  REQUIRE(one.size() == 1);
  CHECK(one[0].at("reason") == "three");
}

TEST_CASE("reasons: after SIGINT the counts so far are shown with a note") {
  test::empty_server();
  test::fill_dead(test::redis(), 200'000);
  test::redis().cmd({"CONFIG", "RESETSTAT"});
  Dqctl running({"reasons", "q", "-o", "json"});
  // Besides the pages of messages it calls only few scripts.
  REQUIRE(eventually([] {
    const std::string calls = test::info("commandstats", "cmdstat_evalsha", test::redis());
    return has(calls, "calls=") && std::stoi(calls.substr(calls.find('=') + 1)) > 20;
  }));
  running.signal(SIGINT);
  const Ran ran = expect(running.wait(), 4);
  const json all = parse_json(ran.out);
  CHECK(holds(all, {{"interrupted", true}, {"dead", 200'000}}));
  const auto counted = all.at("counted").get<std::uint64_t>();
  CHECK(counted > 0);
  CHECK(counted < 200'000);
  CHECK(all.at("reasons")[0].at("count").get<std::uint64_t>() + all.at("reasons")[1].at("count").get<std::uint64_t>() ==
        counted);
  CHECK(has(ran.err, " of 200,000 dead letters\n"));
  test::empty_server();
}

TEST_CASE("reasons: of more than 10,000 distinct ones the later ones are one sum, which is last") {
  ReasonCounts counts;
  int number = 0;
  for (std::size_t i = 0; i < ReasonCounts::kMost + 50; ++i) {
    counts.add(dead_letter("unique " + std::to_string(i), ++number, 100s));
  }
  counts.add(dead_letter("unique 7", ++number, 50s));
  CHECK(counts.messages() == ReasonCounts::kMost + 51);
  CHECK(counts.distinct() == ReasonCounts::kMost);
  const auto sorted = counts.sorted();
  REQUIRE(sorted.size() == ReasonCounts::kMost + 1);
  CHECK(sorted.front().reason == "unique 7");
  CHECK(sorted.front().count == 2);
  CHECK(*sorted.front().first == std::chrono::system_clock::time_point(50s));
  CHECK(*sorted.front().last == std::chrono::system_clock::time_point(100s));
  CHECK_FALSE(sorted.back().reason);
  CHECK(sorted.back().count == 50);
}

TEST_CASE("reasons: the example is the last dead letter with an id that commands accept") {
  ReasonCounts counts;
  counts.add(dead_letter("why", 1, 100s));
  counts.add(dead_letter("why", 2, 300s));
  counts.add(dead_letter("why", 3, 200s));
  delayqueue::MessageInfo foreign = dead_letter("why", 4, 400s);
  foreign.id = "no UUID";
  const std::string second = counts.sorted().front().example;
  counts.add(foreign);
  CHECK(counts.sorted().front().example == second);
  CHECK(second.substr(second.size() - 1) == "2");
  CHECK(counts.sorted().front().count == 4);
}
