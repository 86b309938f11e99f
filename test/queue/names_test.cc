#include "support/test.h"

namespace delayqueue {
namespace {

namespace app {
struct Failure {};
}  // namespace app

template <class Thrown>
std::string text_of(Thrown thrown) {
  try {
    throw thrown;
  } catch (...) {
    return current_exception_text();
  }
}

TEST_CASE("names: every public enumeration has those of its values") {
  CHECK(std::string(to_string(ack().kind())) == "ack");
  CHECK(std::string(to_string(nack().kind())) == "nack");
  CHECK(std::string(to_string(reject().kind())) == "reject");
  CHECK(std::string(to_string(snooze(milliseconds(1)).kind())) == "snooze");
  CHECK(std::string(to_string(Severity::debug)) == "debug");
  CHECK(std::string(to_string(Severity::error)) == "error");
  CHECK(std::string(to_string(EventKind::sent)) == "sent");
  CHECK(std::string(to_string(EventKind::dead_lettered)) == "dead_lettered");
  CHECK(std::string(to_string(Settlement::in_doubt)) == "in_doubt");
  CHECK(std::string(to_string(HashTag::automatic)) == "automatic");
  CHECK(std::string(to_string(HeldMessages::force)) == "force");
  CHECK(std::string(to_string(Durability::disk().kind())) == "disk");
  CHECK(std::string(to_string(RiskKind::coverage)) == "coverage");
  for (const auto& [outcome, name] : std::vector<std::pair<Outcome, std::string>>{{Outcome::done, "done"},
                                                                                  {Outcome::already, "already"},
                                                                                  {Outcome::held, "held"},
                                                                                  {Outcome::wrong_state, "wrong_state"},
                                                                                  {Outcome::no_payload, "no_payload"},
                                                                                  {Outcome::key_taken, "key_taken"},
                                                                                  {Outcome::unknown, "unknown"}}) {
    CHECK(to_string(outcome) == name);
  }
  for (const auto& [result, name] :
       std::vector<std::pair<SendResult, std::string>>{{SendResult::created, "created"},
                                                       {SendResult::existed, "existed"},
                                                       {SendResult::cancelled, "cancelled"},
                                                       {SendResult::replaced, "replaced"},
                                                       {SendResult::held, "held"}}) {
    CHECK(to_string(result) == name);
  }
  CHECK(std::string(to_string(State::unack)) == "unack");
  CHECK(std::string(to_string(Problem::stranded)) == "stranded");
  CHECK(std::string(to_string(static_cast<Severity>(99))) == "?");
  CHECK(std::string(to_string(static_cast<Outcome>(99))) == "?");
  CHECK(std::string(to_string(static_cast<SendResult>(99))) == "?");
}

TEST_CASE("names: verdicts are equal if kind, wait and reason are") {
  CHECK((ack() == ack()));
  CHECK((ack() != nack()));
  CHECK((nack("a") == nack("a")));
  CHECK((nack("a") != nack("b")));
  CHECK((nack("a") != reject("a")));
  CHECK((nack(milliseconds(5)) != nack()));
  CHECK((snooze(milliseconds(5)) == snooze(milliseconds(5))));
}

TEST_CASE("names: the text of an exception that is no std::exception has its type, and its value if it is a text") {
  CHECK(text_of(std::runtime_error("what")) == "what");
  CHECK(text_of("no such user") == "no such user (a const char*, no std::exception)");
  CHECK(text_of(static_cast<const char*>(nullptr)) == "null (a const char*, no std::exception)");
  CHECK(text_of(std::string("no such user")) == "no such user (a std::string, no std::exception)");
  CHECK(text_of(std::string_view("no such user")) == "no such user (a std::string_view, no std::exception)");
  CHECK(text_of(42) == "42 (an int, no std::exception)");
  CHECK(text_of(app::Failure()).find("an exception of type delayqueue::") == 0);
  CHECK(text_of(app::Failure()).find("app::Failure") != std::string::npos);
  CHECK(current_exception_text() == "no exception");
}

TEST_CASE("names: a consumer that was never started says so in last_error") {
  test::Queue queue;
  Consumer one(test::server().url(), queue.name, [](const Message&) { return ack(); });
  const std::string expected = "not started: call start() or run()";
  CHECK(one.metrics().stats.last_error == expected);
  CHECK_FALSE(one.metrics().stats.connected);
  CHECK(test::stats_of(one, queue.name).last_error == expected);
  Consumer several(test::server().url(), {{queue.name, [](const Message&) { return ack(); }},
                                          {queue.name + "2", [](const Message&) { return ack(); }}});
  CHECK(several.metrics().stats.last_error == expected);
  CHECK(test::stats_of(several, queue.name + "2").last_error == expected);
  for (Consumer* const consumer : {&one, &several}) {
    consumer->start();
    CHECK(consumer->metrics().stats.last_error.empty());
    CHECK(consumer->stop());
    CHECK(consumer->metrics().stats.last_error.empty());
  }
}

TEST_CASE("names: counts() of a queue that is not there says so") {
  test::Queue queue;
  CHECK_FALSE(queue.inspector.counts().known);
  const std::string id = queue.send("x");
  CHECK(queue.inspector.counts().known);
  CHECK(queue.producer.cancel(id) == State::ready);
  CHECK(queue.inspector.counts().known);
  CHECK(QueueAdmin(test::server().url(), queue.name).forget().none());
  CHECK_FALSE(queue.inspector.counts().known);
  Consumer consumer(test::server().url(), queue.name, [](const Message&) { return ack(); });
  consumer.start();
  CHECK(test::eventually([&] { return queue.inspector.counts().known; }));
  CHECK(consumer.stop());
}

}  // namespace
}  // namespace delayqueue
