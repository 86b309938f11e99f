#include "support/test.h"

#include "store/record.h"
#include "support/entropy.h"
#include "support/proxy.h"

namespace delayqueue {
namespace {

using test::redis;

std::string body(const Queue& queue, const Sent& sent) {
  return redis().cmd({"GET", queue.base + ":msg:" + sent.id}).text;
}

TEST_CASE("send_batch: takes batches of any size, and returns the results in the order of the payloads") {
  for (const std::size_t count : {0U, 1U, 2U, 199U, 200U, 201U, 400U, 401U}) {
    CAPTURE(count);
    Queue queue;
    const std::vector<std::string> payloads = numbers(count);
    const std::vector<Sent> sent = queue.producer.send_batch(payloads);
    REQUIRE(sent.size() == count);
    for (std::size_t i = 0; i < count; ++i) {
      CHECK(sent[i].created());
      CHECK(body(queue, sent[i]) == payloads[i]);
      if (i > 0) CHECK(sent[i - 1].id < sent[i].id);
    }
    CHECK(queue.inspector.counts().ready == count);
    const auto first = queue.inspector.list(State::ready);
    if (count > 0) CHECK(first.messages.front().id == sent.front().id);
    if (count == 0) CHECK(queue.kept().empty());
  }
}

TEST_CASE("send_batch: takes any range of strings or string views") {
  Queue queue;
  const auto check = [&](const std::vector<Sent>& sent, const std::vector<std::string>& payloads) {
    REQUIRE(sent.size() == payloads.size());
    for (std::size_t i = 0; i < sent.size(); ++i) CHECK(body(queue, sent[i]) == payloads[i]);
  };
  const std::list<std::string> list = {"a", "b", "c"};
  check(queue.producer.send_batch(list), {"a", "b", "c"});
  const std::array<std::string_view, 3> views = {{"d", {}, std::string_view("e\0f", 3)}};
  check(queue.producer.send_batch(views), {"d", "", std::string("e\0f", 3)});
  const std::set<std::string> set = {"i", "h", "g"};
  check(queue.producer.send_batch(set), {"g", "h", "i"});
  const char* const texts[] = {"j", "k", "l"};
  check(queue.producer.send_batch(texts), {"j", "k", "l"});
  check(queue.producer.send_batch(texts, delayed(1h)), {"j", "k", "l"});
  check(queue.producer.send_batch({"m", "n"}), {"m", "n"});
  check(queue.producer.send_batch(std::list<std::string>()), {});
  CHECK(queue.inspector.counts().ready == 14);
  CHECK(queue.inspector.counts().pending == 3);
}

TEST_CASE("send_batch: keeps the order of the payloads when the server has lost the scripts") {
  Queue queue;
  const std::vector<std::string> payloads = numbers(4000);
  redis().cmd({"SCRIPT", "FLUSH"});
  queue.producer.send_batch(payloads);
  std::vector<std::string> found;
  auto page = with(&ListOptions::limit, 1000);
  do {
    const MessagePage some = queue.inspector.list(State::ready, page);
    for (const MessageInfo& message : some) found.push_back(message.payload);
    page.cursor = some.next;
  } while (!page.cursor.empty());
  CHECK((found == payloads));
}

TEST_CASE("send_batch: no script call has more than 200 messages or 256 KiB, except for a larger single payload") {
  struct Row {
    std::vector<std::string> payloads;
    std::size_t steps;
  };
  const std::string quarter(256 * 1024, 'q');
  const std::string half(128 * 1024, 'h');
  const std::string large(1024 * 1024, 'l');
  const Row rows[] = {
      {numbers(200), 1},          {numbers(201), 2},
      {{half, half}, 1},          {{half, half, "x"}, 2},
      {{half, quarter, half}, 3}, {{quarter, quarter, quarter}, 3},
      {{large, "x", large}, 3},   {std::vector<std::string>(40, half), 20},
  };
  Queue warm;
  warm.producer.send("x");  // loads the script and connects
  for (const Row& row : rows) {
    CAPTURE(&row - rows);
    Queue queue(warm.url);
    CHECK(queue.producer.cancel("0197f3a4-5b6c-7d8e-9f01-23456789abcd") == State::unknown);  // connects
    const std::size_t before = test::calls_of("evalsha");
    const std::vector<Sent> sent = queue.producer.send_batch(row.payloads);
    CHECK(test::calls_of("evalsha") - before == row.steps);
    REQUIRE(sent.size() == row.payloads.size());
    for (std::size_t i = 0; i < sent.size(); ++i) CHECK((body(queue, sent[i]) == row.payloads[i]));
  }
}

TEST_CASE("send_batch: while Redis executes one part of a large batch, the next one is on its way, and no third one") {
  PrivateServer own;
  test::Redis client(own.socket());
  test::FaultProxy proxy(own.socket());
  ClientOptions options;
  options.command_timeout = 2 * test::kPatience;
  Producer producer({proxy.url(), options}, test::fresh_queue(), one_attempt());
  producer.send_batch({"loads", "the script"});
  const std::size_t before = test::calls_of("evalsha", client);
  const auto calls = [&] { return test::calls_of("evalsha", client) - before; };
  proxy.hold_replies(true);
  std::size_t sent = 0;
  std::thread sender([&] { sent = producer.send_batch(numbers(20'000)).size(); });
  CHECK(test::eventually([&] { return calls() >= 2 * 4; }, test::kPatience));  // each part has four calls for 200 each
  std::this_thread::sleep_for(200ms);                                          // a third part would follow
  CHECK(calls() == 2 * 4);
  proxy.hold_replies(false);
  sender.join();
  CHECK(sent == 20'000);
  CHECK(calls() == 20'000 / 200);
}

TEST_CASE("send_batch: 5,000 messages with mixed options and sizes are stored as each asks for") {
  Queue queue;
  std::vector<OutgoingMessage> messages;
  for (std::size_t i = 0; i < 5000; ++i) {
    OutgoingMessage message;
    message.payload = std::to_string(i) + std::string(i % 97 == 0 ? 20'000 : i % 13, 'x');
    if (i % 3 == 0) message.options.delay = 1h;
    if (i % 5 == 0) message.options.retries = static_cast<int>(i % 11);
    if (i % 7 == 0) message.options.ttl = 2h;
    messages.push_back(message);
  }
  const std::vector<Sent> sent = queue.producer.send_batch(messages);
  REQUIRE(sent.size() == messages.size());
  std::set<std::string> different;
  for (const Sent& one : sent) different.insert(one.id);
  CHECK(different.size() == messages.size());
  const Counts counts = queue.inspector.counts();
  CHECK(counts.pending == 1667);
  CHECK(counts.ready == 3333);
  CHECK(counts.totals.sent == 5000);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < sent.size(); i += 7) {
    const auto found = queue.inspector.find(sent[i].id);
    const bool as_asked = found && found->payload == messages[i].payload &&
                          found->state == (i % 3 == 0 ? State::pending : State::ready) &&
                          found->retries == messages[i].options.retries.value_or(3);
    const bool expires = redis().cmd({"PTTL", queue.base + ":msg:" + sent[i].id}).integer > 0;
    wrong += as_asked && expires ? 0 : 1;
  }
  CHECK(wrong == 0);
}

TEST_CASE("send_batch: messages with equal due times keep the order of the payloads") {
  Queue queue;
  const std::vector<Sent> sent =
      queue.producer.send_batch(numbers(600), with(&SendOptions::at, std::chrono::system_clock::now() + 1h));
  std::vector<std::string> expected, found;
  for (const Sent& one : sent) expected.push_back(one.id);
  const auto page = with(&ListOptions::limit, 1000);
  for (const MessageInfo& one : queue.inspector.list(State::pending, page)) found.push_back(one.id);
  CHECK(found == expected);
}

TEST_CASE("send_batch: when messages with ids are sent again, each result says that the message existed") {
  Queue queue;
  std::vector<OutgoingMessage> messages;
  for (int i = 0; i < 250; ++i) {
    OutgoingMessage message{std::to_string(i), {}};
    message.options.delay = 1h;
    if (i % 2 == 0) {
      char id[40];
      std::snprintf(id, sizeof id, "0197f3a4-5b6c-7d8e-9f01-%012d", i);
      message.options.id = id;
    }
    messages.push_back(message);
  }
  for (const Sent& one : queue.producer.send_batch(messages)) CHECK(one.created());
  const std::vector<Sent> again = queue.producer.send_batch(messages);
  REQUIRE(again.size() == messages.size());
  for (std::size_t i = 0; i < again.size(); ++i) {
    CHECK(again[i].created() == (i % 2 == 1));
    if (i % 2 == 0) CHECK(again[i].id == messages[i].options.id);
  }
  CHECK(queue.inspector.counts().pending == 375);
}

TEST_CASE("send_batch: an id that occurs twice in a batch creates one message") {
  Queue queue;
  const auto mine = with(&SendOptions::id, "0197f3a4-5b6c-7d8e-9f01-23456789abcd");
  const std::vector<Sent> sent = queue.producer.send_batch(
      {OutgoingMessage{"first", mine}, OutgoingMessage{"x", {}}, OutgoingMessage{"second", mine}});
  REQUIRE(sent.size() == 3);
  CHECK(sent[0].created());
  CHECK(sent[1].created());
  CHECK(!sent[2].created());
  CHECK(queue.inspector.counts().ready == 2);
  CHECK(queue.inspector.find(mine.id)->payload == "first");
}

#ifdef __linux__
TEST_CASE("send_batch: if a later part cannot be sent for lack of random bytes, those sent before are in doubt") {
  Queue queue(test::server().url(), one_attempt());
  queue.producer.send_batch(std::vector<std::string>(2, "x"));  // the server knows the script from now on
  std::vector<OutgoingMessage> messages(800, {"x", {}});        // as many as are sent at once
  const std::string large(50'000, 'y');
  for (int i = 0; i < 5; ++i) {
    messages.push_back(
        {large, with(&SendOptions::id, store::new_ids(1).front())});  // staged: its name needs random bytes
  }
  const auto transactions = [] { return test::info("commandstats", "cmdstat_multi"); };
  const std::string before = transactions();
  std::thread([&] {
    // Random bytes are fetched for 32 calls at a time.
    for (int i = 0; i < 31; ++i) {
      static_cast<void>(store::new_ids(1));
      std::this_thread::sleep_for(1us);  // calls within the same 244 ns share their random bytes
    }
    test::fail_next_entropy(EIO);
    std::vector<std::string> ids;
    try {
      queue.producer.send_batch(messages);
    } catch (const ConnectionError& e) {
      ids = e.ids();
    } catch (const Error&) {
    }
    CHECK(ids.size() == messages.size());
  }).join();
  // The server got some of them. How many it has stored, if any, depends on what it had read when the connection was
  // closed.
  CHECK(test::eventually([&] { return transactions() != before; }, test::kPatience));
}
#endif

}  // namespace
}  // namespace delayqueue
