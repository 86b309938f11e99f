// Tests of dqctl find.
#include "preamble.h"

#include "support/partitioned.h"

namespace {

const std::string kNowhere = "0197f3a4-5b6c-7d8e-9f01-23456789abcd";

json found_by(std::vector<std::string> arguments, int code = 0) {
  arguments.insert(arguments.begin(), "find");
  arguments.insert(arguments.end(), {"-o", "json"});
  const Ran ran = run(arguments);
  CHECK_MESSAGE(ran.code == code, ran.err);
  return parse_json(ran.out);
}

std::vector<std::string> queues_in(const json& document) {
  std::vector<std::string> queues;
  for (const json& message : document.at("messages")) queues.push_back(message.at("queue"));
  return queues;
}

}  // namespace

TEST_CASE("find: an id is found in all queues that have it, with its state, and no payload is read") {
  test::empty_server();
  const std::string id = test::send("orders", {"x"}, 1h).front();
  test::make_dead("others", {"mentions " + id}, "why");
  delayqueue::Producer(test::server().url(), "mails").send("y", with(&delayqueue::SendOptions::id, id));

  expect(run({"find", id}), 0,
         {err_is(""), out_has(id + "  mails   ready"), out_has(id + "  orders  pending"), out_lacks("others")});
  const json all = found_by({id});
  CHECK(all.at("text") == id);
  CHECK(queues_in(all) == std::vector<std::string>{"mails", "orders"});
  CHECK(holds(all.at("messages")[1], {{"id", id}, {"state", "pending"}}));
  CHECK(holds(all, {{"examined", 0}, {"complete", true}}));
  CHECK(all.at("errors").empty());
  CHECK(queues_in(found_by({id, "--in", "payload"})) == std::vector<std::string>{"others"});
}

TEST_CASE("find: an id that no message has is searched for in payloads") {
  test::empty_server();
  test::send("orders", {"reply to " + kNowhere});
  CHECK(queues_in(found_by({kNowhere})) == std::vector<std::string>{"orders"});
  const json none = found_by({kNowhere, "--in", "id"}, 3);
  CHECK(none.at("messages").empty());
  CHECK(none.at("examined") == 0);
}

TEST_CASE("find: a part of a payload is found in every state, and its * and ? are no wildcards") {
  test::empty_server();
  test::send("a", {"pending {\"user\":42,*?\\}"}, 1h);
  test::send("a", {"ready {\"user\":42,}"});
  test::make_dead("b", {"dead {\"user\":42,}", "dead {\"user\":421,}"}, "42");
  test::hold("c", 1h);
  const json all = found_by({"\"user\":42,"});
  CHECK(queues_in(all) == std::vector<std::string>{"a", "a", "b"});
  CHECK(all.at("examined") == 5);
  CHECK(queues_in(found_by({"*?\\"})) == std::vector<std::string>{"a"});
  CHECK(queues_in(found_by({"?\\*"}, 3)).empty());
  CHECK(queues_in(found_by({"held"})) == std::vector<std::string>{"c"});
  CHECK(queues_in(found_by({"--in", "payload", "USER"}, 3)).empty());
}

TEST_CASE("find: --in reason searches the reasons only") {
  test::empty_server();
  test::make_dead("a", {"timeout"}, "no such user");
  test::make_dead("b", {"x"}, "gateway timeout after 3 s");
  const json all = found_by({"--in", "reason", "timeout"});
  CHECK(queues_in(all) == std::vector<std::string>{"b"});
  CHECK(all.at("messages")[0].at("reason") == "gateway timeout after 3 s");
}

TEST_CASE("find: nothing found is exit code 3, and a text that is no id is wrong usage with --in id") {
  test::empty_server();
  test::send("a", {"x"});
  test::send("b", {"x"});
  expect(run({"find", "y"}), 3, {out_is(""), err_is("found nothing in 2 queues\n")});
  CHECK(run({"find", "y", "--in", "id"}).code == 2);
  CHECK(run({"find", ""}).code == 2);
}

TEST_CASE("find: it ends after --limit messages, and tells that there may be more") {
  test::empty_server();
  test::send("a", test::numbered(30));
  const Ran table = run({"find", "payload"});
  CHECK(std::count(table.out.begin(), table.out.end(), '\n') == 21);
  CHECK(table.err == "there may be more; --limit 0 shows all\n");
  const json some = found_by({"payload", "--limit", "7"});
  CHECK(some.at("messages").size() == 7);
  CHECK(some.at("complete") == false);
  CHECK(found_by({"payload", "--limit", "0"}).at("messages").size() == 30);
}

TEST_CASE("find: a queue that cannot be read hides no other one") {
  test::empty_server();
  test::send("bad", {"x"});
  test::send("good", {"x"});
  test::redis().cmd({"DEL", "dp:bad:ready"});
  test::redis().cmd({"SET", "dp:bad:ready", "of another program"});
  const json all = found_by({"x"}, 4);
  CHECK(queues_in(all) == std::vector<std::string>{"good"});
  CHECK(all.at("complete") == false);
  REQUIRE(all.at("errors").size() == 1);
  CHECK(all.at("errors")[0].at("queue") == "bad");
  CHECK(has(all.at("errors")[0].at("error"), "WRONGTYPE"));
  CHECK(has(run({"find", "x"}).err, "not searched to the end: bad: "));
  test::empty_server();
}

TEST_CASE("find: nothing found is exit code 4 if a queue could not be read, and 1 if none could") {
  test::empty_server();
  test::send("bad", {"x"});
  test::redis().cmd({"DEL", "dp:bad:ready"});
  test::redis().cmd({"SET", "dp:bad:ready", "of another program"});
  CHECK(run({"find", "y"}).code == 1);
  test::send("good", {"x"});
  CHECK(run({"find", "y"}).code == 4);
  CHECK(run({"find", "y"}, at("unix:///nonexistent/redis.sock")).code == 1);
  test::empty_server();
}

TEST_CASE("find: a message in a partition is found by its id and by its payload") {
  test::empty_server();
  test::Partitioned queue(4);
  queue.send("from a Producer, which adds the queue to the list of queues");
  const std::string id = queue.to.send(3, "the payload", 1h);
  for (const std::string& text : {id, std::string("the pay")}) {
    const json all = found_by({text});
    REQUIRE(all.at("messages").size() == 1);
    CHECK(holds(all.at("messages")[0], {{"partition", 3}, {"id", id}}));
  }
}

TEST_CASE("find: control characters of ids, names and payloads are escaped") {
  test::empty_server();
  test::send("q\033[2J", {"needle\033[31m"});
  const Ran table = run({"find", "needle"});
  CHECK(has(table.out, "q\\x1b[2J"));
  CHECK(has(table.out, "needle\\x1b[31m"));
  CHECK(table.out.find('\033') == std::string::npos);
}
