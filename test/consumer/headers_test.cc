// Headers from the producer to the handler.
#include "support/test.h"

#include <delayqueue/testing.h>

#include "support/answers.h"
#include "support/partitioned.h"

namespace delayqueue {
namespace {

using test::Partitioned;

Headers some_headers() {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  return {{"content-type", "text/plain"}, {"b", bytes}, {"a", ""}};
}

SendOptions with_headers(const Headers& headers) {
  SendOptions options;
  options.headers = headers;
  return options;
}

// The headers that the handler sees, by payload.
std::map<std::string, Headers> by_payload(const Ledger& ledger) {
  std::map<std::string, Headers> all;
  for (const Ledger::Entry& entry : ledger.entries()) all[entry.message.payload()] = entry.message.headers();
  return all;
}

TEST_CASE(
    "headers: a handler sees those of its message, by whichever call it was sent, and an ack leaves nothing stored") {
  Queue queue;
  const std::string large(200'000, 'x');
  SendOptions own_id = with_headers({{"by", "own id"}});
  own_id.id = test::kId;
  queue.producer.send("one", with_headers(some_headers()));
  queue.producer.send("none");
  queue.producer.send(large, with_headers({{"by", "large"}}));
  queue.producer.send("own id", own_id);
  queue.producer.send_batch({"batch 1", "batch 2"}, with_headers({{"by", "batch"}}));
  queue.producer.send_batch(
      {{"first", with_headers({{"n", "1"}})}, {"second", {}}, {"third", with_headers({{"n", "3"}})}});
  queue.producer.send_async("async", with_headers({{"by", "async"}})).get();
  SendOptions later = with_headers({{"by", "later"}});
  later.delay = 20ms;
  queue.producer.send("later", later);
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  CHECK(eventually([&] { return ledger.settles(11) && queue.empty(); }, kPatience));
  const std::map<std::string, Headers> wanted = {{"one", some_headers()},        {"none", {}},
                                                 {large, {{"by", "large"}}},     {"own id", {{"by", "own id"}}},
                                                 {"batch 1", {{"by", "batch"}}}, {"batch 2", {{"by", "batch"}}},
                                                 {"first", {{"n", "1"}}},        {"second", {}},
                                                 {"third", {{"n", "3"}}},        {"async", {{"by", "async"}}},
                                                 {"later", {{"by", "later"}}}};
  CHECK((by_payload(ledger) == wanted));
}

TEST_CASE("headers: each delivery of a message has them, also after a dead letter was redriven") {
  Queue queue;
  SendOptions options = with_headers({{"k", "v"}});
  options.retries = 1;
  const std::string id = queue.producer.send("x", options).id;
  Ledger ledger;
  ConsumerOptions at_once = quick(1);
  at_once.backoff = Backoff::fixed(0ms);
  bool redriven = false;
  const auto consumer =
      queue.consumer(ledger.watch([&](const Message&) { return redriven ? ack() : nack("why"); }), at_once);
  consumer->start();
  CHECK(eventually([&] { return queue.inspector.counts().dead == 1; }, kPatience));
  CHECK(consumer->stop());
  redriven = true;
  CHECK(queue.admin.redrive(std::vector<std::string>{id}).size() == 1);
  const auto second = queue.consumer(ledger.watch([](const Message&) { return ack(); }), at_once);
  second->start();
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  REQUIRE(ledger.size() == 3);
  for (const Ledger::Entry& entry : ledger.entries()) CHECK((entry.message.headers() == Headers{{"k", "v"}}));
}

TEST_CASE("headers: a send that is repeated with others leaves the message as it is") {
  Queue queue;
  SendOptions options = with_headers({{"k", "first"}});
  options.id = test::kId;
  CHECK(queue.producer.send("x", options).created());
  options.headers.set("k", "second");
  CHECK_FALSE(queue.producer.send("x", options).created());
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK((by_payload(ledger) == std::map<std::string, Headers>{{"x", {{"k", "first"}}}}));
}

TEST_CASE("headers: many of them at their limits arrive, in steps of bounded size") {
  Queue queue;
  const Headers most{{"a", std::string(Headers::kMostBytes - 4, 'x')}};
  queue.producer.send_batch(std::vector<std::string>(300, "x"), with_headers(most));
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), quick(8));
  consumer->start();
  CHECK(eventually([&] { return ledger.settles(300) && queue.empty(); }, kPatience));
  for (const Ledger::Entry& entry : ledger.entries()) CHECK((entry.message.headers() == most));
}

TEST_CASE("headers: a name that begins with dq- is refused by set(), and those of a received message by every send") {
  Queue queue;
  const std::string refused = "names that begin with \"dq-\" are reserved; use another name";
  for (const char* name : {"dq-", "dq-x", "DQ-x", "dQ-trace"}) {
    Headers headers{{"fine", "v"}};
    CHECK(thrown([&] { headers.set(name, "v"); }) ==
          "invalid_argument: header \"" + std::string(name) + "\": " + refused);
    CHECK((headers == Headers{{"fine", "v"}}));
    CHECK(thrown([&] { Headers({{"fine", "v"}, {name, "v"}}); }).find(refused) != std::string::npos);
  }
  // As a later version may store it.
  const std::string id = queue.producer.send("x").id;
  test::redis().cmd({"HSET", queue.base + ":headers", id,
                     "\x04"
                     "dq-x\x01v"});
  SendOptions options;
  options.headers = queue.inspector.find(id)->headers;
  REQUIRE(options.headers.find("dq-x") != nullptr);
  const auto is_refused = [&](const std::string& text) { CHECK(text.find(refused) != std::string::npos); };
  is_refused(thrown([&] { queue.producer.send("x", options); }));
  is_refused(thrown([&] { static_cast<void>(queue.producer.send_async("x", options)); }));
  is_refused(thrown([&] { queue.producer.send_batch({"x"}, options); }));
  is_refused(thrown([&] { queue.producer.send_batch({{"x", {}}, {"y", options}}); }));
  CHECK(queue.producer.cancel(id) == State::ready);
  for (const char* name : {"dq", "d", "dqx-"}) queue.producer.send("x", with_headers({{name, "v"}}));
  CHECK(queue.inspector.counts().totals.sent == 4);
}

TEST_CASE("headers: a message whose stored headers are damaged is delivered without, with one warning") {
  Queue queue;
  const std::string id = queue.producer.send("x", with_headers({{"k", "v"}})).id;
  queue.producer.send("y", with_headers({{"k", "v"}}));
  test::redis().cmd({"HSET", queue.base + ":headers", id, "\x01k"});
  test::Lines lines;
  ConsumerOptions options = quick(1);
  options.logger = lines.logger();
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), options);
  consumer->start();
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK((by_payload(ledger) == std::map<std::string, Headers>{{"x", {}}, {"y", {{"k", "v"}}}}));
  CHECK(lines.count(Severity::warning, "without their headers") == 1);
  CHECK(lines.find("without their headers").find(id) != std::string::npos);
}

TEST_CASE("headers: a message that is cancelled while a consumer holds it is delivered with its own") {
  Queue queue;
  const std::string id = queue.producer.send("x", with_headers({{"k", "v"}})).id;
  Ledger ledger;
  test::Gate gate;
  const auto consumer = queue.consumer(ledger.watch([&](const Message&) {
    gate.pass();
    return ack();
  }));
  consumer->start();
  CHECK(ledger.reaches(1));
  CHECK(queue.producer.cancel(id) == State::unack);
  CHECK(test::redis().cmd({"HLEN", queue.base + ":headers"}) == 1);
  gate.open();
  CHECK(eventually([&] { return queue.empty(); }, kPatience));
  CHECK((by_payload(ledger) == std::map<std::string, Headers>{{"x", {{"k", "v"}}}}));
}

TEST_CASE("headers: a consumer deletes those that Go workers leave, as fast as they do") {
  Queue queue;
  std::vector<std::string> command = {"HSET", queue.base + ":headers"};
  for (int i = 0; i < 2000; ++i) {
    std::string number = std::to_string(10'000 + i);
    command.push_back("0197f3a4-5b6c-7d8e-9f01-2345678" + number);
    command.push_back(std::string(100, 'x'));
  }
  test::redis().cmd(command);
  SendOptions later = with_headers({{"k", "v"}});
  later.delay = 1h;
  queue.producer.send("x", later);
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  CHECK(eventually([&] { return test::redis().cmd({"HLEN", queue.base + ":headers"}) == 1; }, kPatience));
}

TEST_CASE("headers: those of messages in every partition arrive") {
  Partitioned queue(4);
  queue.producer.send_batch(std::vector<std::string>(1000, "x"), with_headers({{"k", "v"}}));
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch(), quick(8));
  consumer->start();
  CHECK(ledger.settles(1000));
  for (const Ledger::Entry& entry : ledger.entries()) CHECK((entry.message.headers() == Headers{{"k", "v"}}));
}

TEST_CASE("headers: those of make_message are the ones of its fields") {
  MessageFields fields;
  fields.headers = some_headers();
  CHECK((make_message("x", fields).headers() == some_headers()));
  CHECK(make_message("x").headers().empty());
}

}  // namespace
}  // namespace delayqueue
